"""The credit ledgers of projects: `/projects/{id}/task_credits` and `/task_credits`.

Each entry has an event, and the rest of each grant is tracked. A chore expires grants that are due. Appending an entry
requires the lock on the project's row. Clients get 404.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from workhook.core import json
from workhook.core.clock import now_ms, to_millis_text
from workhook.core.errors import Conflict, Fault, Invalid, NotFound, say
from workhook.core.ids import new_id
from workhook.core.money import AMOUNT_MAX_MINOR, HUNDREDTHS_MAX, to_hundredths
from workhook.core.records import to_response
from workhook.http.calls import Call, Services
from workhook.http.endpoints import Listed, Routes
from workhook.http.lists import ListQuery
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.identity.queries import find_repository_by_id
from workhook.identity.schemas import Actor, Repository
from workhook.identity.tables import accounts, projects
from workhook.storage import Reader, Row, Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import bigint_param, insert_into
from workhook.storage.record_rows import row_reader, selected, values_of
from workhook.storage.sweeping import for_each_isolated
from workhook.work.board.tasks.schemas import tasks
from workhook.work.kernel.access import Access, find_access, find_with_access, with_access
from workhook.work.kernel.list_statements import length
from workhook.work.kernel.lists import Listing, cursor_of, read_for
from workhook.work.kernel.people import membership_of, person_columns, person_of_row, person_to_response
from workhook.work.kernel.record_events import publish_event
from workhook.work.kernel.schemas import Done, if_set
from workhook.work.kernel.scopes import source_of_project
from workhook.work.money.credits import rules
from workhook.work.money.credits.rules import LedgerStep, Lot, Use
from workhook.work.money.credits.schemas import (
    CreditTaskShape,
    TaskCredit,
    TaskCreditAnswer,
    TaskCreditBalance,
    TaskCreditCreate,
    TaskCreditsAnswer,
    faults_of,
    task_credits,
)

LEDGERS_AT_ONCE = 100
LOTS_AT_FIRST = 100

_ACTIONS = {"grant": "granted", "spend": "spent", "expire": "expired", "reversal": "reversed"}


class Position(msgspec.Struct, frozen=True):
    """The end of a ledger: its last entry, and the lots that are due or next to be spent, oldest first."""

    last_id: str = ""
    balance_minor: int = 0
    lots: tuple[Lot, ...] = ()


_in_project = task_credits.c.repository_id == bigint_param("repository_id")
# A literal, because neither database uses a partial index for a parameter.
_something_left = task_credits.c.remaining_minor > sa.literal_column("0")
_open = sa.and_(_in_project, _something_left)
_due = task_credits.c.expires_at <= bigint_param("now")
_read = row_reader(TaskCredit)
_people = accounts.alias("people")
_entries = sa.select(
    *selected(TaskCredit, task_credits),
    task_credits.c.task_id,
    task_credits.c.task_title,
    *person_columns(membership_of(task_credits.c.repository_id, _people), _people),
).join_from(task_credits, _people, _people.c.id == task_credits.c.user_id, isouter=True)

# --- locks, which allow other inserts into the project: those take a key share of its row -------------------------

_lock = (
    sa.select(projects.c.repository_id)
    .where(projects.c.repository_id == bigint_param("repository_id"), projects.c.deleted_at.is_(None))
    .with_for_update(key_share=True)
)
_this_project = projects.alias("named")
_task_title = (
    sa.select(tasks.c.title)
    .where(
        tasks.c.id == sa.bindparam("task_id", type_=sa.Text),
        tasks.c.repository_id == _this_project.c.repository_id,
        tasks.c.deleted_at.is_(None),
    )
    .scalar_subquery()
)
# With `task_title`, which is null if the project has no such task.
project_locked = with_access(
    sa.select(_task_title.label("task_title"))
    .select_from(_this_project)
    .where(_this_project.c.id == sa.bindparam("project_id")),
    _this_project.c.repository_id,
).with_for_update(of=projects, key_share=True)
entry_locked = with_access(
    _entries.where(task_credits.c.id == sa.bindparam("id")), task_credits.c.repository_id
).with_for_update(of=projects, key_share=True)

# --- balances ---------------------------------------------------------------------------------------------------

_last = (
    sa.select(task_credits.c.id, task_credits.c.balance_after_minor)
    .where(_in_project)
    .order_by(task_credits.c.id.desc())
    .limit(1)
    .subquery("last")
)
_lot = [task_credits.c[name] for name in Lot.__struct_fields__]


def _oldest(*conditions: sa.ColumnElement[bool]) -> sa.Select[Any]:
    first = sa.select(*_lot).where(*conditions).order_by(task_credits.c.id).limit(bigint_param("limit"))
    return sa.select(first.subquery())


def _position(*branches: sa.Select[Any]) -> sa.Select[Any]:
    lots = (sa.union_all(*branches) if len(branches) > 1 else branches[0]).subquery("lots")
    return sa.select(
        _last.c.id.label("last_id"), _last.c.balance_after_minor.label("balance_minor"), *lots.c
    ).join_from(_last, lots, sa.true(), isouter=True)


_not_due = sa.or_(task_credits.c.expires_at.is_(None), task_credits.c.expires_at > bigint_param("now"))
_next = _position(_oldest(_open, _due), _oldest(_open, _not_due))
_lots_by_ids = _position(
    sa.select(*_lot, task_credits.c.reversed, task_credits.c.updated_at).where(
        _in_project, any_of(task_credits.c.id, "lot_ids")
    )
)
_unspent = sa.and_(_something_left, _not_due)


def _sum(column: sa.ColumnElement[int], *conditions: sa.ColumnElement[bool]) -> sa.ColumnElement[int]:
    total = sa.func.sum(column).filter(*conditions)
    return sa.cast(sa.func.coalesce(total, 0), sa.BigInteger)  # PostgreSQL's sum has a wider type


_standing = task_credits.c.reversed.is_(sa.false())
# In hundredths of a credit. Due credits count as expired, and `expires_next` is when unspent ones next expire, or null.
_balance = sa.select(
    _sum(task_credits.c.remaining_minor, _unspent).label("balance_minor"),
    _sum(task_credits.c.amount_minor, task_credits.c.kind == "grant", _standing).label("granted_minor"),
    _sum(-task_credits.c.amount_minor, task_credits.c.kind == "spend", _standing).label("used_minor"),
    sa.func.min(task_credits.c.expires_at).filter(_unspent).label("expires_next"),
).where(_in_project)
ENTRIES = Listing[TaskCredit](
    task_credits,
    lambda page, _: _entries.join(page, page.c.id == task_credits.c.id),
    lambda row, _, __: entry_of(row),
    length(task_credits.c.notes, task_credits.c.uses),
)
_overdue_ledgers = (
    sa.select(task_credits.c.repository_id)
    .join_from(task_credits, projects, projects.c.repository_id == task_credits.c.repository_id)
    .where(_something_left, _due, projects.c.deleted_at.is_(None), task_credits.c.repository_id > bigint_param("after"))
    .distinct()
    .order_by(task_credits.c.repository_id)
    .limit(bigint_param("limit"))
)

# --- writes -----------------------------------------------------------------------------------------------------

_insert = insert_into(task_credits, *(each.name for each in task_credits.c))
_change = (
    sa.update(task_credits)
    .where(task_credits.c.id == sa.bindparam("entry_id"))
    .values(
        remaining_minor=bigint_param("remaining_minor"),
        reversed=sa.or_(task_credits.c.reversed, sa.bindparam("is_reversed", type_=sa.Boolean)),
        updated_at=sa.case(
            (sa.bindparam("is_reversed", type_=sa.Boolean), bigint_param("changed_at")), else_=task_credits.c.updated_at
        ),
    )
)


async def find_position(tx: Transaction, repository_id: int, now: int, *, enough_minor: int = 0) -> Position:
    """Return the position with all due lots and, if possible, enough of the oldest others to cover `enough_minor`."""
    limit = LOTS_AT_FIRST
    while True:
        rows = await tx.fetch_all(_next, {"repository_id": repository_id, "now": now, "limit": limit})
        found = _position_of(rows)
        due = [each for each in found.lots if each.is_due(now)]
        left = sum(each.remaining_minor for each in found.lots) - sum(each.remaining_minor for each in due)
        complete = left >= enough_minor or len(found.lots) - len(due) < limit
        if complete and len(due) < limit:
            return found
        limit *= 10


async def find_balance(reader: Reader, repository_id: int) -> Row:
    return await reader.fetch_row(_balance, {"repository_id": repository_id, "now": now_ms()})


def entry_of(row: Row) -> TaskCredit:
    task = CreditTaskShape(row["task_id"], row["task_title"]) if row["task_id"] else None
    return _read(row, task=task, user=person_of_row(row) if row["user_id"] else None)


def _position_of(rows: Sequence[Row]) -> Position:
    if not rows:
        return Position()
    lots = [Lot(*(row[name] for name in Lot.__struct_fields__)) for row in rows if row["id"] is not None]
    return Position(rows[0]["last_id"], rows[0]["balance_minor"], tuple(sorted(lots, key=lambda each: each.id)))


class EntryDetails(msgspec.Struct, frozen=True):
    """The fields of an entry besides its amounts. `caller` is None for entries that Workhook creates automatically."""

    caller: Actor | None = None
    notes: str | None = None
    task: CreditTaskShape | None = None
    reverses_id: str | None = None
    reverses_at: int = 0  # when the reversed entry was last changed


class LedgerWriter(msgspec.Struct, frozen=True):
    """Appends entries to the ledger of a project. The transaction must hold the lock on the project's row."""

    write: Write
    repository: Repository

    async def grant(self, amount_minor: int, notes: str | None) -> str:
        """Append a grant without an expiry, in hundredths of a credit, and return the entry's ID."""
        position, _ = await self.expire_due()
        return (await self.append_grant(position, EntryDetails(self.write.caller, notes), amount_minor)).id

    async def append_grant(
        self, position: Position, details: EntryDetails, amount_minor: int, expires_at: int | None = None
    ) -> TaskCredit:
        """Append a grant. `position` is the one returned by `expire_due`."""
        balance = position.balance_minor + amount_minor
        return await self.append(
            position.last_id, LedgerStep("grant", amount_minor, balance, expires_at=expires_at), details
        )

    async def expire_due(self, *, enough_minor: int = 0) -> tuple[Position, int]:
        """Append the expiry of all due lots. Returns the new position and the number of appended entries.

        The position contains no due lots, and enough of the others to cover `enough_minor` if possible.
        """
        now = self.write.now
        found = await find_position(self.write.tx, self.repository.id, now, enough_minor=enough_minor)
        steps = rules.expire(found.balance_minor, found.lots, now)
        last_id = await self.append_all(found.last_id, [(step, EntryDetails()) for step in steps])
        balance = steps[-1].balance_after_minor if steps else found.balance_minor
        left = tuple(each for each in found.lots if not each.is_due(now))
        return Position(last_id, balance, left), len(steps)

    async def append_all(self, last_id: str, entries: Sequence[tuple[LedgerStep, EntryDetails]]) -> str:
        for step, details in entries:
            last_id = (await self.append(last_id, step, details)).id
        return last_id

    async def append(self, last_id: str, step: LedgerStep, details: EntryDetails) -> TaskCredit:
        """Append one entry after `last_id`, update the lots it affects, and publish its event."""
        tx, now = self.write.tx, self.write.now
        entry = TaskCredit(
            id=rules.id_after(last_id, new_id("crd")),
            kind=step.kind,
            amount_minor=step.amount_minor,
            balance_after_minor=step.balance_after_minor,
            task=details.task,
            notes=details.notes,
            user=person_to_response(details.caller.user) if details.caller else None,
            reversed=False,
            reverses_id=details.reverses_id,
            expires_at=step.expires_at,
            created_at=now,
            updated_at=now,
            remaining_minor=step.amount_minor if step.kind == "grant" else 0,
            uses=json.encode_text(step.uses),
        )
        task = {"task_id": entry.task and entry.task.id, "task_title": entry.task and entry.task.title}
        owners = {"user_id": entry.user and entry.user.id, "repository_id": self.repository.id}
        tx.defer(_insert, [{**values_of(entry), **task, **owners}])
        changed_at, reversed_id = max(now, details.reverses_at + 1), details.reverses_id
        left = {each.id: each.remaining_minor for each in step.lots}
        if reversed_id is not None:
            left.setdefault(reversed_id, 0)  # a spend has no remaining amount
        changes = [
            {"entry_id": id_, "remaining_minor": left[id_], "is_reversed": id_ == reversed_id, "changed_at": changed_at}
            for id_ in sorted(left)
        ]
        if changes:
            await tx.execute_many(_change, changes)
        write = self.write if details.caller else self.write.by_itself()
        await publish_event(write, self.repository, "task_credit", _ACTIONS[step.kind], to_response(entry))
        return entry


