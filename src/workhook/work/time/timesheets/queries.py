"""The SQL of timesheets. Each statement is restricted to a project, a user or given tasks.

A statement that writes several timers first locks the accounts of their users in the order of their IDs, as starting a
timer does, so that two transactions cannot deadlock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import sqlalchemy as sa

from workhook.http.lists import Rows
from workhook.identity.queries import key_of, repository_columns, repository_of, role_columns
from workhook.identity.schemas import Account, Actor, Repository
from workhook.identity.tables import accounts, projects
from workhook.storage import Reader, Row, Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import bigint_param, insert_into
from workhook.storage.record_rows import assigned, row_reader, selected, stored_names, values_of
from workhook.storage.statements import hot
from workhook.work.board.tasks.schemas import CursorInteger, tasks
from workhook.work.kernel import lists
from workhook.work.kernel.access import Access, find_with_access, is_insider, with_access
from workhook.work.kernel.day_bounds import start_ms
from workhook.work.kernel.list_statements import length
from workhook.work.kernel.lists import BY_USER, Filter, Listing, Order
from workhook.work.kernel.people import membership_of, person_columns, person_of_row
from workhook.work.kernel.scopes import ProjectRef, Scope, Source, source_of_project
from workhook.work.time.rates import TaskTerms, TimeTerms, terms_of, with_terms
from workhook.work.time.timesheets.budgets import not_finished, summed
from workhook.work.time.timesheets.rules import Times
from workhook.work.time.timesheets.schemas import Timesheet, TimesheetTaskShape, timesheets

people = accounts.alias("people")
_target_task = tasks.alias("wanted")
_is_target_task = sa.and_(_target_task.c.id == sa.bindparam("task_id"), _target_task.c.deleted_at.is_(None))
_target_task_columns = [_target_task.c[name].label(f"wanted_{name}") for name in ("id", "title", "repository_id")]

_FIXED = ("id", "invoice_id", "created_at")
_PROJECT = "project_"  # prefix of the project's columns, as set by `with_access`

of_project = (
    sa.select(
        *selected(Timesheet, timesheets),
        *selected(Times, timesheets),
        timesheets.c.task_id,
        tasks.c.title.label("task_title"),
        *person_columns(membership_of(timesheets.c.repository_id, people), people, "person_"),
    )
    .join_from(timesheets, people, people.c.id == timesheets.c.user_id)
    .outerjoin(tasks, tasks.c.id == timesheets.c.task_id)
)
_read = row_reader(Timesheet)
_read_times = row_reader(Times, len(stored_names(Timesheet)))
by_id = with_access(of_project, timesheets.c.repository_id).where(timesheets.c.id == sa.bindparam("id"))
locked = by_id.with_for_update(of=timesheets, key_share=True)
user_locked = by_id.with_for_update(of=people, key_share=True)
# For an edit, which may name another task. The `wanted_…` columns are null unless that task exists, in any project.
_is_moved = _target_task.c.repository_id == timesheets.c.repository_id


def _of_edited(name: str) -> sa.ColumnElement[Any]:
    """Return a column of the task that the edited time will be on."""
    return sa.case((_is_moved, _target_task.c[name]), else_=tasks.c[name])


_to_edit = with_terms(
    by_id.outerjoin(_target_task, _is_target_task).add_columns(*_target_task_columns),
    timesheets.c.user_id,
    TaskTerms(_of_edited("hourly_rate_minor"), _of_edited("billable")),
).with_for_update(of=timesheets, key_share=True)

# A project with the caller's role, a task (in any project; null if it does not exist), and the caller.
_target = with_terms(
    with_access(
        sa.select(*_target_task_columns).select_from(people.outerjoin(_target_task, _is_target_task)),
        projects.c.repository_id,
    ),
    people.c.id,
    TaskTerms.of(_target_task),
).where(projects.c.id == sa.bindparam("project_id"), people.c.id == bigint_param("user_id"))
_target_locked = _target.with_for_update(of=people, key_share=True)
_task_and_user = with_terms(
    sa.select(tasks.c.title)
    .select_from(people.join(tasks, tasks.c.id == sa.bindparam("task_id")))
    .join(projects, projects.c.repository_id == tasks.c.repository_id)
    .where(people.c.id == bigint_param("user_id"))
    .with_for_update(of=people, key_share=True),
    people.c.id,
    TaskTerms.of(tasks),
)
terms_of_timesheets = with_terms(
    sa.select(timesheets.c.id)
    .join(projects, projects.c.repository_id == timesheets.c.repository_id)
    .outerjoin(tasks, tasks.c.id == timesheets.c.task_id),
    timesheets.c.user_id,
    TaskTerms.of(tasks),
).where(any_of(timesheets.c.id, "ids"))

# Includes deleted projects, because a timer that was forgotten there still runs, unseen.
anywhere = (
    of_project.join(projects, projects.c.repository_id == timesheets.c.repository_id)
    .join(accounts, accounts.c.id == projects.c.account_id)
    .add_columns(*repository_columns(_PROJECT), *role_columns, projects.c.deleted_at.label("project_deleted_at"))
    .order_by(timesheets.c.id)
)
everywhere = anywhere.with_for_update(of=timesheets, key_share=True)
# `user_id` is the caller, whose role in each project is in the row; `runner_id` is the user of the timer.
_runs = sa.and_(timesheets.c.user_id == bigint_param("runner_id"), timesheets.c.is_active)
_running_of_user = everywhere.where(_runs)
_own_running = anywhere.where(timesheets.c.user_id == bigint_param("user_id"), timesheets.c.is_active)
_timers_of_user = everywhere.where(sa.or_(_runs, timesheets.c.id == sa.bindparam("id")))


def _on_tasks(condition: sa.ColumnElement[bool]) -> tuple[sa.Select[Any], sa.Select[Any]]:
    """Return two statements: one locks the users of matching timesheets and the mover, the other the timesheets."""
    wanted = sa.and_(any_of(timesheets.c.task_id, "task_ids"), condition)
    users = sa.select(timesheets.c.user_id).where(wanted)
    mover = sa.select(bigint_param("mover_id")).where(sa.exists().where(wanted).correlate(None))
    lock_users = (
        sa.select(accounts.c.id)
        .where(accounts.c.id.in_(users.union(mover)))
        .order_by(accounts.c.id)
        .with_for_update(key_share=True)
    )
    return lock_users, everywhere.where(wanted, any_of(timesheets.c.user_id, "user_ids"))


_running_on_tasks = _on_tasks(timesheets.c.is_active)
_unfinished_on_tasks = _on_tasks(sa.not_(timesheets.c.finished))

_insert = insert_into(timesheets, *(each.name for each in timesheets.c))
_update = (
    sa.update(timesheets)
    .where(timesheets.c.id == sa.bindparam("id"))
    .values(assigned(("task_id", *stored_names(Times), *stored_names(Timesheet, without=_FIXED))))
)
_delete = sa.delete(timesheets).where(timesheets.c.id == sa.bindparam("id"))


def _wanted_task(row: Row, access: Access) -> TimesheetTaskShape | None:
    """Return the task named in the request if it is in the same project."""
    is_in_project = row["wanted_repository_id"] == access.repository.id
    return TimesheetTaskShape(row["wanted_id"], row["wanted_title"]) if is_in_project else None


def timesheet_of(row: Row, repository: Repository, *, gone: bool = False) -> Timesheet:
    """Read a timesheet from a row. `gone` states whether its project was deleted."""
    return _read(
        row,
        repository=repository,
        task=TimesheetTaskShape(row["task_id"], row["task_title"]) if row["task_id"] else None,
        user=person_of_row(row, "person_"),
        times=_read_times(row),
        repository_gone=gone,
    )


def timesheets_of(rows: Sequence[Row], user_id: int) -> list[Timesheet]:
    """Read rows of `everywhere`, whose roles are those of the user `user_id`."""
    return [
        timesheet_of(row, repository_of(row, user_id, _PROJECT), gone=row["project_deleted_at"] is not None)
        for row in rows
    ]


async def find_timesheet(
    reader: Reader, actor: Actor, timesheet_id: str, statement: sa.Select[Any] = by_id
) -> tuple[Timesheet, Access]:
    """Find a timesheet, or raise `NotFound`.

    The statement `locked` locks it. `user_locked` prevents its user from starting another timer; the timesheet is then
    as it was before the lock was acquired.
    """
    row, access = await find_with_access(reader, statement, actor, id=timesheet_id)
    return timesheet_of(row, access.repository), access


async def lock_to_edit(
    tx: Transaction, actor: Actor, timesheet_id: str, task_id: str | None
) -> tuple[Timesheet, Access, TimesheetTaskShape | None, TimeTerms]:
    """Lock a timesheet. Also returns the task `task_id` if it is in the same project, and the terms of the time."""
    row, access = await find_with_access(tx, _to_edit, actor, id=timesheet_id, task_id=task_id)
    return timesheet_of(row, access.repository), access, _wanted_task(row, access), terms_of(row)


async def find_target(
    tx: Transaction, actor: Actor, project_id: str, task_id: str, *, lock_user: bool
) -> tuple[Access, TimesheetTaskShape | None, TimeTerms]:
    """Return the caller's access to the project, the task if it exists, and the terms of the caller's time on it.

    Use `lock_user` before starting a timer. Raises `NotFound`.
    """
    statement = _target_locked if lock_user else _target
    row, access = await find_with_access(tx, statement, actor, project_id=project_id, task_id=task_id)
    return access, _wanted_task(row, access), terms_of(row)


async def lock_user_for(tx: Transaction, user: Account, task_id: str) -> tuple[TimesheetTaskShape, TimeTerms]:
    """Lock the user before a timer starts on the task. Returns the task and the terms of the user's time on it."""
    row = await tx.fetch_one(_task_and_user, {"task_id": task_id, "user_id": user.id})
    assert row is not None, "the task is the one that the caller moves"
    return TimesheetTaskShape(task_id, row["title"]), terms_of(row)


