"""Deliveries as they come: `workhook deliveries list --follow`."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from workhook.cli.common import Context
from workhook.cli.output import cell, complain
from workhook.core.errors import Unavailable
from workhook.hooks import deliveries, history

if TYPE_CHECKING:
    from workhook.hooks.records import DeliveryItem
    from workhook.storage import Database, Reader

PAGE = 100
POLL_S = 0.5
LOOK_BACK_S = 5.0
"""For so long after a delivery was seen, one with a smaller id may still be committed on PostgreSQL."""

_WIDTHS = {"delivered_at": 24, "id": 8, "hook_id": 7, "event": 28, "status_code": 3, "duration": 6, "status": 0}

HookIds = Callable[["Reader"], Awaitable[list[int]]]


async def follow(context: Context, hook_ids: HookIds, filters: history.Filters, limit: int) -> None:
    """Print the newest deliveries, at most `limit`, the newest last; then each that comes, until the command is
    interrupted or its reader has gone. Webhooks that are made meanwhile are followed, too."""
    with until_interrupted():
        async with context.services() as services:
            follower = Follower(services.database, hook_ids, filters)
            _print(context, await follower.begin(limit))
            while True:
                _print(context, await poll_patiently(follower))


@contextmanager
def until_interrupted() -> Iterator[None]:
    """For what has no other end: Ctrl-C, and a reader that has gone, are no faults."""
    try:
        yield
    except asyncio.CancelledError:
        return
    except BrokenPipeError:
        # As of `| head`. The interpreter would complain when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


async def poll_patiently(follower: Follower) -> list[dict[str, object]]:
    """What is new a moment later, once the database can be asked."""
    said = False
    while True:
        await asyncio.sleep(max(POLL_S, follower.took_s))  # many webhooks take long: half of the time is the server's
        try:
            return await follower.poll()
        except Unavailable as error:
            if not said:
                complain([f"{error.message.rstrip('.')}.", "Trying again until it can."])
            said = True


class Follower:
    """Finds each delivery once. `took_s`: how long it took to look the last time."""

    took_s = 0.0

    def __init__(self, database: Database, hook_ids: HookIds, filters: history.Filters) -> None:
        self._database, self._hook_ids, self._filters = database, hook_ids, filters
        self._tails: dict[int, _Tail] = {}

    async def begin(self, limit: int) -> list[dict[str, object]]:
        """The newest, at most `limit`, oldest first. What comes later is found by `poll`."""
        found: list[dict[str, object]] = []
        for hook_id in await self._hook_ids(self._database):
            last = await newest(self._database, hook_id, history.Filters(), 1)
            tail = self._tails[hook_id] = _Tail(last[0].id if last else 0)
            items = await newest(self._database, hook_id, self._filters, limit)
            found += [to_json(each, hook_id) for each in tail.unseen(items)]
        return _by_id(found)[-limit:]

    async def poll(self) -> list[dict[str, object]]:
        """Those that came since, oldest first."""
        start = time.monotonic()
        found: list[dict[str, object]] = []
        for hook_id in await self._hook_ids(self._database):
            tail = self._tails.setdefault(hook_id, _Tail(0))
            after_id = tail.after_id
            while True:
                items = await deliveries.list_newer(
                    self._database, hook_id, self._filters, after_id=after_id, limit=PAGE
                )
                found += [to_json(each, hook_id) for each in tail.unseen(items)]
                if len(items) < PAGE:
                    break
                after_id = items[-1].id
        self.took_s = time.monotonic() - start
        return _by_id(found)


class _Tail:
    """Which deliveries of a webhook were seen. `after_id`: all up to this one, as far as anybody can tell."""

    def __init__(self, after_id: int) -> None:
        self.after_id = after_id
        self._seen: dict[int, float] = {}  # ids that may be met again, by when they were seen, the oldest first

    def unseen(self, items: Sequence[DeliveryItem]) -> list[DeliveryItem]:
        now = time.monotonic()
        fresh = [each for each in items if each.id not in self._seen]
        self._seen |= {each.id: now for each in fresh}
        for each in [known for known, at in self._seen.items() if at < now - LOOK_BACK_S]:
            del self._seen[each]
            self.after_id = max(self.after_id, each)
        return fresh


def _by_id(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return sorted(rows, key=lambda row: int(str(row["id"])))


def _print(context: Context, rows: Sequence[dict[str, object]]) -> None:
    """A line each, which a reader has at once."""
    for row in rows:
        name = str(row["event"]) if row["action"] is None else f"{row['event']}.{row['action']}"
        again = {"status": f"{row['status']} (again)"} if row["redelivery"] else {}
        shown = {**row, "event": name, "duration": f"{row['duration']:.2f}s", **again}
        context.answer(row, "  ".join(cell(shown[each]).ljust(width) for each, width in _WIDTHS.items()))


async def newest(reader: Reader, hook_id: int, filters: history.Filters, limit: int) -> list[DeliveryItem]:
    """Newest first, at most `limit`."""
    found: list[DeliveryItem] = []
    cursor: str | None = None
    while len(found) < limit:
        wanted = min(PAGE, limit - len(found))
        at = deliveries.parse_cursor(cursor)
        page = await deliveries.list_deliveries(reader, hook_id, filters, cursor=at, per_page=wanted)
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            break
    return found


def to_json(item: DeliveryItem, hook_id: int) -> dict[str, object]:
    names = ("id", "guid", "delivered_at", "redelivery", "duration", "status", "status_code", "event", "action")
    more = ("installation_id", "repository_id", "throttled_at")
    return {**{name: getattr(item, name) for name in (*names, *more)}, "hook_id": hook_id}
