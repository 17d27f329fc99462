"""A lane: the queue of one hook in this process, with the hook's own limits. No I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from workhook.core.clock import now_ms
from workhook.core.vault import Vault
from workhook.delivery.sign import HeaderStyle, Profile, Signer
from workhook.hooks.records import Hook
from workhook.storage import Row

DEFAULT_CONCURRENCY = 8
COLD_MS = 50.0
LATE_MS = 35_000  # a commit takes less (`storage.postgres.COMMAND_TIMEOUT_S`): so late may be seen what was due before
WHOLE_MS = 5_000  # how often all that is due is asked for, whatever was seen
BRISK_PER_S = 100  # a lane with a lower rate is slow while it waits for that


@dataclass(slots=True)
class Work:
    """One attempt to make: a dispatch that is due. `payload` None: it is loaded when its turn comes."""

    id: int
    event_id: int
    guid: str
    attempts: int
    retries: int
    wanted: int
    due_at: int
    event: str
    action: str | None
    repository_id: int | None
    size: int
    installation_id: int | None = None  # of the app that caused the event
    payload: bytes | None = None
    held: int = 0  # bytes that are counted for a payload that is here before its turn
    throttled_at: int | None = None
    started_at: int = 0
    slow: bool = False  # it was started for a receiver that times out


def work_of(row: Row) -> Work:
    """From a row of `queries.due_dispatches`."""
    return Work(
        id=row["id"],
        event_id=row["event_id"],
        guid=row["guid"],
        attempts=row["attempts"],
        retries=row["retries"],
        wanted=row["wanted"],
        due_at=row["next_attempt_at"],
        event=row["event"],
        action=row["action"],
        repository_id=row["repository_id"],
        size=row["size"],
        installation_id=row["installation_id"],
    )


def goes_before(one: Work, other: Work) -> bool:
    """First attempts go in the order of their numbers, whatever a clock said; else what was due first goes first."""
    if not one.attempts and not other.attempts:
        return one.id < other.id
    return (one.due_at, one.id) < (other.due_at, other.id)


@dataclass(slots=True, frozen=True)
class Offered:
    """What this process has just committed. `before`: what else of its hook was due when the commit began, whoever had
    committed it; None: too much to tell."""

    work: Work
    before: Sequence[int] | None


Known = Callable[[int], bool]
"""Whether a dispatch was recorded here a short while ago."""


def profile_of(hook: Hook, vault: Vault, header_prefix: str, now: int) -> Profile:
    """What the signer needs. Raises `VaultError` when the secret was sealed with another key."""
    secret, password = vault.open(hook.secret), vault.open(hook.password)
    previous = None
    if hook.previous_secret_until is not None and hook.previous_secret_until > now:
        previous = vault.open(hook.previous_secret)
    style: HeaderStyle = "github"
    if hook.config.get("header_style") == "service":
        style = "service"
    elif hook.config.get("header_style") == "standard":
        style = "standard"
    return Profile(
        hook_id=hook.id,
        target_id=hook.repository_id if hook.repository_id is not None else hook.account_id,
        target_type="repository" if hook.repository_id is not None else "organization",
        content_type=hook.content_type,
        secret=secret.encode() if secret else None,
        previous_secret=previous.encode() if previous else None,
        header_style=style,
        header_prefix=header_prefix,
        username=hook.config.get("username"),
        password=password,
        installation_id=hook.installation_id,
    )


def signer_until(hook: Hook, now: int) -> int | None:
    """When a signer made now has to be made anew, because the previous secret stops signing."""
    until = hook.previous_secret_until
    return until if until is not None and until > now else None


@dataclass(slots=True, eq=False)
class Lane:
    """`ready` waits for a slot; `flying` is sent or waits to be recorded: a slot is held until the commit."""

    hook: Hook
    signer: Signer
    lease_until: int  # nothing starts later than this: another process may have the lane by then
    failing_since: int | None = None
    signer_until: int | None = None  # when the previous secret stops signing
    ready: deque[Work] = field(default_factory=deque)
    flying: dict[int, Work] = field(default_factory=dict)
    more: bool = True  # the database may hold more that is due
    reading: bool = False  # and is being asked
    again: bool = False  # it has to be asked again first
    incoming: list[Offered] = field(default_factory=list)  # what was offered meanwhile
    read_turn: int = 0  # when it was read for: who has waited longest is next
    since: int = 0  # what was due before is done, or in hand
    whole_at: int = 0  # when it was last asked for all that is due
    stale: bool = False  # the hook has changed: load it before anything else is sent
    halted: bool = False  # the hook is being turned off
    leaving: bool = False  # start nothing more: the lane goes to another process
    hungry: bool = False  # waits for room in the process
    alarm: bool = False  # will be looked at again when its wait is over
    timing_out: bool = False
    sluggish: bool = False  # the last answer took long
    warm: bool = False  # the receiver has answered: its connections stand
    last_start_ms: int = 0
    idle_since: int = 0
    next_start_ms: float = 0.0
    times_until: int | None = 0  # up to there it is known when something is due later; None: all of it is
    epoch: int = 0  # the life of this process in which it was loaded: what is sent by it is recorded with it

    def __post_init__(self) -> None:
        # Known to fail since before: it may hang, so it begins with one slot.
        self.timing_out = self.failing_since is not None

    @property
    def slots(self) -> int:
        """A receiver that timed out gets one slot until it answers: hung receivers must not fill the process."""
        if self.timing_out:
            return 1
        return int(self.hook.config.get("max_concurrency", DEFAULT_CONCURRENCY))

    @property
    def retries_allowed(self) -> int | None:
        """None: as the settings say."""
        configured = self.hook.config.get("retries")
        return None if configured is None else int(configured)

    @property
    def working(self) -> bool:
        """There is something to send, in hand or in the database."""
        return bool(self.ready or self.flying or self.more)

    def replace_hook(self, hook: Hook, signer: Signer, failing_since: int | None) -> None:
        """The hook as it is now. What was waiting is read again: it may have been dropped."""
        self.hook, self.signer = hook, signer
        self.signer_until = signer_until(hook, now_ms())
        self.failing_since = failing_since
        self.put_back(0)
        self.more = True

    def needs_signer(self, now: int) -> bool:
        """The previous secret has stopped signing."""
        return self.signer_until is not None and self.signer_until <= now

    def leave(self) -> None:
        """What is in flight ends; nothing else starts."""
        self.leaving = True
        self.ready.clear()
        self.incoming.clear()

    def take(self, now: int) -> Work | float | None:
        """The next attempt to start, or the milliseconds to wait, or None: no slot, or nothing to send now."""
        if self.leaving or self.stale or self.halted or now >= self.lease_until:
            return None
        if not self.ready or len(self.flying) >= self.slots:
            return None
        if not self.warm and self.flying and 0 < (wait_ms := self.last_start_ms + COLD_MS - now) <= COLD_MS:
            # A second connection could be faster than the first: until one stands, order goes before speed.
            return wait_ms
        rate = self.hook.config.get("rate_limit")
        if rate is not None:
            interval_ms = 1000 / int(rate)
            wait_ms = self.next_start_ms - now
            if 0 < wait_ms <= interval_ms + 1:  # longer: the clock was set back, or the rate was raised
                return wait_ms
            self.next_start_ms = min(max(self.next_start_ms, now - interval_ms), now) + interval_ms
        self.last_start_ms = now
        work = self.ready.popleft()
        self.flying[work.id] = work
        return work

    @property
    def thirsty(self) -> bool:
        """It wants what the database holds."""
        return self.more and not self.leaving and not self.stale and not self.halted

    def put_back(self, keep: int) -> None:
        """Keep so many of those that wait, the first; the others are in the database, and are read again."""
        while len(self.ready) > keep:
            self.ready.pop()
            self.more = True

    def put_off(self) -> None:
        """One that had begun to start was not sent, and is due as before: nothing behind it may go before it. So all
        is read again."""
        self.put_back(0)
        self.incoming.clear()
        self.more = True
        self.again = self.reading  # what is being read leaves out what was in flight

    def awaits_rate(self, now: int) -> bool:
        """Its next start is not soon."""
        rate = self.hook.config.get("rate_limit")
        return rate is not None and int(rate) < BRISK_PER_S and self.next_start_ms > now

    # --- what comes in: read, or handed over -------------------------------------------------------------------------

    def due_since(self, now: int) -> int:
        """From when on to ask for what is due (milliseconds)."""
        if not now - WHOLE_MS < self.whole_at <= now:
            self.whole_at, self.since = now, 0
        return self.since

    def saw(self, works: Sequence[Work]) -> None:
        """These were in hand when all that was due was read, or were read then. What was given back meanwhile is among
        them, so it is asked for again."""
        if works:
            self.since = max(0, min(work.due_at for work in works) - LATE_MS)

    def begin_read(self) -> None:
        """What is due is about to be read. A signal that comes meanwhile sets `more` again."""
        self.more, self.reading = False, True

    def end_read(self, found: Sequence[Work], *, full: bool, known: Known) -> bool:
        """What was read waits, and then what was offered meanwhile, if nothing lies between. `full`: there may be more
        that is due than was read. Answers whether something is left in the database of which no signal tells."""
        again, self.reading, self.again = self.again, False, False
        incoming, self.incoming = self.incoming, []
        if self.leaving or again:
            return again
        for work in found:
            if work.id not in self.flying:
                self.add(work)
        self.more = self.more or full
        for offered in incoming:
            if not self.more:
                self._take_over(offered, known)
        return self.more and bool(incoming)

    def offer(self, offered: Offered, version: int, known: Known) -> bool:
        """Take over what was just committed, if all that was due before it is here or done, and the hook is the one
        for which it was committed. Else it is read, after what comes before it. It may have been read already: its
        commit was to be seen before its end was heard of."""
        if self.leaving or self.stale or self.halted or self.hook.version != version or not self.hook.active:
            self.more = True
        if self.more:
            return False
        if self.reading:
            self.incoming.append(offered)
            return True
        return self._take_over(offered, known)

    def _take_over(self, offered: Offered, known: Known) -> bool:
        before = offered.before
        if before is None:
            self.more = True
            return False
        waiting = {work.id for work in self.ready}
        if any(each not in waiting and each not in self.flying and not known(each) for each in before):
            self.more, self.since = True, 0  # whenever that was due
            return False
        id_ = offered.work.id
        if id_ not in waiting and id_ not in self.flying and not known(id_):
            self.add(offered.work)
        return True

    def add(self, work: Work) -> None:
        """It waits for a slot, behind what goes before it. A first attempt goes before all with a higher number, also
        where a repeat stands between them."""
        place = len(self.ready)
        for number in range(place - 1, -1, -1):
            other = self.ready[number]
            if goes_before(work, other):
                place = number
            elif not other.attempts:
                break
        self.ready.insert(place, work)

    # --- what goes out -----------------------------------------------------------------------------------------------

    def hold_back(self, now: int) -> int:
        """Mark what has to wait for a slot or the rate of its hook; answers how many were marked now."""
        if len(self.flying) < self.slots and self.next_start_ms <= now:
            return 0
        marked = 0
        for work in reversed(self.ready):
            if work.throttled_at is not None:
                break
            work.throttled_at = now
            marked += 1
        return marked