async def find_running(reader: Reader, user: Account) -> Timesheet | None:
    """Return the user's running timer, if it is in a project that the user can see as a member."""
    found = timesheets_of(await reader.fetch_all(_own_running, {"user_id": user.id}), user.id)
    return next((each for each in found if each.repository.role is not None and not each.repository_gone), None)


async def lock_running(tx: Transaction, actor: Actor, user_id: int, *, and_id: str | None = None) -> list[Timesheet]:
    """Lock the user's running timesheet, if any, and the user's timesheet `and_id`.

    The role in each `repository` is that of the actor, who may be another user. The user must already be locked.
    """
    params = {"user_id": actor.user.id, "runner_id": user_id}
    if and_id is None:
        rows = await tx.fetch_all(_running_of_user, params)
    else:
        rows = await tx.fetch_all(_timers_of_user, {**params, "id": and_id})
    return timesheets_of(rows, actor.user.id)


async def lock_running_on(
    tx: Transaction, task_ids: Sequence[str], mover_id: int, *, and_paused: bool = False
) -> list[Timesheet]:
    """Lock the running timers of the tasks together with their users.

    If there are any, the mover, who may start a timer, is locked as well. A timer that another user starts in the
    meantime is left running, because locking it without its user could deadlock.
    """
    lock_users, lock_timers = _unfinished_on_tasks if and_paused else _running_on_tasks
    runners = await tx.fetch_all(lock_users, {"task_ids": task_ids, "mover_id": mover_id})
    if not runners:
        return []
    params = {"task_ids": task_ids, "user_ids": [row["id"] for row in runners], "user_id": mover_id}
    return timesheets_of(await tx.fetch_all(lock_timers, params), mover_id)


