"""What is counted for an account, the one statement that counts it, and what this process remembers of it, so that not
every change counts it."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from typing import Any, Literal
from weakref import WeakKeyDictionary

import msgspec
import sqlalchemy as sa
import structlog
from prometheus_client import Counter, Gauge

from workhook.core.config import Settings
from workhook.core.errors import Unavailable
from workhook.http.calls import Services
from workhook.storage import Database, Reader
from workhook.storage.metadata import big

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

Way = Literal["repository_id", "account_id"]
"""The column by which a row belongs to its account: by a project of it, or at once."""

_OF_PROJECTS = (
    "columns tasks task_comments folders files file_comments file_comment_replies timesheets clients "
    "service_checkouts task_credits invoices"
)
_OF_ACCOUNTS = "projects services hooks apps invitations"
COUNTED: dict[str, Way] = {
    **dict.fromkeys(_OF_PROJECTS.split(), "repository_id"),
    **dict.fromkeys(_OF_ACCOUNTS.split(), "account_id"),
}
"""Each table that is counted by its rows. Events are counted too, by both ways, with their bytes."""

_OF_A_RECORD = "task_buckets task_assignees service_prices service_checkout_periods"
_OF_THE_SERVER = "workers worker_generation probe key_check rate_windows sign_in_failures"
_OF_A_PERSON = "identities passwords sessions sign_in_links tokens grants"
_OF_AN_APP = "app_keys app_secrets authorization_codes device_codes refresh_tokens"
_REASONS = {
    "accounts": "An account is what is counted for.",
    "memberships": "There is one for each person at most.",
    "collaborators": "There is one for each person and project at most.",
    "installations": "There is one for each app at most.",
    "installation_repositories": "There is one for each installation and project at most.",
    "audit_log": "What others try and fail to do must not use up an organization's rows; it goes with its retention.",
    _OF_A_RECORD: "They are parts of a record that is counted, and there are only so many for each.",
    "invoice_numbers": "There is one for each account.",
    "import_links": "There is one for each imported record, which is counted.",
    "event_keys": "There is one for each event at most, for a day.",
    "dispatches deliveries redeliveries lanes": "Deliveries are never refused; they go with `retention_days`.",
    "timesheet_changes timesheet_sums": "They are made of timesheets, which are counted.",
    _OF_THE_SERVER: "They are the server's own.",
    _OF_A_PERSON: "They belong to a person or their sign-in, not to an organization.",
    "idempotency_keys": "It belongs to a token, and is kept for a day.",
    _OF_AN_APP: "They belong to an app, which is counted, and are short-lived or bounded.",
}
NOT_COUNTED = {name: reason for names, reason in _REASONS.items() for name in names.split()}
"""Every other table, and why its rows do not count."""


class StoredUsage(msgspec.Struct, frozen=True):
    """What an account has stored, the trash included. `rows` counts events, too."""

    file_bytes: int
    event_bytes: int
    rows: int

    @property
    def bytes(self) -> int:
        return self.file_bytes + self.event_bytes

    def __add__(self, more: StoredUsage) -> StoredUsage:
        return StoredUsage(
            self.file_bytes + more.file_bytes, self.event_bytes + more.event_bytes, self.rows + more.rows
        )


def _table(name: str, *columns: str) -> sa.TableClause:
    """By its name alone: the tables are of modules that know nothing of each other."""
    return sa.table(name, *(sa.column(each, sa.BigInteger()) for each in columns))


def _total(column: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
    return sa.cast(sa.func.coalesce(sa.func.sum(column), 0), sa.BigInteger)


def _statement() -> sa.Select[Any]:
    account_id = big("account_id")
    projects = _table("projects", "repository_id", "account_id")
    theirs = sa.select(projects.c.repository_id).where(projects.c.account_id == account_id)
    numbers = []
    for name, way in COUNTED.items():
        table = _table(name, way)
        mine = table.c[way] == account_id if way == "account_id" else table.c[way].in_(theirs)
        numbers.append(sa.select(sa.func.count()).select_from(table).where(mine).scalar_subquery())
    # No index of events begins with the account.
    events = _table("events", "repository_id", "account_id", "size")
    sums = [sa.func.count().label("number"), _total(events.c.size).label("bytes")]
    in_projects = sa.select(*sums).where(events.c.repository_id.in_(theirs)).subquery("in_projects")
    in_none = sa.select(*sums).where(events.c.repository_id.is_(None), events.c.account_id == account_id)
    in_account = in_none.subquery("in_account")
    files = _table("files", "repository_id", "size")
    return sa.select(
        sa.select(_total(files.c.size)).where(files.c.repository_id.in_(theirs)).scalar_subquery().label("file_bytes"),
        (in_projects.c.bytes + in_account.c.bytes).label("event_bytes"),
        (sum(numbers, in_projects.c.number + in_account.c.number)).label("rows"),
    ).select_from(in_projects.join(in_account, sa.true()))


_count = _statement()


async def count(reader: Reader, account_id: int) -> StoredUsage:
    """Looks at every row. Raises `storage.slow.QueryTooSlow`."""
    [row] = await reader.fetch_slow(_count, {"account_id": account_id})
    return StoredUsage(row["file_bytes"], row["event_bytes"], row["rows"])


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


class UsageMemory:
    """What each account of one database was found to have stored."""

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


_memories: WeakKeyDictionary[Database, UsageMemory] = WeakKeyDictionary()


def memory_of(services: Services) -> UsageMemory | None:
    """None where nothing is limited, so that nothing is counted."""
    limits = Limits.of(services.settings)
    if not limits.mb and not limits.rows:
        return None
    memory = _memories.get(services.database)
    if memory is None:
        memory = _memories[services.database] = UsageMemory(services.database, limits)
    return memory