async def lock_ledger(write: Write, repository: Repository) -> LedgerWriter:
    """Lock the project's row for appending to its ledger, or raise `NotFound` if the project is deleted.

    Call this before the transaction writes anything else to the project, because a row that refers to the project takes
    a shared lock on it, and two transactions that share a lock cannot both upgrade it.
    """
    if await write.tx.fetch_one(_lock, {"repository_id": repository.id}) is None:
        raise NotFound()
    return LedgerWriter(write, repository)


async def expire_credits(services: Services, now: int) -> int:
    """Expire the remaining credits of due grants and return the number of expired grants. This is a chore.

    Each ledger is expired in its own transaction, so several processes may run this concurrently. A ledger that fails
    does not stop the others. Raises `Unavailable`.
    """

    async def expire(repository_id: int) -> int:
        async def expire_ledger(tx: Transaction) -> int:
            if await tx.fetch_one(_lock, {"repository_id": repository_id}) is None:
                return 0
            repository = await find_repository_by_id(tx, repository_id)
            assert repository is not None, "its row is locked"
            _, count = await LedgerWriter(Write(tx, None, services.base, moment=now), repository).expire_due()
            return count

        return await services.database.in_transaction(expire_ledger)

    done, after = 0, 0
    while True:
        params = {"now": now, "after": after, "limit": LEDGERS_AT_ONCE}
        overdue = [row["repository_id"] for row in await services.database.fetch_all(_overdue_ledgers, params)]
        done += await for_each_isolated("expired_task_credits", overdue, expire)
        if len(overdue) < LEDGERS_AT_ONCE:
            return done
        after = overdue[-1]


