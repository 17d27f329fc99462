"""What this process remembers of how much each account has stored, so that not every change counts it."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from weakref import WeakKeyDictionary

import msgspec
import structlog
from prometheus_client import Counter, Gauge

from workhook.core.config import Settings
from workhook.core.errors import Unavailable
from workhook.http.calls import Services
from workhook.storage import Database
from workhook.work.quota.counting import StoredUsage, count

MIB = 2**20
AGAIN_S = 60.0
TIMES_AS_LONG = 100  # as counting took: it takes a hundredth of the time at most
ACCOUNTS_MAX = 10_000  # that are remembered
NEARLY = 0.9

REFUSALS = Counter("workhook_quota_refusals_total", "Changes that a quota of an organization refused.", ["quota"])
GIVEN_UP = Counter(
    "workhook_quota_counts_given_up_total", "Times that counting what an organization has took too long."
)
ORGANIZATIONS = Gauge(
    "workhook_quota_organizations",
    "Organizations that this process knows to be over 90 % of a quota, and to be at it.",
    ["state"],
)

log = structlog.get_logger(__name__)


class Limits(msgspec.Struct, frozen=True):
    """What one account may have; 0: no limit."""

    mb: int
    rows: int

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        return cls(settings.organization_max_mb, settings.organization_max_rows)

    @property
    def bytes(self) -> int:
        return self.mb * MIB

    def part(self, usage: StoredUsage) -> float:
        """Of the limit that is nearer, how much is used: 1.0 is all of it."""
        parts = [used / limit for used, limit in ((usage.bytes, self.bytes), (usage.rows, self.rows)) if limit]
        return max(parts, default=0.0)


class _Known(msgspec.Struct):
    usage: StoredUsage | None  # None: counting it took too long
    until_s: float


class Memory:
    """Of one database."""

    def __init__(self, database: Database, limits: Limits) -> None:
        self.limits = limits
        self._database = database
        self._known: dict[int, _Known] = {}
        self._turns: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def usage(self, account_id: int) -> StoredUsage | None:
        """What was counted within a minute or so, and what this process added. None if counting takes too long."""
        known = self._known.get(account_id)
        if known is not None and time.monotonic() < known.until_s:
            return known.usage
        turn = self._turns[account_id]
        if known is not None and turn.locked():  # another request is counting
            return known.usage
        try:
            async with turn:
                known = self._known.get(account_id)
                if known is None or time.monotonic() >= known.until_s:
                    known = await self._count(account_id)
        finally:
            if not turn.locked():
                self._turns.pop(account_id, None)
        return known.usage

    async def _count(self, account_id: int) -> _Known:
        begun_s = time.monotonic()
        try:
            usage: StoredUsage | None = await count(self._database, account_id)
        except Unavailable as problem:
            GIVEN_UP.inc()
            log.warning("quota_not_counted", account_id=account_id, error=str(problem))
            before = self._known.get(account_id)
            usage = before.usage if before else None
        now_s = time.monotonic()
        known = _Known(usage, now_s + max(AGAIN_S, TIMES_AS_LONG * (now_s - begun_s)))
        self._known.pop(account_id, None)
        self._known[account_id] = known
        if len(self._known) > ACCOUNTS_MAX:
            del self._known[next(iter(self._known))]
        self._show()
        return known

    def add(self, account_id: int, more: StoredUsage) -> None:
        """What this process has committed, until it is counted anew."""
        known = self._known.get(account_id)
        if known is not None and known.usage is not None:
            known.usage += more

    def _show(self) -> None:
        ORGANIZATIONS.labels("nearly_full").set_function(lambda: self._number(NEARLY))
        ORGANIZATIONS.labels("full").set_function(lambda: self._number(1.0))

    def _number(self, part: float) -> int:
        return sum(1 for each in self._known.values() if each.usage and self.limits.part(each.usage) >= part)


_memories: WeakKeyDictionary[Database, Memory] = WeakKeyDictionary()


def memory_of(services: Services) -> Memory | None:
    """None where nothing is limited, so that nothing is counted."""
    limits = Limits.of(services.settings)
    if not limits.mb and not limits.rows:
        return None
    memory = _memories.get(services.database)
    if memory is None:
        memory = _memories[services.database] = Memory(services.database, limits)
    return memory
