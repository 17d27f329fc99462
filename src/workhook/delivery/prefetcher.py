"""Reads due dispatches ahead of their turn, limiting their number and the bytes of their payloads.

Few are read, however many lanes there are; the rest wait in the database. Lanes with slow receivers get at most half of
them, so they never crowd out the others.
"""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from workhook.core.caching import put_bounded
from workhook.core.clock import now_ms
from workhook.delivery import queries
from workhook.delivery.lanes import Lane, OfferedDispatch, PendingAttempt, work_columns
from workhook.delivery.leased_lanes import LeasedLanes
from workhook.hooks.commit import CommittedDispatch
from workhook.storage import Database, Row

READY_MAX = 512  # dispatches in all lanes
READY_LOW = READY_MAX // 2  # with fewer, more are read
SLOW_MAX = READY_MAX // 2  # of these, for slow receivers
LANE_MAX = 64  # in one lane
LANE_LOW = 32  # a lane with fewer reads more; 16 was too few: fast receivers ran dry before the read finished
PAGE_LEAST = 8  # per lane; fewer would be used up before the next read
INLINE_MAX = 64 * 1024  # bytes; larger payloads are loaded one at a time, when they are sent
RECORDED_MAX = 4096  # the number of recorded dispatches to keep track of


@dataclass(frozen=True)
class ReadPlan:
    lanes: Sequence[Lane]
    per_lane: int


class Prefetcher:
    """Fills the lanes' ready queues. Its counts are never too low: work put back counts until the next read."""

    def __init__(self, database: Database, leased: LeasedLanes, bytes_max: int) -> None:
        self._database = database
        self._leased = leased
        self._bytes_max = bytes_max
        self._ready = 0
        self._slow_ready = 0  # part of `_ready`: in slow lanes
        self._bytes = 0  # of prefetched payloads
        self._left_behind = False  # lanes that are not slow want more than there was room for
        self._turn = 0
        self._recorded: OrderedDict[int, None] = OrderedDict()

    def started(self) -> None:
        self._ready -= 1

    def is_low(self, lane: Lane) -> bool:
        """Return whether to read more after attempts of this lane were started."""
        low = self._ready - self._slow_ready < READY_LOW
        if not lane.needs_more:
            return low and self._left_behind
        return not lane.ready or (low and len(lane.ready) < LANE_LOW and not lane.is_held_up(now_ms()))

    def release(self, work: PendingAttempt) -> None:
        work.payload = None
        self._bytes -= work.held
        work.held = 0

    def recorded(self, works: Iterable[PendingAttempt]) -> None:
        """Keep track of recorded work, because a commit that began earlier still saw it as due."""
        for work in works:
            put_bounded(self._recorded, work.id, None, RECORDED_MAX)

    def offer(self, new: CommittedDispatch) -> Lane | None:
        """Return the lane that took over the new dispatch, or None."""
        lane = self._leased.lanes.get(new.hook_id)
        if lane is None:
            return None
        most = PAGE_LEAST if lane.is_held_up(now_ms()) else LANE_MAX
        if self._ready >= READY_MAX or len(lane.ready) + len(lane.incoming) >= most:
            lane.may_have_more = True
            return None
        event, size = new.event, new.event["size"]
        work = PendingAttempt(
            new.id, new.event_id, new.guid, 0, 0, 0, event["created_at"], event["name"], event["action"],
            event["repository_id"], size, event["installation_id"], event["traceparent"],
        )  # fmt: skip
        if not lane.offer(OfferedDispatch(work, new.before), new.version, self._recorded.__contains__):
            return None
        if self._has_room_for(size):  # otherwise it is loaded when it is sent
            work.payload, work.held = event["payload"], 2 * size
            self._bytes += work.held
        self._ready += 1
        return lane

    def _has_room_for(self, size: int, more: int = 0) -> bool:
        """Return whether the payload fits. It counts twice because it may be sent as a form."""
        return size <= INLINE_MAX and self._bytes + more + 2 * size <= self._bytes_max

    # --- reading -----------------------------------------------------------------------------------------------------

    async def load_due(self, *, idle: bool) -> bool:
        """Read due dispatches for the emptiest lanes. `idle`: some slots are unused.

        Returns whether to continue immediately, because a hook has changed or there is more to read.
        """
        self._turn += 1
        pages = plan(self._leased.lanes.values(), now_ms(), idle=idle)
        self._count()
        changed = False
        for page in pages:
            changed |= await self._read(page)
        return changed

    def _count(self) -> None:
        now = now_ms()
        self._ready = self._slow_ready = self._bytes = 0
        self._left_behind = False
        for lane in self._leased.lanes.values():  # most lanes are idle
            if lane.ready or lane.incoming:
                waiting = len(lane.ready) + len(lane.incoming)
                self._ready += waiting
                self._slow_ready += waiting if lane.is_held_up(now) else 0
                self._bytes += sum(work.held for work in lane.ready)
                self._bytes += sum(each.work.held for each in lane.incoming)
            elif lane.needs_more and not lane.is_held_up(now):
                self._left_behind = True
            if lane.in_flight:
                self._bytes += sum(work.held for work in lane.in_flight.values())

    async def _read(self, page: ReadPlan) -> bool:
        by_id = {lane.hook.id: lane for lane in page.lanes}
        in_hand = {lane.hook.id: [*lane.ready, *lane.in_flight.values()] for lane in page.lanes}
        busy = [work.id for works in in_hand.values() for work in works]
        now = now_ms()
        since = {lane.hook.id: lane.read_from(now) for lane in page.lanes}
        for lane in page.lanes:
            lane.begin_read(self._turn)
        found: dict[int, list[PendingAttempt]] = {}
        full = set(by_id)  # unless the read proves otherwise
        left = False
        try:
            rows = await queries.due_dispatches(self._database, since, busy, now, page.per_lane)
            unasked = [row["id"] for row in rows if _is_unasked(row, by_id[row["hook_id"]])]
            if unasked:
                # An event that was committed just when its hook was deactivated. Waiting dispatches were dropped then.
                async with self._database.transaction() as tx:
                    await queries.drop_unrequested(tx, unasked)
            found = await self._with_payloads(rows, by_id)
            counts = Counter(row["hook_id"] for row in rows)
            full = {hook_id for hook_id, count in counts.items() if count == page.per_lane}
            earliest = {hook_id: min(work.due_at for work in works) for hook_id, works in in_hand.items() if works}
            for row in rows:
                hook_id, due_at = row["hook_id"], row["next_attempt_at"]
                earliest[hook_id] = min(due_at, earliest.get(hook_id, due_at))
            for hook_id, due_at in earliest.items():
                by_id[hook_id].advance_due_since(due_at)
        finally:
            for hook_id, lane in by_id.items():
                works = found.get(hook_id, ())
                left |= lane.end_read(works, full=hook_id in full, is_recorded=self._recorded.__contains__)
            self._count()
        return left or any(lane.needs_reload for lane in page.lanes)

    async def _with_payloads(self, rows: Sequence[Row], by_id: Mapping[int, Lane]) -> dict[int, list[PendingAttempt]]:
        """Return work by hook, with as many payloads as there is room for."""
        fitting = [row for row in rows if _is_for(row, by_id[row["hook_id"]])]
        works = [(row["hook_id"], PendingAttempt(*work_columns(row))) for row in fitting]
        inline: list[PendingAttempt] = []
        size = 0
        for _, work in works:
            if self._has_room_for(work.size, size):
                inline.append(work)
                size += 2 * work.size
        self._bytes += size  # reserved during the read
        wanted = list({work.event_id for work in inline})
        payloads = await queries.payloads(self._database, wanted) if wanted else {}
        for work in inline:
            if (payload := payloads.get(work.event_id)) is not None:
                work.payload, work.held = payload, 2 * work.size
        found: dict[int, list[PendingAttempt]] = {}
        for hook_id, work in works:
            found.setdefault(hook_id, []).append(work)
        return found