routes = Routes(WORK_API, "Task Credits")


@routes.get("/projects/{id}/task_credits")
async def list_task_credits(call: Call, project_id: str, query: ListQuery) -> Listed[TaskCreditsAnswer]:
    """List the entries of a project's credit ledger."""
    after = cursor_of(query)
    access = await find_access(call.database, actor_of(call), project_id)
    access.require_not_client()
    entries, headers = await read_for(call, ENTRIES, source_of_project(access), query, after)
    return Listed(TaskCreditsAnswer([to_response(each) for each in entries]), headers)


@routes.post("/projects/{id}/task_credits")
async def create_task_credit(write: Write, project_id: str, wanted: TaskCreditCreate) -> TaskCreditAnswer:
    """Grant credits, or spend credits on a task.

    The oldest grant is spent first. A spend that exceeds the balance fails with `insufficient_credits`.
    """
    task_id = wanted.task_id or None
    row, access = await find_with_access(write.tx, project_locked, write.actor, project_id=project_id, task_id=task_id)
    _require_writable(access)
    faults = faults_of(wanted, write.now)
    if wanted.kind == "spend" and task_id and row["task_title"] is None:
        faults.append(Fault(field="task_id", message="task_id: the project has no such task"))
    if faults:
        raise Invalid(faults=faults)
    task = CreditTaskShape(task_id, row["task_title"]) if task_id else None
    details = EntryDetails(write.actor, wanted.notes or None, task)
    change = _grant if wanted.kind == "grant" else _spend
    return TaskCreditAnswer(to_response(await change(LedgerWriter(write, access.repository), details, wanted)))


