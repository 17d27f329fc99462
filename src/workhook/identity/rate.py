"""The request limit of a token or an app, in a window of one hour, counted over all processes.

A process takes blocks of a fiftieth of the remaining requests with one atomic statement, down to single requests near
the end. Most requests therefore write nothing, and the limit is never exceeded. Unused requests are returned. Callers
without a token are counted by address and in each process separately, because strangers must not cause writes.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import sqlalchemy as sa
import structlog
from prometheus_client import Counter

from workhook.core.caching import put_bounded
from workhook.core.clock import now_ms
from workhook.core.errors import TooManyRequests, Unavailable, say
from workhook.identity.tables import rate_windows
from workhook.storage import Database
from workhook.storage.dialects import upsert
from workhook.storage.metadata import bigint_param

WINDOW_S = 3600
PARTS = 50  # a block is this fraction of the remaining requests
IDLE_S = 60.0  # after which a block is returned
SWEEP_S = 10.0
ASK_AGAIN_S = 1.0  # at the limit: another process may have returned a block
LOCAL_S = 5.0  # until a database that could not be written is retried
CALLERS_MAX = 10_000
ADDRESS_TIMES = 5
TAKEN_BACK_TIMES = 10  # times the limit, in one process

COUNTED_LOCALLY = Counter(
    "workhook_rate_limit_local_total",
    "Times a process counted requests in memory because the database could not be written.",
)
log = structlog.get_logger(__name__)

_row = rate_windows.c
_limit, _first = sa.bindparam("limit", type_=sa.Integer()), sa.bindparam("first", type_=sa.Integer())
_over = _row.resets_at <= bigint_param("now")
_part = (_limit - _row.used) // sa.literal(PARTS, sa.Integer)
_block = sa.case((_part > sa.literal(1, sa.Integer), _part), else_=sa.literal(1, sa.Integer))
_start = upsert(rate_windows).values(
    caller=sa.bindparam("caller"), resets_at=bigint_param("ends"), used=_first, granted=_first
)
_take = _start.on_conflict_do_update(
    index_elements=[_row.caller],
    set_={
        "resets_at": sa.case((_over, bigint_param("ends")), else_=_row.resets_at),
        "used": sa.case((_over, _first), else_=_row.used + _block),
        "granted": sa.case((_over, _first), else_=_block),
    },
    where=sa.or_(_over, _row.used < _limit),
).returning(_row.resets_at, _row.used, _row.granted)
_usage = sa.select(_row.resets_at, _row.used).where(
    _row.caller == sa.bindparam("caller"), _row.resets_at > bigint_param("now")
)
_unused = sa.bindparam("unused", type_=sa.Integer())
_give_back = (
    sa.update(rate_windows)
    .where(_row.caller == sa.bindparam("named"), _row.resets_at == bigint_param("ends"), _row.used >= _unused)
    .values(used=_row.used - _unused)
)


class Usage(NamedTuple):
    """The state of a request limit. `reset` is in seconds since the epoch."""

    limit: int
    used: int
    remaining: int
    reset: int

    @property
    def wait_s(self) -> int:
        return max(1, self.reset - now_ms() // 1000)


UNKNOWN = Usage(0, 0, 0, 0)
"""The usage before a call is counted."""


@dataclass
class _Share:
    """This process's share of one caller's window."""

    resets_at: int = 0  # milliseconds
    used: int = 0  # in all processes, including unused blocks
    left: int = 0  # of the current block
    stored: bool = True  # the block is in the database and can be returned
    touched_s: float = 0.0
    ask_again_s: float = 0.0  # the limit is reached; monotonic
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Windows:
    """Counts for the last `CALLERS_MAX` callers, in this process only."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # Caller → (end of the window in seconds, count).
        self._counts: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def hit(self, caller: str, count: int = 1) -> tuple[Usage, bool]:
        """Count a request. Returns the usage and whether it is within the limit."""
        now = now_ms() // 1000
        end, used = self._counts.get(caller, (0, 0))
        if now >= end:
            end, used = now + WINDOW_S, 0
        within = used + count <= self._limit
        used += count if within else 0
        put_bounded(self._counts, caller, (end, used), CALLERS_MAX)
        return Usage(self._limit, used, self._limit - used, end), within