def plan(lanes: Iterable[Lane], now: int, *, idle: bool) -> list[ReadPlan]:
    """Choose the lanes to read for, after making slow lanes put back work beyond their share."""
    brisk: list[Lane] = []
    slow: list[Lane] = []
    for lane in lanes:
        if lane.ready or lane.needs_more:
            (slow if lane.is_held_up(now) else brisk).append(lane)
    slow_ready = _put_back(slow)
    ready = sum(len(lane.ready) for lane in brisk)
    room = READY_MAX - ready - slow_ready
    low = [lane for lane in slow if lane.needs_more and not lane.ready]
    # One each: a hung receiver has one attempt at a time, and larger pages would leave most lanes with none.
    pages = _page(low, min(room, SLOW_MAX - slow_ready), 1, PAGE_LEAST)
    room -= sum(len(page.lanes) * page.per_lane for page in pages)
    low = [lane for lane in brisk if lane.needs_more and len(lane.ready) < LANE_LOW]
    if ready < READY_LOW or (idle and any(not lane.ready for lane in low)):
        pages += _page(low, room, PAGE_LEAST, LANE_MAX)
    return pages


def _put_back(slow: Sequence[Lane]) -> int:
    """Reduce the ready work of slow lanes to `SLOW_MAX`; return how much is left."""
    ready = sum(len(lane.ready) for lane in slow)
    for keep in (PAGE_LEAST, 1, 0):
        for lane in sorted(slow, key=lambda each: len(each.ready), reverse=True):
            if ready <= SLOW_MAX:
                return ready
            before = len(lane.ready)
            lane.trim_ready(keep)
            ready -= before - len(lane.ready)
    return ready


def _page(low: Collection[Lane], room: int, least: int, most: int) -> list[ReadPlan]:
    """Plan a page of `least` to `most` dispatches per lane for the emptiest lanes; on ties, the least recently read."""
    if not low or room <= 0:
        return []
    number = min(len(low), max(1, room // least))
    chosen = heapq.nsmallest(number, low, key=lambda lane: (len(lane.ready), lane.read_turn))
    return [ReadPlan(chosen, max(1, min(most, room // number)))]


def _is_for(row: Row, lane: Lane) -> bool:
    """Return whether the row can be sent to the loaded version of the hook."""
    if row["version"] != lane.hook.version:
        lane.needs_reload = lane.may_have_more = True
        return False
    return not _is_unasked(row, lane)


def _is_unasked(row: Row, lane: Lane) -> bool:
    return bool(row["version"] == lane.hook.version and not lane.hook.active and row["wanted"] == 0)
