"""The SQL of task credits. Whoever writes holds the project's row: entries of a ledger come one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from workhook.core import json
from workhook.http.lists import Found
from workhook.identity.tables import accounts, projects
from workhook.storage import Reader, Row, Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big, insert_into
from workhook.storage.record_rows import row_reader, selected, values_of
from workhook.work.access import with_access
from workhook.work.credits.rules import Lot, Use
from workhook.work.credits.schemas import CreditTaskShape, TaskCredit, task_credits
from workhook.work.pages import bounded, fetch, length
from workhook.work.people import membership_of, person_columns, person_of_row
from workhook.work.tasks.tables import tasks

LOTS_AT_FIRST = 100


class Position(msgspec.Struct, frozen=True):
    """The end of a ledger: its last entry, and the lots that are due or next to be spent, the oldest first."""

    last_id: str = ""
    balance_minor: int = 0
    lots: tuple[Lot, ...] = ()


_in_project = task_credits.c.repository_id == big("repository_id")
# With a parameter for the 0 no database could use the indexes that hold only such rows.
_something_left = task_credits.c.remaining_minor > sa.literal_column("0")
_open = sa.and_(_in_project, _something_left)
_due = task_credits.c.expires_at <= big("now")
_read = row_reader(TaskCredit)
_people = accounts.alias("people")
_entries = sa.select(
    *selected(TaskCredit, task_credits),
    task_credits.c.task_id,
    task_credits.c.task_title,
    *person_columns(membership_of(task_credits.c.repository_id, _people), _people),
).join_from(task_credits, _people, _people.c.id == task_credits.c.user_id, isouter=True)

# --- locks. They let through who only adds other things to the project, which needs a key share of its row. -------

_lock = (
    sa.select(projects.c.repository_id)
    .where(projects.c.repository_id == big("repository_id"), projects.c.deleted_at.is_(None))
    .with_for_update(key_share=True)
)
_named = projects.alias("named")
_task_title = (
    sa.select(tasks.c.title)
    .where(
        tasks.c.id == sa.bindparam("task_id", type_=sa.Text),
        tasks.c.repository_id == _named.c.repository_id,
        tasks.c.deleted_at.is_(None),
    )
    .scalar_subquery()
)
# With `task_title`, null if the project has no such task.
project_locked = with_access(
    sa.select(_task_title.label("task_title")).select_from(_named).where(_named.c.id == sa.bindparam("project_id")),
    _named.c.repository_id,
).with_for_update(of=projects, key_share=True)
entry_locked = with_access(
    _entries.where(task_credits.c.id == sa.bindparam("id")), task_credits.c.repository_id
).with_for_update(of=projects, key_share=True)

# --- what is left -----------------------------------------------------------------------------------------------

_last = (
    sa.select(task_credits.c.id, task_credits.c.balance_after_minor)
    .where(_in_project)
    .order_by(task_credits.c.id.desc())
    .limit(1)
    .subquery("last")
)
_lot = [task_credits.c[name] for name in Lot.__struct_fields__]


def _oldest(*conditions: sa.ColumnElement[bool]) -> sa.Select[Any]:
    first = sa.select(*_lot).where(*conditions).order_by(task_credits.c.id).limit(big("limit"))
    return sa.select(first.subquery())


def _position(*branches: sa.Select[Any]) -> sa.Select[Any]:
    lots = (sa.union_all(*branches) if len(branches) > 1 else branches[0]).subquery("lots")
    return sa.select(
        _last.c.id.label("last_id"), _last.c.balance_after_minor.label("balance_minor"), *lots.c
    ).join_from(_last, lots, sa.true(), isouter=True)


_not_due = sa.or_(task_credits.c.expires_at.is_(None), task_credits.c.expires_at > big("now"))
_next = _position(_oldest(_open, _due), _oldest(_open, _not_due))
_these = _position(
    sa.select(*_lot, task_credits.c.reversed, task_credits.c.updated_at).where(
        _in_project, any_of(task_credits.c.id, "lot_ids")
    )
)
_unspent = sa.and_(_something_left, _not_due)


def _sum(column: sa.ColumnElement[int], *conditions: sa.ColumnElement[bool]) -> sa.ColumnElement[int]:
    total = sa.func.sum(column).filter(*conditions)
    return sa.cast(sa.func.coalesce(total, 0), sa.BigInteger)  # PostgreSQL's sum is wider


_standing = task_credits.c.reversed.is_(sa.false())
_balance = sa.select(
    _sum(task_credits.c.remaining_minor, _unspent).label("balance_minor"),
    _sum(task_credits.c.amount_minor, task_credits.c.kind == "grant", _standing).label("granted_minor"),
    _sum(-task_credits.c.amount_minor, task_credits.c.kind == "spend", _standing).label("used_minor"),
    sa.func.min(task_credits.c.expires_at).filter(_unspent).label("expires_next"),
).where(_in_project)
_in_order = sa.select(task_credits.c.id).where(_in_project).order_by(task_credits.c.id).limit(big("limit"))
_weight = length(task_credits.c.notes, task_credits.c.uses)
_listed = bounded(_entries, _in_order, task_credits.c.id, _weight)
_listed_after = bounded(
    _entries, _in_order.where(task_credits.c.id > sa.bindparam("after")), task_credits.c.id, _weight
)
_overdue_ledgers = (
    sa.select(task_credits.c.repository_id)
    .join_from(task_credits, projects, projects.c.repository_id == task_credits.c.repository_id)
    .where(_something_left, _due, projects.c.deleted_at.is_(None), task_credits.c.repository_id > big("after"))
    .distinct()
    .order_by(task_credits.c.repository_id)
    .limit(big("limit"))
)

# --- writes -----------------------------------------------------------------------------------------------------

_insert = insert_into(task_credits, *(each.name for each in task_credits.c))
_change = (
    sa.update(task_credits)
    .where(task_credits.c.id == sa.bindparam("entry_id"))
    .values(
        remaining_minor=big("remaining_minor"),
        reversed=sa.or_(task_credits.c.reversed, sa.bindparam("is_reversed", type_=sa.Boolean)),
        updated_at=sa.case(
            (sa.bindparam("is_reversed", type_=sa.Boolean), big("changed_at")), else_=task_credits.c.updated_at
        ),
    )
)


async def lock_ledger(tx: Transaction, repository_id: int) -> bool:
    """False: the project was deleted."""
    return await tx.fetch_one(_lock, {"repository_id": repository_id}) is not None


async def position(tx: Transaction, repository_id: int, now: int, *, enough_minor: int = 0) -> Position:
    """With every lot that is due, and so many of the others, the oldest first, that they hold `enough_minor` (if all
    together do)."""
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


async def position_of(
    tx: Transaction, repository_id: int, entry_id: str, lot_ids: Iterable[str]
) -> tuple[Position, Row]:
    """With these lots, whatever is left of them; and `reversed` and `updated_at` of the entry."""
    params = {"repository_id": repository_id, "lot_ids": sorted({entry_id, *lot_ids})}
    rows = await tx.fetch_all(_these, params)
    return _position_of(rows), next(row for row in rows if row["id"] == entry_id)


async def list_entries(reader: Reader, repository_id: int, *, after: str | None, limit: int) -> Found[TaskCredit]:
    """By id; `after` is the id behind which to start."""
    params = {"repository_id": repository_id, "limit": limit, "after": after}
    return await fetch(reader, _listed if after is None else _listed_after, params, entry_of)


async def balance(reader: Reader, repository_id: int, now: int) -> Row:
    """`balance_minor`, `granted_minor`, `used_minor`, `expires_next`; what is due counts as lost."""
    row = await reader.fetch_one(_balance, {"repository_id": repository_id, "now": now})
    assert row is not None, "an aggregate has a row"
    return row


async def overdue_ledgers(reader: Reader, now: int, after: int, limit: int) -> list[int]:
    """Repositories where something is due, by id; `after` is the id behind which to start."""
    rows = await reader.fetch_all(_overdue_ledgers, {"now": now, "after": after, "limit": limit})
    return [row["repository_id"] for row in rows]


async def insert_entry(tx: Transaction, repository_id: int, entry: TaskCredit) -> None:
    task = {"task_id": entry.task and entry.task.id, "task_title": entry.task and entry.task.title}
    user_id = entry.user and entry.user.id
    tx.defer(_insert, [{**values_of(entry), **task, "user_id": user_id, "repository_id": repository_id}])


async def change_entries(
    tx: Transaction, lots: Iterable[Lot], *, reversed_id: str | None = None, changed_at: int = 0
) -> None:
    """What is left of grants, and that an entry was reversed: of a spend nothing is left in any case."""
    left = {each.id: each.remaining_minor for each in lots}
    if reversed_id is not None:
        left.setdefault(reversed_id, 0)
    rows = [
        {"entry_id": each, "remaining_minor": left[each], "is_reversed": each == reversed_id, "changed_at": changed_at}
        for each in sorted(left)
    ]
    if rows:
        await tx.execute_many(_change, rows)


def entry_of(row: Row) -> TaskCredit:
    """From a row of `entry_locked`."""
    task = CreditTaskShape(row["task_id"], row["task_title"]) if row["task_id"] else None
    return _read(row, task=task, user=person_of_row(row) if row["user_id"] else None)


def uses_of(entry: TaskCredit) -> tuple[Use, ...]:
    return tuple(Use(*each) for each in json.decode(entry.uses))


def _position_of(rows: Sequence[Row]) -> Position:
    if not rows:
        return Position()
    lots = [Lot(*(row[name] for name in Lot.__struct_fields__)) for row in rows if row["id"] is not None]
    return Position(rows[0]["last_id"], rows[0]["balance_minor"], tuple(sorted(lots, key=lambda each: each.id)))