class PageLimiter:
    """Limits page requests per hour: `limit` per user, `ADDRESS_TIMES` as many per (shared) address. 0: no limit."""

    def __init__(self, limit: int) -> None:
        self._users, self._addresses = Windows(limit), Windows(limit * ADDRESS_TIMES)
        self._is_on = limit > 0

    async def count_user(self, user: str) -> None:
        """Raise `TooManyRequests` beyond the limit."""
        self._count(self._users, user)

    def count_address(self, address: str | None) -> None:
        """Raise `TooManyRequests` beyond the limit."""
        self._count(self._addresses, subscriber(address))

    def _count(self, windows: Windows, caller: str) -> None:
        if not self._is_on:
            return
        usage, within = windows.hit(caller)
        if not within:
            minutes = -(-usage.wait_s // 60)
            message = say("You have reached the limit of {} pages per hour. Try again in {} min.", usage.limit, minutes)
            raise TooManyRequests(message, retry_after_s=usage.wait_s)


class RateLimiter:
    """Limits requests by caller: `Actor.counted_as`, `app:ID`, `address:IP`, or `pages:ID` for forms. 0: no limit."""

    def __init__(self, limit: int, database: Database) -> None:
        self._limit = limit
        self._database = database
        self._shares: dict[str, _Share] = {}
        self._addresses = Windows(limit)
        self._taken_back: dict[str, tuple[int, int]] = {}  # caller → (end of the window, count)
        self._local_until_s = 0.0
        self._sweeping: asyncio.Task[None] | None = None

    async def hit(self, caller: str, *, count: int = 1) -> tuple[Usage, bool]:
        """Count a request. Returns the usage and whether it is within the limit. A `count` of 0 only reads."""
        if self._limit == 0:
            return Usage(_UNLIMITED, 0, _UNLIMITED, now_ms() // 1000 + WINDOW_S), True
        kind, _, name = caller.partition(":")
        if kind == "address":
            return self._addresses.hit(subscriber(name), count)
        share = self._shares.setdefault(caller, _Share())
        share.touched_s = time.monotonic()
        if count == 0:
            return await self._look(caller, share), True
        if share.left == 0 or now_ms() >= share.resets_at:
            async with share.lock:
                if share.left == 0 or now_ms() >= share.resets_at:
                    await self._refill(caller, share)
                within = _use(share)
        else:
            within = _use(share)
        return self._usage(share), within

    def undo(self, caller: str) -> Usage | None:
        """Undo the count of a request of a token or an app.

        Returns None if the request stays counted: its count is not in this process, or too many were undone already.
        Even an unchanged response takes work.
        """
        share = self._shares.get(caller)
        if share is None or now_ms() >= share.resets_at or share.left >= share.used:
            return None
        ends, number = self._taken_back.get(caller, (0, 0))
        number = number + 1 if ends == share.resets_at else 1
        if number > TAKEN_BACK_TIMES * self._limit:
            return None
        self._taken_back[caller] = (share.resets_at, number)
        share.left += 1  # for the next request, or returned with the rest
        return self._usage(share)

    async def count_form(self, caller: str) -> None:
        usage, within = await self.hit(caller)
        if not within:
            minutes = -(-usage.wait_s // 60)
            message = say(
                "You have reached the limit of {} form submissions per hour. Try again in {} min.", usage.limit, minutes
            )
            raise TooManyRequests(message, retry_after_s=usage.wait_s)

    async def close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
            self._sweeping = None
        await self._return(list(self._shares))

    def _usage(self, share: _Share) -> Usage:
        used = min(self._limit, share.used - share.left)
        return Usage(self._limit, used, self._limit - used, share.resets_at // 1000)

    async def _look(self, caller: str, share: _Share) -> Usage:
        now = now_ms()
        row = await self._database.fetch_one(_usage, {"caller": caller, "now": now})
        if row is not None and share.stored and row["resets_at"] == share.resets_at:
            share.used = row["used"]
            return self._usage(share)
        if share.resets_at > now:
            return self._usage(share)
        used, ends = (min(self._limit, row["used"]), row["resets_at"]) if row else (0, _end(now))
        return Usage(self._limit, used, self._limit - used, ends // 1000)

    async def _refill(self, caller: str, share: _Share) -> None:
        """Take the caller's next block. At the limit, `left` stays 0."""
        now, moment = now_ms(), time.monotonic()
        if share.ask_again_s > moment and now < share.resets_at:
            return
        if moment < self._local_until_s:
            self._refill_locally(share, now)
            return
        try:
            await self._take(caller, share, now)
        except Unavailable as problem:
            log.warning("rate_limit_counted_locally", error=problem.message)
            self._local_until_s = time.monotonic() + LOCAL_S
            self._refill_locally(share, now)
        if self._sweeping is None or self._sweeping.done():
            self._sweeping = asyncio.create_task(self._sweep(), name="rate-limits")

    async def _take(self, caller: str, share: _Share, now: int) -> None:
        params = {"caller": caller, "now": now, "ends": _end(now), "limit": self._limit}
        async with self._database.transaction() as tx:
            row = await tx.fetch_one(_take, {**params, "first": max(1, self._limit // PARTS)})
        if row is not None:
            share.left, share.stored, share.ask_again_s = row["granted"], True, 0.0
        else:
            share.left, share.ask_again_s = 0, time.monotonic() + ASK_AGAIN_S
            row = await self._database.fetch_one(_usage, {"caller": caller, "now": now})
        if row is not None:
            share.resets_at, share.used = row["resets_at"], row["used"]

    def _refill_locally(self, share: _Share, now: int) -> None:
        """Refill the share from the last known count, so that reads work while the database cannot be written."""
        COUNTED_LOCALLY.inc()
        if now >= share.resets_at:
            share.resets_at, share.used = _end(now), 0
        share.left = min(self._limit - share.used, max(1, (self._limit - share.used) // PARTS))
        share.used += share.left
        share.stored = False

    async def _sweep(self) -> None:
        while self._shares:
            await asyncio.sleep(SWEEP_S)
            self._taken_back = {name: each for name, each in self._taken_back.items() if each[0] > now_ms()}
            before = time.monotonic() - IDLE_S
            await self._return([name for name, each in self._shares.items() if each.touched_s < before])

    async def _return(self, callers: Sequence[str]) -> None:
        now, rows = now_ms(), []
        for caller in sorted(callers):  # in a fixed order, which prevents deadlocks
            share = self._shares[caller]
            if share.lock.locked():
                continue
            del self._shares[caller]
            if share.left and share.stored and share.resets_at > now:
                rows.append({"named": caller, "ends": share.resets_at, "unused": share.left})
        try:
            if rows:
                await self._database.write(_give_back, rows)
        except Unavailable as problem:
            log.warning("rate_limit_share_not_returned", count=len(rows), error=problem.message)
        except Exception:
            COUNTED_LOCALLY.inc()
            log.exception("rate_limit_share_not_returned", count=len(rows))


def _use(share: _Share) -> bool:
    if share.left == 0:
        return False
    share.left -= 1
    return True


def _end(now: int) -> int:
    """Return the end of a window that starts now, in a whole second as in the headers."""
    return (now // 1000 + WINDOW_S) * 1000


_UNLIMITED = 2**31 - 1


def subscriber(address: str | None) -> str:
    """Map an address to its subscriber: IPv6 to its /64 network (RFC 6177), and IPv4-mapped IPv6 to IPv4."""
    try:
        parsed = ipaddress.ip_address(address or "")
    except ValueError:
        return "unknown"
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((int(parsed), 64), strict=False))
    return str(parsed)


def headers(usage: Usage) -> dict[str, str]:
    return {
        "X-RateLimit-Limit": str(usage.limit),
        "X-RateLimit-Remaining": str(usage.remaining),
        "X-RateLimit-Reset": str(usage.reset),
        "X-RateLimit-Used": str(usage.used),
        "X-RateLimit-Resource": "core",
    }
