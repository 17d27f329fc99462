"""Quotas of an account: the statement that counts its usage, and a per-process cache of the result.

The events of requests that create records are watched. If they exceed a quota, the request is rejected before the
commit.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, defaultdict
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal
from weakref import WeakKeyDictionary

import msgspec
import sqlalchemy as sa
import structlog
from msgspec import Meta
from prometheus_client import Counter, Gauge

from workhook.core.caching import put_bounded
from workhook.core.clock import now_ms, to_millis_text
from workhook.core.config import Settings
from workhook.core.errors import Conflict, Forbidden, Number, Problem, TooLarge, Unavailable, say
from workhook.events.catalog import CATALOG
from workhook.events.outbox import Draft
from workhook.http.calls import Call, Services, current
from workhook.http.endpoints import Routes
from workhook.http.operations import WEBHOOK_API, WORK_API, Operation
from workhook.http.wire_types import Time
from workhook.identity.audit import action_of
from workhook.identity.authenticator import Caller, actor_of
from workhook.identity.queries import find_member_role
from workhook.storage import Database, Reader, Transaction
from workhook.storage.metadata import bigint_param, is_in_project, metadata
from workhook.work.kernel.access import get_owned_account

MIB = 2**20
AGAIN_S = 60.0
TIMES_AS_LONG = 100  # relative to the time the count took, so that counting takes at most 1% of the time
ACCOUNTS_MAX = 10_000  # in the cache
NEARLY = 0.9

REFUSALS = Counter("workhook_quota_refusals_total", "Changes rejected because of an organization's quota.", ["quota"])
GIVEN_UP = Counter("workhook_quota_counts_given_up_total", "Quota counts abandoned because they took too long.")
ORGANIZATIONS = Gauge(
    "workhook_quota_organizations",
    "Organizations that this process knows to be above 90 % of a quota, or at the quota.",
    ["state"],
)

log = structlog.get_logger(__name__)

Way = Literal["repository_id", "account_id"]
"""The column that ties a row to its account: through one of its projects, or directly."""

_OF_ACCOUNTS = ("projects", "services", "hooks", "apps", "invitations")
NOT_COUNTED = {
    "board_filters": "A person has one row for each project at most.",
    "calendar_feeds": "A person has one for each project, and one more.",
    "collaborators": "There is one for each person and project at most.",
    "import_links": "There is one for each imported record, which is counted.",
    "installation_repositories": "There is one for each installation and project at most.",
    "mail_messages": "Each person gets a limited number an hour, and they are deleted after some days.",
    "mentions": "They are parts of comments, which are counted, and each names a limited number of people.",
    "notifications": "Each person has a limited number.",
    "project_billing": "There is one for each project, which is counted.",
    "project_rates": "There is one for each person in a project at most.",
    "task_numbers": "There is one for each project, which is counted.",
    "unmatched_assignees": "They are parts of tasks, which are counted, and each has a limited number.",
}
"""Tables of projects whose rows do not count, with the reason."""


@cache
def counted() -> Mapping[str, Way]:
    """Return the tables whose rows count, with the column that ties them to the account.

    These are the tables of projects (`metadata.in_project`) except `NOT_COUNTED`, and some tables of accounts. Events
    also count, through both columns and with their bytes.
    """
    assert "tasks" in metadata.tables, "the modules of all tables have to be imported"
    others = {*NOT_COUNTED, *_OF_ACCOUNTS}
    of_projects = sorted(
        each.name for each in metadata.tables.values() if is_in_project(each) and each.name not in others
    )
    return {**dict.fromkeys(of_projects, "repository_id"), **dict.fromkeys(_OF_ACCOUNTS, "account_id")}


class StoredUsage(msgspec.Struct, frozen=True):
    """The usage of an account, including the trash. `rows` includes events."""

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
    """Declare a table of a module that this one must not import."""
    return sa.table(name, *(sa.column(each, sa.BigInteger()) for each in columns))


def _total(column: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
    return sa.cast(sa.func.coalesce(sa.func.sum(column), 0), sa.BigInteger)


@cache
def _statement() -> sa.Select[Any]:
    account_id = bigint_param("account_id")
    projects = _table("projects", "repository_id", "account_id")
    repositories = sa.select(projects.c.repository_id).where(projects.c.account_id == account_id)
    numbers = []
    for name, way in counted().items():
        table = _table(name, way)
        mine = table.c[way] == account_id if way == "account_id" else table.c[way].in_(repositories)
        numbers.append(sa.select(sa.func.count()).select_from(table).where(mine).scalar_subquery())
    # No index on events starts with the account.
    events = _table("events", "repository_id", "account_id", "size")
    sums = [sa.func.count().label("number"), _total(events.c.size).label("bytes")]
    in_projects = sa.select(*sums).where(events.c.repository_id.in_(repositories)).subquery("in_projects")
    in_none = sa.select(*sums).where(events.c.repository_id.is_(None), events.c.account_id == account_id)
    in_account = in_none.subquery("in_account")
    files = _table("files", "repository_id", "size")
    return sa.select(
        sa.select(_total(files.c.size))
        .where(files.c.repository_id.in_(repositories))
        .scalar_subquery()
        .label("file_bytes"),
        (in_projects.c.bytes + in_account.c.bytes).label("event_bytes"),
        (sum(numbers, in_projects.c.number + in_account.c.number)).label("rows"),
    ).select_from(in_projects.join(in_account, sa.true()))


async def count(reader: Reader, account_id: int) -> StoredUsage:
    """Count the usage of an account, reading every row. Raises `storage.slow.QueryTooSlow`."""
    [row] = await reader.fetch_slow(_statement(), {"account_id": account_id})
    return StoredUsage(row["file_bytes"], row["event_bytes"], row["rows"])


class Limits(msgspec.Struct, frozen=True):
    """The limits of an account; 0 means unlimited."""

    mb: int
    rows: int

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        return cls(settings.organization_max_mb, settings.organization_max_rows)

    @property
    def bytes(self) -> int:
        return self.mb * MIB

    def part(self, usage: StoredUsage) -> float:
        """Return the used fraction of the limit that is closest to being reached; 1.0 means it is full."""
        parts = [used / limit for used, limit in ((usage.bytes, self.bytes), (usage.rows, self.rows)) if limit]
        return max(parts, default=0.0)


class _Known(msgspec.Struct):
    usage: StoredUsage | None  # None: counting took too long
    until_s: float


class UsageMemory:
    """The counted usage of each account in a database."""

    def __init__(self, database: Database, limits: Limits) -> None:
        self.limits = limits
        self._database = database
        self._known: OrderedDict[int, _Known] = OrderedDict()
        self._turns: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def usage(self, account_id: int) -> StoredUsage | None:
        """Return the last counted usage, usually at most a minute old, plus additions by this process.

        Returns None if counting takes too long.
        """
        known = self._known.get(account_id)
        if known is not None and time.monotonic() < known.until_s:
            return known.usage
        turn = self._turns[account_id]
        if known is not None and turn.locked():  # another request is already counting
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
        put_bounded(self._known, account_id, known, ACCOUNTS_MAX)
        ORGANIZATIONS.labels("nearly_full").set_function(lambda: self._number(NEARLY))
        ORGANIZATIONS.labels("full").set_function(lambda: self._number(1.0))
        return known

    def add(self, account_id: int, more: StoredUsage) -> None:
        """Add usage committed by this process, until the next count."""
        known = self._known.get(account_id)
        if known is not None and known.usage is not None:
            known.usage += more

    def _number(self, part: float) -> int:
        known = list(self._known.values())  # metrics are collected in another thread
        return sum(1 for each in known if each.usage and self.limits.part(each.usage) >= part)


_memories: WeakKeyDictionary[Database, UsageMemory] = WeakKeyDictionary()


def memory_of(services: Services) -> UsageMemory | None:
    """Return the cache of the server's database, or None if there are no limits."""
    limits = Limits.of(services.settings)
    if not limits.mb and not limits.rows:
        return None
    memory = _memories.get(services.database)
    if memory is None:
        memory = _memories[services.database] = UsageMemory(services.database, limits)
    return memory