async def _grant(writer: LedgerWriter, details: EntryDetails, wanted: TaskCreditCreate) -> TaskCredit:
    position, _ = await writer.expire_due()
    if position.balance_minor + wanted.amount > AMOUNT_MAX_MINOR:
        message = say("amount must not raise the balance above {}", HUNDREDTHS_MAX)
        raise Invalid.at("amount", message)
    return await writer.append_grant(position, details, wanted.amount, if_set(wanted.expires_at))


async def _spend(writer: LedgerWriter, details: EntryDetails, wanted: TaskCreditCreate) -> TaskCredit:
    position, _ = await writer.expire_due(enough_minor=wanted.amount)
    step = rules.spend(position.balance_minor, position.lots, wanted.amount)
    if step is None:
        have, want = to_hundredths(position.balance_minor), to_hundredths(wanted.amount)
        raise Conflict(say("The balance is {}, so {} cannot be spent.", have, want), code="insufficient_credits")
    return await writer.append(position.last_id, step, details)


@routes.get("/projects/{id}/task_credits/balance")
async def get_task_credit_balance(call: Call, project_id: str) -> TaskCreditBalance:
    """Get the credit balance of a project."""
    access = await find_access(call.database, actor_of(call), project_id)
    access.require_not_client()
    row = await find_balance(call.database, access.repository.id)
    balance, granted, used = (to_hundredths(row[name]) for name in ("balance_minor", "granted_minor", "used_minor"))
    next_at = None if row["expires_next"] is None else to_millis_text(row["expires_next"])
    return TaskCreditBalance(balance, granted, used, next_at)


