"""What waits in this process to be sent: of which lanes, how many, how many bytes of it.

It is little, whatever the number of lanes: the rest waits in the database. Lanes whose receivers are slow have half of
it at most, so that they never keep the others from it.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from workhook.core.clock import now_ms
from workhook.delivery import queries
from workhook.delivery.lanes import Lane, Offered, Work, work_of
from workhook.delivery.leased_lanes import LeasedLanes
from workhook.delivery.slots import is_slow
from workhook.hooks.handover import CommittedDispatch
from workhook.storage import Database, Row

WAITING_MAX = 512  # dispatches, in all lanes
WAITING_LOW = WAITING_MAX // 2  # with fewer, more are read
SLOW_MAX = WAITING_MAX // 2  # of these for slow receivers
LANE_MAX = 64  # of one lane
LANE_LOW = 32  # a lane with fewer reads more: with 16, fast receivers had all of them before the read was back
PAGE_LEAST = 8  # for one lane: fewer would be gone before the next read
INLINE_MAX = 64 * 1024  # larger payloads are loaded one at a time, when they are sent
RECORDED_MAX = 4096  # how many recorded dispatches are remembered


@dataclass(frozen=True)
class Page:
    """So many dispatches at most are to be read for each of these lanes."""

    lanes: Sequence[Lane]
    per_lane: int


class Stock:
    """Between two fills its counts are never too low: what is thrown away is counted until the next one."""

    def __init__(self, database: Database, held: LeasedLanes, bytes_max: int) -> None:
        self._database = database
        self._held = held
        self._bytes_max = bytes_max
        self._waiting = 0
        self._slow_waiting = 0  # of these in slow lanes
        self._bytes = 0  # of payloads that are here before their turn
        self._left_behind = False  # lanes that are not slow want more than there was room for
        self._turn = 0
        self._recorded: dict[int, None] = {}

    # --- what goes out -----------------------------------------------------------------------------------------------

    def started(self) -> None:
        """One waits no longer."""
        self._waiting -= 1

    def wants(self, lane: Lane) -> bool:
        """Whether it is time to fill, after what was started in this lane."""
        low = self._waiting - self._slow_waiting < WAITING_LOW
        if not lane.thirsty:
            return low and self._left_behind
        return not lane.ready or (low and len(lane.ready) < LANE_LOW and not _is_held_up(lane, now_ms()))

    def release(self, work: Work) -> None:
        """Its payload is needed no longer."""
        work.payload = None
        self._bytes -= work.held
        work.held = 0

    def recorded(self, works: Iterable[Work]) -> None:
        """For a moment a commit that began earlier still saw them due."""
        for work in works:
            self._recorded[work.id] = None
        while len(self._recorded) > RECORDED_MAX:
            del self._recorded[next(iter(self._recorded))]

    # --- what comes from the commit ----------------------------------------------------------------------------------

    def offer(self, fresh: CommittedDispatch) -> Lane | None:
        """The lane that has taken over what this process has just committed, if one has."""
        lane = self._held.lanes.get(fresh.hook_id)
        if lane is None:
            return None
        most = PAGE_LEAST if _is_held_up(lane, now_ms()) else LANE_MAX
        if self._waiting >= WAITING_MAX or len(lane.ready) + len(lane.incoming) >= most:
            lane.more = True
            return None
        work = _work_of_fresh(fresh)
        if not lane.offer(Offered(work, fresh.before), fresh.version, self._recorded.__contains__):
            return None
        self._give_payload(work, fresh.payload)
        self._waiting += 1
        return lane

    def _give_payload(self, work: Work, payload: bytes) -> None:
        """If there is room; else it is loaded when it is sent."""
        if self._has_room_for(work.size):
            work.payload, work.held = payload, 2 * work.size
            self._bytes += work.held

    def _has_room_for(self, size: int, more: int = 0) -> bool:
        """Counted twice: it may be sent as a form."""
        return size <= INLINE_MAX and self._bytes + more + 2 * size <= self._bytes_max

    # --- what is read ------------------------------------------------------------------------------------------------

    async def fill(self, *, idle: bool) -> bool:
        """Read what is due for the lanes that have least. `idle`: there are slots that nobody uses. Answers whether
        there is something to do at once: a hook has changed meanwhile, or more is to be read."""
        self._turn += 1
        pages = plan(self._held.lanes.values(), now_ms(), idle=idle)
        self._count()
        changed = False
        for page in pages:
            changed |= await self._read(page)
        return changed

    def _count(self) -> None:
        now = now_ms()
        self._waiting = self._slow_waiting = self._bytes = 0
        self._left_behind = False
        for lane in self._held.lanes.values():  # most of them rest
            if lane.ready or lane.incoming:
                waiting = len(lane.ready) + len(lane.incoming)
                self._waiting += waiting
                self._slow_waiting += waiting if _is_held_up(lane, now) else 0
                self._bytes += sum(work.held for work in lane.ready)
                self._bytes += sum(each.work.held for each in lane.incoming)
            elif lane.thirsty and not _is_held_up(lane, now):
                self._left_behind = True
            if lane.flying:
                self._bytes += sum(work.held for work in lane.flying.values())

    async def _read(self, page: Page) -> bool:
        by_id = {lane.hook.id: lane for lane in page.lanes}
        in_hand = {lane.hook.id: [*lane.ready, *lane.flying.values()] for lane in page.lanes}
        busy = [work.id for works in in_hand.values() for work in works]
        now = now_ms()
        since = {lane.hook.id: lane.due_since(now) for lane in page.lanes}
        for lane in page.lanes:
            lane.read_turn = self._turn
            lane.begin_read()
        found: dict[int, list[Work]] = {}
        full = set(by_id)  # as long as nothing is known
        left = False
        try:
            rows = await queries.due_dispatches(self._database, since, busy, now, page.per_lane)
            unasked = [row["id"] for row in rows if _is_unasked(row, by_id[row["hook_id"]])]
            if unasked:
                # An event that was committed just when its hook was turned off. What waited was dropped with it.
                async with self._database.transaction() as tx:
                    await queries.drop_unasked(tx, unasked)
            found = await self._found(rows, by_id)
            counts = Counter(row["hook_id"] for row in rows)
            full = {hook_id for hook_id, count in counts.items() if count == page.per_lane}
            for row in rows:
                in_hand[row["hook_id"]].append(work_of(row))
            for hook_id, lane in by_id.items():
                lane.saw(in_hand[hook_id])
        finally:
            for hook_id, lane in by_id.items():
                mine = found.get(hook_id, ())
                left |= lane.end_read(mine, full=hook_id in full, known=self._recorded.__contains__)
            self._count()
        return left or any(lane.stale for lane in page.lanes)

    async def _found(self, rows: Sequence[Row], by_id: Mapping[int, Lane]) -> dict[int, list[Work]]:
        """By hook, each with its payload, as far as there is room for that."""
        taken = [row for row in rows if _is_for(row, by_id[row["hook_id"]])]
        inline: list[Row] = []
        size = 0
        for row in taken:
            if self._has_room_for(row["size"], size):
                inline.append(row)
                size += 2 * row["size"]
        self._bytes += size  # nobody else is given this room while they are read
        wanted = list({row["event_id"] for row in inline})
        payloads = await queries.payloads(self._database, wanted) if wanted else {}
        here = {row["id"]: payloads.get(row["event_id"]) for row in inline}
        found: dict[int, list[Work]] = {}
        for row in taken:
            work = work_of(row)
            if (payload := here.get(work.id)) is not None:
                work.payload, work.held = payload, 2 * work.size
            found.setdefault(row["hook_id"], []).append(work)
        return found


def plan(lanes: Iterable[Lane], now: int, *, idle: bool) -> list[Page]:
    """What to read for which lanes. First those give back that hold more than their receivers take."""
    brisk: list[Lane] = []
    slow: list[Lane] = []
    for lane in lanes:
        if lane.ready or lane.thirsty:
            (slow if _is_held_up(lane, now) else brisk).append(lane)
    slow_waiting = _put_back(slow)
    waiting = sum(len(lane.ready) for lane in brisk)
    room = WAITING_MAX - waiting - slow_waiting
    thirsty = [lane for lane in slow if lane.thirsty and not lane.ready]
    # One for each: what hangs has one attempt at a time, and with larger pages most such lanes would have nothing.
    pages = _page(thirsty, min(room, SLOW_MAX - slow_waiting), 1, PAGE_LEAST)
    room -= sum(len(page.lanes) * page.per_lane for page in pages)
    thirsty = [lane for lane in brisk if lane.thirsty and len(lane.ready) < LANE_LOW]
    if waiting < WAITING_LOW or (idle and any(not lane.ready for lane in thirsty)):
        pages += _page(thirsty, room, PAGE_LEAST, LANE_MAX)
    return pages


def _put_back(slow: Sequence[Lane]) -> int:
    """Answers what then waits in slow lanes: at most `SLOW_MAX`."""
    waiting = sum(len(lane.ready) for lane in slow)
    for keep in (PAGE_LEAST, 1, 0):
        for lane in sorted(slow, key=_waiting_in, reverse=True):
            if waiting <= SLOW_MAX:
                return waiting
            before = len(lane.ready)
            lane.put_back(keep)
            waiting -= before - len(lane.ready)
    return waiting


def _page(thirsty: Collection[Lane], room: int, least: int, most: int) -> list[Page]:
    """For the emptiest, and of these for those that have waited longest: a page each, of `least` to `most`."""
    if not thirsty or room <= 0:
        return []
    number = min(len(thirsty), max(1, room // least))
    chosen = heapq.nsmallest(number, thirsty, key=lambda lane: (len(lane.ready), lane.read_turn))
    return [Page(chosen, max(1, min(most, room // number)))]


def _waiting_in(lane: Lane) -> int:
    return len(lane.ready)


def _is_held_up(lane: Lane, now: int) -> bool:
    """By its receiver, or by a low rate: what waits there waits long."""
    return is_slow(lane, now) or lane.awaits_rate(now)


def _is_for(row: Row, lane: Lane) -> bool:
    """It can be sent to the hook as it is known here."""
    if row["version"] != lane.hook.version:
        lane.stale = lane.more = True
        return False
    return not _is_unasked(row, lane)


def _is_unasked(row: Row, lane: Lane) -> bool:
    return bool(row["version"] == lane.hook.version and not lane.hook.active and row["wanted"] == 0)


def _work_of_fresh(fresh: CommittedDispatch) -> Work:
    """The first attempt at what was handed over."""
    return Work(
        id=fresh.dispatch_id,
        event_id=fresh.event_id,
        guid=fresh.guid,
        attempts=0,
        retries=0,
        wanted=0,
        due_at=fresh.due_at,
        event=fresh.event,
        action=fresh.action,
        repository_id=fresh.repository_id,
        size=len(fresh.payload),
        installation_id=fresh.installation_id,
    )