EVENT_ACTIONS = frozenset({"event.publish", "event.dispatch", "hook.create", "hook.ping", "hook.test"})
"""Actions that store an event at the caller's request. Operations and pages share the names of the audit log."""

_SETTLING = frozenset({"payment.create", "credit_note.create"})
"""Settling an invoice is never rejected."""

ACTIONS = frozenset({"created", "added", "started", "granted", "spent"})
"""Event actions of the work API that report a new record."""


class _Growth(msgspec.Struct):
    """The growth of an account in a transaction.

    `asked` marks growth that may be rejected. `file_bytes` is the total size of the account's other files, if the
    transaction has counted it.
    """

    usage: StoredUsage = StoredUsage(0, 0, 0)
    asked: bool = False
    file_bytes: int | None = None


class _Growths(dict[int, _Growth]):
    """The growth of each account, by its ID."""


def makes_records(action: str) -> bool:
    """Return whether an action creates records. Other writes edit, end, restore or delete existing ones."""
    return action == "task.bulk" or (action.endswith(".create") and action not in _SETTLING)


def watch(tx: Transaction, draft: Draft, size: int) -> None:
    """Add an event to the growth of its account in this transaction (an `events.outbox.Watcher`).

    Changes made outside a request are skipped here; the next count of the usage includes them.
    """
    call = current()
    memory = memory_of(call.services) if call is not None else None
    if call is None or memory is None:
        return
    made = _makes(call.operation, draft)
    growth = _growth_of(tx, call, memory, draft.account_id)
    growth.usage += StoredUsage(0, size, 2 if made else 1)  # the event, and the record it reports
    growth.asked |= made or action_of(call.operation) in EVENT_ACTIONS