@routes.delete("/task_credits/{task_credit_id}")
async def delete_task_credit(write: Write, task_credit_id: str) -> Done:
    """Reverse a spend, or a grant that has not been used.

    The entry is kept, and another entry is appended that reverses it. Credits returned to a grant that has since
    expired expire immediately.
    """
    row, access = await find_with_access(write.tx, entry_locked, write.actor, id=task_credit_id)
    _require_writable(access)
    entry = entry_of(row)
    uses = tuple(Use(*each) for each in json.decode(entry.uses))
    # The row may have been read before waiting for the lock, so read the changeable fields again.
    lot_ids = sorted({entry.id, *(each.grant_id for each in uses)})
    rows = await write.tx.fetch_all(_lots_by_ids, {"repository_id": access.repository.id, "lot_ids": lot_ids})
    position, fresh = _position_of(rows), next(row for row in rows if row["id"] == entry.id)
    entry = msgspec.structs.replace(entry, reversed=bool(fresh["reversed"]), updated_at=fresh["updated_at"])
    write.require_match(TaskCreditAnswer(to_response(entry)))
    if entry.reversed:
        return Done()
    if entry.kind not in ("grant", "spend"):
        raise Conflict(say("Only grants and spends can be reversed."), code="not_reversible")
    if entry.kind == "spend":
        steps = rules.reverse_spend(position.balance_minor, uses, position.lots, write.now)
    else:
        lot = next(each for each in position.lots if each.id == entry.id)
        step = None if lot.is_due(write.now) else rules.reverse_grant(position.balance_minor, lot)
        if step is None:
            raise Conflict(say("Part of this grant has been spent or has expired."), code="credit_used")
        steps = [step]
    first = EntryDetails(write.actor, task=entry.task, reverses_id=entry.id, reverses_at=entry.updated_at)
    entries = [(step, EntryDetails() if number else first) for number, step in enumerate(steps)]
    await LedgerWriter(write, access.repository).append_all(position.last_id, entries)
    return Done()


def _require_writable(access: Access) -> None:
    """Raise `NotFound` or `Forbidden`, or `Conflict` if the project is archived."""
    access.require_not_client()
    access.require_writable()
