"""A lane: the queue of one hook in this process, subject to the hook's own limits. No I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import cast

import msgspec

from workhook.core.clock import now_ms
from workhook.core.vault import Vault
from workhook.delivery.sign import HeaderStyle, Profile, Signer
from workhook.hooks.schemas import Hook

DEFAULT_CONCURRENCY = 8
UNRECORDED = 2  # answered attempts per slot that may await their record; a crash repeats them
SLOW_MS = 2000  # receivers that take longer are slow
COLD_MS = 50.0  # between the first starts of a lane, until a connection is established
LATE_MS = 35_000  # how late a due dispatch may become visible; commits take less (`postgres.COMMAND_TIMEOUT_S`)
FULL_READ_MS = 5_000  # how often a lane reads everything that is due, regardless of earlier reads
BRISK_PER_S = 100  # a lane with a lower rate limit is held up while it waits for its next start


class PendingAttempt(msgspec.Struct):
    """An attempt to make: a due dispatch. If memory is short, `payload` is None until its turn."""

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
    traceparent: str | None = None  # of the request that caused the event
    payload: bytes | None = None
    held: int = 0  # bytes reserved for a prefetched payload
    throttled_at: int | None = None
    started_at: int = 0
    slow: bool = False  # started for a slow receiver
    answered: bool = False  # successfully: only the record is missing


work_columns = itemgetter(
    "id", "event_id", "guid", "attempts", "retries", "wanted", "next_attempt_at", "event", "action", "repository_id",
    "size", "installation_id", "traceparent",
)  # fmt: skip


def precedes(one: PendingAttempt, other: PendingAttempt) -> bool:
    """Return whether `one` is sent before `other`: first attempts by ID, otherwise the earlier due time first."""
    if not one.attempts and not other.attempts:
        return one.id < other.id
    return (one.due_at, one.id) < (other.due_at, other.id)


class OfferedDispatch(msgspec.Struct, frozen=True):
    """A dispatch just committed by this process.

    `before`: the hook's other dispatches that were due when the commit began, or None if there are too many to list.
    """

    work: PendingAttempt
    before: Sequence[int] | None


IsRecorded = Callable[[int], bool]
"""Returns whether a dispatch was recorded here recently."""


def signing_profile(hook: Hook, vault: Vault, header_prefix: str, now: int) -> Profile:
    """Return the signing profile of a hook. Raises `VaultError` if its secret was sealed with another key."""
    secret, password = vault.open(hook.secret), vault.open(hook.password)
    previous = None
    if hook.previous_secret_until is not None and hook.previous_secret_until > now:
        previous = vault.open(hook.previous_secret)
    return Profile(
        hook_id=hook.id,
        target_id=hook.repository_id if hook.repository_id is not None else hook.account_id,
        target_type="repository" if hook.repository_id is not None else "organization",
        content_type=hook.content_type,
        secret=secret.encode() if secret else None,
        previous_secret=previous.encode() if previous else None,
        header_style=cast(HeaderStyle, hook.config.get("header_style", "github")),
        header_prefix=header_prefix,
        username=hook.config.get("username"),
        password=password,
        installation_id=hook.installation_id,
    )


def signer_until(hook: Hook, now: int) -> int | None:
    """Return when the previous secret expires and the signer must be replaced, or None if no such secret is valid."""
    until = hook.previous_secret_until
    return until if until is not None and until > now else None


@dataclass(slots=True, eq=False)
class Lane:
    """The queue of one hook. Work in `ready` waits for a slot; work in `in_flight` is being sent or recorded.

    A successful attempt that is not recorded yet no longer occupies a slot.
    """

    hook: Hook
    signer: Signer
    lease_until: int  # nothing starts later, because another process may own the lane by then
    failing_since: int | None = None
    signer_until: int | None = None  # expiry of the previous secret
    ready: deque[PendingAttempt] = field(default_factory=deque)
    in_flight: dict[int, PendingAttempt] = field(default_factory=dict)
    unrecorded: int = 0  # part of `in_flight`: answered
    may_have_more: bool = True  # the database may contain more due work
    reading: bool = False  # a read is in progress
    read_again: bool = False  # the read in progress is outdated
    incoming: list[OfferedDispatch] = field(default_factory=list)  # offered during the read
    read_turn: int = 0  # turn of the last read
    due_since: int = 0  # all work due earlier is done or in memory
    full_read_at: int = 0
    needs_reload: bool = False  # the hook changed: reload it before sending anything else
    deactivating: bool = False  # the hook is being deactivated
    closed: bool = False  # nothing more starts: the lane moves to another process
    waiting_for_slot: bool = False
    timer_set: bool = False  # a timer will start the ready work
    timing_out: bool = False  # the last attempt timed out
    slow: bool = False  # the last response took long
    connected: bool = False  # the receiver has responded, so a connection is established
    last_start_ms: int = 0
    idle_since: int = 0
    next_start_ms: float = 0.0
    times_known_until: int | None = 0  # time until which later due times are known; None if all are
    epoch: int = 0  # of the lease under which it was loaded; outcomes are recorded under it

    def __post_init__(self) -> None:
        # A receiver that was already failing may hang, so it begins with one slot.
        self.timing_out = self.failing_since is not None

    @property
    def slots(self) -> int:
        """The number of slots: one between a timeout and a response, so hung receivers cannot fill the process."""
        return 1 if self.timing_out else int(self.hook.config.get("max_concurrency", DEFAULT_CONCURRENCY))

    @property
    def sending(self) -> int:
        return len(self.in_flight) - self.unrecorded

    @property
    def is_full(self) -> bool:
        """Whether every slot is taken, or too many attempts are not recorded yet."""
        return self.sending >= self.slots or self.lacks_records

    @property
    def lacks_records(self) -> bool:
        """Whether some answered attempts must be recorded before anything else starts."""
        return len(self.in_flight) >= (1 + UNRECORDED) * self.slots

    @property
    def paused(self) -> bool:
        return self.closed or self.needs_reload or self.deactivating

    @property
    def needs_more(self) -> bool:
        return self.may_have_more and not self.paused

    def is_slow(self, now: int) -> bool:
        """Return whether the receiver last responded slowly, is slow now, or has never responded."""
        if self.timing_out or self.slow or (self.in_flight and not self.connected):
            return True
        for work in self.in_flight.values():
            if not work.answered:  # the oldest unanswered one
                return now - work.started_at > SLOW_MS
        return False

    def is_held_up(self, now: int) -> bool:
        """Return whether work is held up by a slow receiver or a low rate limit."""
        if self.is_slow(now):
            return True
        rate = self.hook.config.get("rate_limit")
        return rate is not None and int(rate) < BRISK_PER_S and self.next_start_ms > now

    def is_idle(self, now: int) -> bool:
        """Return whether the lane may be unloaded, with nothing in flight and no rate limit state to lose."""
        return not (self.in_flight or self.deactivating or self.next_start_ms > now)

    def needs_signer(self, now: int) -> bool:
        return self.signer_until is not None and self.signer_until <= now

    # --- events of the worker ----------------------------------------------------------------------------------------

    def replace_hook(self, hook: Hook, signer: Signer, failing_since: int | None) -> None:
        """Switch to the current version of the hook. Ready work is read again because it may have been dropped."""
        self.hook, self.signer = hook, signer
        self.signer_until = signer_until(hook, now_ms())
        self.failing_since = failing_since
        self.trim_ready(0)
        self.may_have_more = True

    def close(self) -> None:
        self.closed = True
        self.ready.clear()
        self.incoming.clear()

    # --- attempts ----------------------------------------------------------------------------------------------------

    def take(self, now: int) -> PendingAttempt | float | None:
        """Return the next attempt, the milliseconds to wait, or None if no slot is free or nothing is ready."""
        if self.closed or self.needs_reload or self.deactivating or now >= self.lease_until:
            return None
        if not self.ready or self.is_full:
            return None
        if not self.connected and self.in_flight and 0 < (wait_ms := self.last_start_ms + COLD_MS - now) <= COLD_MS:
            # A second connection could overtake the first. Until one is established, order takes precedence over speed.
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
        self.in_flight[work.id] = work
        return work

    def mark_throttled(self, now: int) -> int:
        """Mark the ready work that waits for a slot or the hook's rate limit; return how many were newly marked."""
        if not self.is_full and self.next_start_ms <= now:
            return 0
        marked = 0
        for work in reversed(self.ready):
            if work.throttled_at is not None:
                break
            work.throttled_at = now
            marked += 1
        return marked

    def mark_answered(self, work: PendingAttempt) -> None:
        """Free the slot of a success. A failure keeps its slot until recorded, because it may affect the hook."""
        work.answered = True
        self.unrecorded += 1

    def finish(self, work: PendingAttempt) -> None:
        if self.in_flight.pop(work.id, None) is not None and work.answered:
            self.unrecorded -= 1

    def mark_recorded(self, work: PendingAttempt, duration_ms: int, now: int) -> None:
        self.idle_since = now
        self.slow = duration_ms > SLOW_MS
        if work.wanted:
            self.may_have_more = True

    def trim_ready(self, keep: int) -> None:
        """Keep the first `keep` ready items; the others remain in the database and are read again."""
        while len(self.ready) > keep:
            self.ready.pop()
            self.may_have_more = True

    def requeue(self) -> None:
        """Read everything again after an attempt was started but not sent: it is due, and nothing may overtake it."""
        self.trim_ready(0)
        self.incoming.clear()
        self.may_have_more = True
        self.read_again = self.reading  # the read in progress excludes what was in flight

    # --- new work: read or handed over -------------------------------------------------------------------------------

    def read_from(self, now: int) -> int:
        """Return the start of the next read, as a due time in milliseconds."""
        if not now - FULL_READ_MS < self.full_read_at <= now:
            self.full_read_at, self.due_since = now, 0
        return self.due_since

    def begin_read(self, turn: int) -> None:
        """Begin a read. A signal during the read sets `may_have_more` again."""
        self.read_turn = turn
        self.may_have_more, self.reading = False, True

    def advance_due_since(self, earliest: int) -> None:
        """Advance `due_since`.

        `earliest` is the earliest due time of the work that was in memory when the read began or that the read
        returned. Work requeued during the read is not due earlier, so later reads find it.
        """
        self.due_since = max(0, earliest - LATE_MS)

    def end_read(self, found: Sequence[PendingAttempt], *, full: bool, is_recorded: IsRecorded) -> bool:
        """Add the work that was read, then the work offered during the read, unless earlier work is still unread.

        `full`: more may be due. Returns whether the database has more work that no signal will announce.
        """
        again, self.reading, self.read_again = self.read_again, False, False
        incoming, self.incoming = self.incoming, []
        if self.closed or again:
            return again
        for work in found:
            if work.id not in self.in_flight:
                self.add(work)
        self.may_have_more = self.may_have_more or full
        for offered in incoming:
            if not self.may_have_more:
                self._take_over(offered, is_recorded)
        return self.may_have_more and bool(incoming)

    def offer(self, offered: OfferedDispatch, version: int, is_recorded: IsRecorded) -> bool:
        """Take over a new dispatch if everything due before it is loaded or done and the hook is still at `version`.

        Otherwise it is read later. It may already be loaded: a read can see the commit before the committer knows.
        """
        if self.paused or self.hook.version != version or not self.hook.active:
            self.may_have_more = True
        if self.may_have_more:
            return False
        if self.reading:
            self.incoming.append(offered)
            return True
        return self._take_over(offered, is_recorded)

    def _take_over(self, offered: OfferedDispatch, is_recorded: IsRecorded) -> bool:
        before = offered.before
        if before is None:
            self.may_have_more = True
            return False
        ready = {work.id for work in self.ready}
        if any(each not in ready and each not in self.in_flight and not is_recorded(each) for each in before):
            self.may_have_more, self.due_since = True, 0  # it may have been due at any time
            return False
        id_ = offered.work.id
        if id_ not in ready and id_ not in self.in_flight and not is_recorded(id_):
            self.add(offered.work)
        return True

    def add(self, work: PendingAttempt) -> None:
        """Insert work into `ready` in order. First attempts stay in ID order, even with a retry between them."""
        place = len(self.ready)
        for number in range(place - 1, -1, -1):
            other = self.ready[number]
            if precedes(work, other):
                place = number
            elif not other.attempts:
                break
        self.ready.insert(place, work)