def add_file(
    tx: Transaction, call: Call, memory: UsageMemory, account_id: int, more_bytes: int, *, other_bytes: int
) -> None:
    """Add a file, since events do not include file sizes.

    `other_bytes` is the size of the other files, counted under a lock.
    """
    growth = _growth_of(tx, call, memory, account_id)
    growth.usage += StoredUsage(more_bytes, 0, 0)
    growth.file_bytes = other_bytes


def _makes(operation: Operation, draft: Draft) -> bool:
    action = action_of(operation)
    if action == "hook.create":
        return True  # its event is a ping
    if action == "timesheet.create" and draft.action == "finished":
        return True  # with a duration it never runs
    if not makes_records(action) or draft.action not in ACTIONS or CATALOG[draft.name].origin != "own":
        return False
    if action == "task.bulk":
        return draft.name == "task"  # moving a task can start a timer
    # Invoices issued by the start of a subscription never cause a rejection, but they are counted.
    return action != "service_checkout.create" or draft.name == "service_checkout"


def _growth_of(tx: Transaction, call: Call, memory: UsageMemory, account_id: int) -> _Growth:
    accounts = tx.get_local(_Growths)
    if not accounts:

        async def check(tx: Transaction) -> None:
            for account_id, growth in accounts.items():
                if growth.asked:
                    await _require_room(tx, call, memory, account_id, growth)

        def remember() -> None:
            for account_id, growth in accounts.items():
                memory.add(account_id, growth.usage)

        tx.before_commit(check)
        tx.after_commit(remember)
    return accounts.setdefault(account_id, _Growth())