def _values(timesheet: Timesheet) -> Mapping[str, object]:
    task_id = timesheet.task.id if timesheet.task else None
    return {**values_of(timesheet), **values_of(timesheet.times), "task_id": task_id}


async def insert_timesheet(tx: Transaction, timesheet: Timesheet) -> None:
    owners = {"repository_id": timesheet.repository.id, "user_id": timesheet.user.id}
    await tx.execute(_insert, {**_values(timesheet), **owners})


async def update_timesheets(tx: Transaction, changed: Sequence[Timesheet]) -> None:
    await tx.execute_many(_update, [_values(each) for each in changed])


async def delete_timesheet(tx: Transaction, timesheet_id: str) -> None:
    await tx.execute(_delete, {"id": timesheet_id})


class RunningTimer(NamedTuple):
    """The running timer of a user. `path` is that of the task's page, or the project's if the task is in the trash."""

    id: str
    title: str
    project: str  # full name
    path: str
    running_since: int
    counted_ms: int


_running = hot(
    sa.select(
        timesheets.c.id,
        timesheets.c.running_since,
        timesheets.c.duration_ms,
        tasks.c.id.label("task_id"),
        tasks.c.title,
        tasks.c.deleted_at,
        projects.c.name,
        projects.c.title.label("project_title"),
        accounts.c.login,
    )
    .join_from(timesheets, projects, projects.c.repository_id == timesheets.c.repository_id)
    .join(accounts, accounts.c.id == projects.c.account_id)
    .outerjoin(tasks, tasks.c.id == timesheets.c.task_id)
    .where(timesheets.c.user_id == bigint_param("user_id"), timesheets.c.is_active, projects.c.deleted_at.is_(None))
)