async def _require_room(tx: Transaction, call: Call, memory: UsageMemory, account_id: int, growth: _Growth) -> None:
    used = await memory.usage(account_id)
    if used is None:
        return
    if growth.file_bytes is not None:
        used = msgspec.structs.replace(used, file_bytes=growth.file_bytes)
    limits, more = memory.limits, growth.usage
    if limits.rows and used.rows + more.rows > limits.rows:
        raise await _too_many(tx, call, account_id, used.rows, limits.rows)
    if limits.mb and used.bytes + more.bytes > limits.bytes:
        raise too_large(limits.mb, used.bytes if await _may_know(tx, call, account_id) else None)


async def _too_many(reader: Reader, call: Call, account_id: int, used: int, limit: int) -> Problem:
    REFUSALS.labels("rows").inc()
    if await _may_know(reader, call, account_id):
        message = say(
            "The organization has reached its quota of {} records (organization_max_rows): it has {}. Items in "
            "the trash count for 30 days, and events count until they are removed at the end of the retention "
            "period. Delete what you do not need, or ask your administrator for a higher quota.",
            Number(limit),
            Number(used),
        )
    else:
        message = say(
            "The organization has reached its quota of {} records (organization_max_rows). Items in the trash "
            "count for 30 days, and events count until they are removed at the end of the retention period. "
            "Delete what you do not need, or ask your administrator for a higher quota.",
            Number(limit),
        )
    kind = Forbidden if call.operation.area is WEBHOOK_API else Conflict
    return kind(message, code="row_quota")


def too_large(max_mb: int, used_bytes: int | None) -> Problem:
    """Return the error. `used_bytes` is None if the caller must not see the usage."""
    REFUSALS.labels("bytes").inc()
    if used_bytes is not None:
        message = say(
            "The organization has reached its quota of {} MiB for files and events (organization_max_mb): {} MiB "
            "are in use. Items in the trash count for 30 days, and events count until they are removed at the "
            "end of the retention period. Delete what you do not need, or ask your administrator for a higher "
            "quota.",
            max_mb,
            f"{used_bytes / MIB:.1f}",
        )
    else:
        message = say(
            "The organization has reached its quota of {} MiB for files and events (organization_max_mb). Items "
            "in the trash count for 30 days, and events count until they are removed at the end of the retention "
            "period. Delete what you do not need, or ask your administrator for a higher quota.",
            max_mb,
        )
    return TooLarge(message, code="storage_quota")


async def _may_know(reader: Reader, call: Call, account_id: int) -> bool:
    """Return whether the caller may see the usage: members may, clients may not."""
    actor = call.actor.actor if isinstance(call.actor, Caller) else None
    if actor is None:
        return False
    return actor.user.id == account_id or await find_member_role(reader, account_id, actor.user.id) is not None


class UsageShape(msgspec.Struct):
    """The storage used by an organization, including the trash."""

    bytes: Annotated[int, Meta(description="Bytes of files and event payloads.")]
    bytes_limit: Annotated[int | None, Meta(description="`organization_max_mb` in bytes; null: no limit.")]
    rows: Annotated[int, Meta(description="Number of records: tasks, comments, files, events, and so on.")]
    rows_limit: Annotated[int | None, Meta(description="`organization_max_rows`; null: no limit.")]
    counted_at: Time


class UsageAnswer(msgspec.Struct):
    usage: UsageShape
    success: bool = True


routes = Routes(WORK_API, "Users")


@routes.get("/organizations/{login}/usage", etag=False)
async def get_organization_usage(call: Call, login: str) -> UsageAnswer:
    """Get an organization's storage usage.

    Only owners of the organization can call this. With your own login, it returns the usage of your own projects. The
    usage is recalculated on every call. Deleted items count until they leave the trash after 30 days. Returns 503 if
    counting takes too long.
    """
    account = await get_owned_account(call.database, actor_of(call), login, "see what it uses")
    limits = Limits.of(call.services.settings)
    usage = await count(call.database, account.id)
    shape = UsageShape(usage.bytes, limits.bytes or None, usage.rows, limits.rows or None, to_millis_text(now_ms()))
    return UsageAnswer(shape)