async def find_timer(reader: Reader, user_id: int) -> RunningTimer | None:
    row = await reader.fetch_one(_running, {"user_id": user_id})
    if row is None:
        return None
    project = f"{row['login']}/{row['name']}"
    shown = row["task_id"] is not None and row["deleted_at"] is None
    path = f"/{project}/tasks/{row['task_id']}" if shown else f"/{project}"
    title = row["title"] or row["project_title"]
    return RunningTimer(row["id"], title, project, path, row["running_since"], row["duration_ms"])


# --- timesheets by start time ----------------------------------------------------------------------------------------

_me = bigint_param("user_id")
_started = (timesheets.c.start_time >= bigint_param("from_"), timesheets.c.start_time < bigint_param("to"))
_terms_of_project = with_terms(
    sa.select(projects.c.id).where(projects.c.repository_id == bigint_param("repository_id")),
    _me,
)
_newest_own = (
    sa.select(timesheets.c.id, length(timesheets.c.notes).label("weight"))
    .join(projects, projects.c.repository_id == timesheets.c.repository_id)
    .where(timesheets.c.user_id == _me, *_started)
    .where(timesheets.c.start_time > sa.literal_column("-1"))  # matches the partial index `ix_timesheets_own`
    .where(projects.c.deleted_at.is_(None), is_insider(_me))
    .order_by(timesheets.c.start_time.desc(), timesheets.c.id.desc())
    .limit(bigint_param("limit"))
)
_page = lists.cut_to_size(_newest_own, lists.BY_ID, ["id"])
_own_timesheets = anywhere.order_by(None).join(_page, _page.c.id == timesheets.c.id).add_columns(_page.c.page_found)


async def list_own_started(reader: Reader, user: Account, since: int, to: int, *, limit: int) -> Rows[Timesheet]:
    """List the user's timesheets that started in [`since`, `to`), newest first.

    Only projects that the user can see as an owner or member are included.
    """
    params = {"user_id": user.id, "from_": since, "to": to, "limit": limit}
    rows = await reader.fetch_all(_own_timesheets, params)
    found = sorted(timesheets_of(rows, user.id), key=lambda each: (each.times.start, each.id), reverse=True)
    return Rows(found, truncated=lists.is_cut(rows))


@lru_cache(maxsize=2)
def _to_invoice(is_one: bool) -> sa.Select[Any]:
    conditions = [timesheets.c.repository_id == bigint_param("repository_id"), *_started]
    if is_one:
        named = sa.select(people.c.id).where(people.c.login_key == sa.bindparam("user"))
        conditions.append(timesheets.c.user_id == named.scalar_subquery())
    return (
        sa.select(timesheets.c.id)
        .where(*conditions, timesheets.c.finished, timesheets.c.billable, timesheets.c.invoice_id.is_(None))
        .order_by(timesheets.c.start_time, timesheets.c.id)
        .limit(bigint_param("limit"))
    )


async def list_to_invoice(
    reader: Reader, access: Access, since: int, to: int, *, limit: int, user: str | None = None
) -> Sequence[str]:
    """List the IDs of the project's unbilled timesheets that started in [`since`, `to`), oldest first.

    Unbilled means finished, billable and not on an invoice. Raises `storage.slow.QueryTooSlow`.
    """
    params: dict[str, object] = {"repository_id": access.repository.id, "from_": since, "to": to, "limit": limit}
    if user is not None:
        params["user"] = key_of(user)
    return [row["id"] for row in await reader.fetch_slow(_to_invoice(user is not None), params)]


_unbilled = summed("unbilled", lambda table: sa.not_(table.c.invoiced), less=not_finished)
_unbillable = summed("unbilled", lambda table: sa.not_(table.c.invoiced), billable=False)


async def find_unbilled_ms(reader: Reader, access: Access, *, billable: bool = True) -> int:
    """Return the project's uninvoiced time: finished billable time or, if not `billable`, all that is not billable."""
    row = await reader.fetch_row(_unbilled if billable else _unbillable, {"repository_id": access.repository.id})
    return int(row["unbilled_ms"] or 0)


async def find_default_terms(reader: Reader, access: Access) -> TimeTerms:
    """Return the terms of the caller's time in the project, for a task without its own terms."""
    row = await reader.fetch_one(_terms_of_project, {"repository_id": access.repository.id, "user_id": access.user.id})
    return TimeTerms() if row is None else terms_of(row)  # None if the project has been purged in the meantime


# --- lists ------------------------------------------------------------------------------------------------------------

_of_task = sa.select(tasks.c.repository_id).where(tasks.c.id == sa.bindparam("task_id")).scalar_subquery()


def _flag(name: str) -> Filter:
    return Filter(lambda row: row.c[name] == sa.bindparam(name, type_=sa.Boolean()), (name,))


def _moment(bound: object, source: Source) -> int | None:
    return start_ms(bound, source.zone)


def _select_full_rows(page: sa.CTE, scope: Scope) -> sa.Select[Any]:
    whole = of_project if scope.project is not None else anywhere.order_by(None)
    return whole.join(page, page.c.id == timesheets.c.id)


def _make(row: Row, place: ProjectRef, source: Source) -> Timesheet:
    if place.repository is None:
        return timesheets_of([row], source.actor.user.id)[0]
    return timesheet_of(row, place.repository)


TIMESHEETS = Listing(
    timesheets,
    _select_full_rows,
    _make,
    length(timesheets.c.notes),
    {
        "user": replace(BY_USER, indexed=True),
        "task_id": Filter(lambda row: row.c.task_id == sa.bindparam("task_id"), indexed=True, project=_of_task),
        "from_": Filter(lambda row: row.c.start_time >= bigint_param("from_"), ("start_time",), value=_moment),
        "to": Filter(lambda row: row.c.start_time < bigint_param("to"), ("start_time",), value=_moment),
        "billable": _flag("billable"),
        "is_active": _flag("is_active"),
        "finished": _flag("finished"),
        "invoiced": Filter(
            lambda row: row.c.invoice_id.is_not(None) == sa.bindparam("invoiced", type_=sa.Boolean()), ("invoice_id",)
        ),
    },
)
OLDEST_FIRST = Order(lambda row: {"start_time": row.c.start_time, "id": row.c.id}, tuple[CursorInteger, str])
NEWEST_FIRST = replace(OLDEST_FIRST, falling=True)
RUNNING = replace(TIMESHEETS, index_condition=lambda row: row.c.is_active, order=OLDEST_FIRST)
STARTED = replace(
    TIMESHEETS, filters={name: replace(TIMESHEETS.filters[name], indexed=True) for name in ("user", "from_", "to")}
)


async def list_started(
    reader: Reader, access: Access, since: int, to: int, *, limit: int, user: str | None = None
) -> Rows[Timesheet]:
    """List the project's newest timesheets that started in [`since`, `to`), newest first."""
    source, filters = source_of_project(access), {"from_": since, "to": to, **({"user": key_of(user)} if user else {})}
    return await lists.read(reader, STARTED, source, filters, order=NEWEST_FIRST, after=None, limit=limit)


async def list_running(reader: Reader, access: Access, *, limit: int) -> Rows[Timesheet]:
    """List the running timers of the project, newest first."""
    return await lists.read(reader, RUNNING, source_of_project(access), {}, order=NEWEST_FIRST, after=None, limit=limit)
