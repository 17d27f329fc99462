"""Columns: `/projects/{id}/columns` and `/columns`.

Everyone with write access to a project, except clients, can change its board. Editing a column locks its row; moving
one locks all rows of the board, in the order of their IDs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, Meta, UnsetType

from workhook.core import json
from workhook.core.clock import now_ms
from workhook.core.errors import Conflict, Invalid, require_found, say
from workhook.core.ids import new_id
from workhook.core.records import Wire, to_response
from workhook.http import lists
from workhook.http.calls import Call
from workhook.http.endpoints import Listed, Routes
from workhook.http.operations import WORK_API
from workhook.http.parameters import Title
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.identity.schemas import Actor
from workhook.identity.tables import projects
from workhook.storage import Reader, Row, Transaction
from workhook.storage.dialects import json_rows
from workhook.storage.metadata import bigint_param, insert_into
from workhook.storage.record_rows import assigned, row_reader, selected, stored_names, values_of
from workhook.work.board.tasks.column_order import STEP, is_crowded, rank_between, spread
from workhook.work.board.tasks.queries import TaskChange, fresh_rows, project_of
from workhook.work.board.tasks.schemas import (
    COLUMNS_MAX,
    Column,
    CursorInteger,
    Stage,
    TaskColumnShape,
    columns,
    completes,
    task_at,
    task_buckets,
    task_columns,
    tasks,
)
from workhook.work.board.tasks.writer import event_of
from workhook.work.kernel import questions
from workhook.work.kernel.access import Access, find_access, find_with_access, to_access, with_access
from workhook.work.kernel.record_events import differences, publish_event, publish_events
from workhook.work.kernel.schemas import Done, if_set

routes = Routes(WORK_API, "Columns")

Position = Annotated[int, Meta(ge=0, le=2**53 - 1, description="Zero-based; a number past the end means the end.")]


class ColumnEdit(msgspec.Struct, kw_only=True):
    """Omitted fields are left unchanged."""

    title: Title | UnsetType = UNSET
    position: Position | UnsetType = UNSET
    stage: Stage | UnsetType | None = UNSET
    finished: bool | UnsetType = UNSET
    start_timer: bool | UnsetType = UNSET


class ColumnCreate(ColumnEdit, kw_only=True):
    """Without `position`, the column is added at the end."""

    title: Title


class ColumnAnswer(msgspec.Struct):
    column: Wire[Column]
    success: bool = True


class ColumnsAnswer(msgspec.Struct):
    columns: list[Wire[Column]]
    success: bool = True


_SELECTED = selected(Column, columns, "column_")
_read = row_reader(Column)
_this_project = projects.alias("place")
_board = sa.select(json_rows(columns.c.position, columns.c.id)).where(
    columns.c.repository_id == _this_project.c.repository_id
)
_project = with_access(
    sa.select(_board.scalar_subquery().label("board")).where(_this_project.c.id == sa.bindparam("project_id")),
    _this_project.c.repository_id,
)
_former = columns.alias("former")
_order = sa.tuple_(columns.c.position, columns.c.id)
_position = sa.select(sa.func.count()).where(
    _former.c.repository_id == columns.c.repository_id,
    _former.c.id != columns.c.id,  # while waiting for the lock, the row is also visible in its previous state
    sa.tuple_(_former.c.position, _former.c.id) < _order,
)
_column_by_id = with_access(
    sa.select(*_SELECTED, _position.scalar_subquery().label("position")).where(
        columns.c.id == sa.bindparam("column_id")
    ),
    columns.c.repository_id,
)
# A key share lock still allows other transactions to add tasks to the column.
_locked = _column_by_id.with_for_update(of=columns, key_share=True)
_all = (
    sa.select(*_SELECTED)
    .where(columns.c.repository_id == bigint_param("repository_id"))
    .order_by(columns.c.position, columns.c.id)
)
_holder = columns.alias("holder")
_seen = columns.alias("seen")
_whole_board = with_access(
    sa.select(
        *_SELECTED,
        sa.exists().where(tasks.c.column_id == columns.c.id, tasks.c.deleted_at.is_(None)).label("has_tasks"),
        # False if the row changed while this statement waited for the lock.
        (columns.c.revision == sa.select(_seen.c.revision).where(_seen.c.id == columns.c.id).scalar_subquery()).label(
            "fresh"
        ),
    ).where(
        columns.c.repository_id
        == sa.select(_holder.c.repository_id).where(_holder.c.id == sa.bindparam("column_id")).scalar_subquery()
    ),
    columns.c.repository_id,
).order_by(columns.c.id)
_board_to_delete = _whole_board.with_for_update(of=columns)
# A move may assign a new rank to every column; other transactions may still add tasks to them.
_board_to_move = _whole_board.with_for_update(of=columns, key_share=True)
_insert = insert_into(columns, "repository_id", *stored_names(Column))
_update = (
    sa.update(columns)
    .where(columns.c.id == sa.bindparam("column_id"))
    .values(assigned(stored_names(Column, without=("id", "created_at"))))
)
_set_rank = (
    sa.update(columns).where(columns.c.id == sa.bindparam("column_id")).values(position=sa.bindparam("position"))
)
_delete = sa.delete(columns).where(columns.c.id == sa.bindparam("column_id"))


class ColumnRank(msgspec.Struct, array_like=True, order=True):
    """A column's rank and ID, which sort the columns of a board."""

    rank: int
    id: str


Board = Sequence[ColumnRank | Column]


async def _find_column(
    reader: Reader, statement: sa.Select[Any], actor: Actor, column_id: str
) -> tuple[Access, Column]:
    """Find a column, or raise `NotFound`. If the statement locks it, everything but its position is current."""
    row, access = await find_with_access(reader, statement, actor, column_id=column_id)
    return access, _read(row, position=row["position"])


def _find_on_board(rows: Sequence[Row], actor: Actor, column_id: str) -> tuple[Access, Column, list[Column]]:
    """Find a column in the rows of `_whole_board`.

    Raises `NotFound` if it is missing or was deleted during the wait.
    """
    access = to_access(require_found(rows[0] if rows else None), actor)
    ordered = sorted(rows, key=lambda row: (row["column_position"], row["column_id"]))
    board = [_read(row, position=position) for position, row in enumerate(ordered)]
    return access, require_found(next((each for each in board if each.id == column_id), None)), board


async def list_board_columns(reader: Reader, repository_id: int) -> list[Column]:
    """List all columns of a project, in board order."""
    rows = await reader.fetch_all(_all, {"repository_id": repository_id})
    return [_read(row, position=position) for position, row in enumerate(rows)]


@routes.get("/projects/{id}/columns")
async def list_columns(call: Call, project_id: str, query: lists.ListQuery) -> Listed[ColumnsAnswer]:
    """List the columns of a project, in board order."""
    key = lists.after(query, tuple[CursorInteger, str])
    access = await find_access(call.database, actor_of(call), project_id)
    found = await list_board_columns(call.database, access.repository.id)
    if key is not None:
        found = [each for each in found if (each.rank, each.id) > key]
    page, headers = lists.page(call, found, query, lambda column: (column.rank, column.id))
    return Listed(ColumnsAnswer([to_response(each) for each in page]), headers)


@routes.post("/projects/{id}/columns")
async def create_column(write: Write, project_id: str, create: ColumnCreate) -> ColumnAnswer:
    """Create a column."""
    return ColumnAnswer(to_response(await add_column(write, project_id, create)))


async def add_column(write: Write, project_id: str, create: ColumnCreate) -> Column:
    """Create a column. Raises `NotFound`, `Forbidden`, `Conflict` or `Invalid`."""
    row, access = await find_with_access(write.tx, _project, write.actor, project_id=project_id)
    board = sorted(msgspec.convert(json.decode(row["board"]), list[ColumnRank]))
    _require_board(access)
    if len(board) >= COLUMNS_MAX:
        raise Invalid.at("project_id", say("a project can have at most {} columns", COLUMNS_MAX), code="too_many")
    position = min(if_set(create.position, len(board)), len(board))
    column = Column(
        id=new_id("col"),
        title=create.title,
        rank=_rank_at(await _without_ties(write.tx, board), position),
        position=position,
        stage=if_set(create.stage, None),
        finished=if_set(create.finished, False),
        start_timer=if_set(create.start_timer, False),
        created_at=write.now,
        updated_at=write.now,
    )
    _require_flags_that_fit(column.stage, column.finished, column.start_timer)
    await write.tx.execute(_insert, {"repository_id": access.repository.id, **values_of(column)})
    await _spread_if_crowded(write.tx, access, column)
    await publish_event(write, access.repository, "column", "created", to_response(column))
    return column


@routes.get("/columns/{id}")
async def get_column(call: Call, column_id: str) -> ColumnAnswer:
    """Get a column."""
    _, column = await _find_column(call.database, _column_by_id, actor_of(call), column_id)
    return ColumnAnswer(to_response(column))


@routes.patch("/columns/{id}")
async def edit_column(write: Write, column_id: str, edit: ColumnEdit) -> ColumnAnswer:
    """Update or move a column.

    Changing the stage does not affect tasks that are already in the column.
    """
    board: list[Column] = []
    if edit.position is UNSET:
        access, column = await _find_column(write.tx, _locked, write.actor, column_id)
    else:  # all columns, by ID: concurrent moves wait for each other and cannot deadlock
        rows = await write.tx.fetch_all(_board_to_move, {"column_id": column_id, "user_id": write.actor.user.id})
        access, column, board = _find_on_board(rows, write.actor, column_id)
    before = to_response(column)
    write.require_match(ColumnAnswer(before))
    _require_board(access)
    values = {name: getattr(edit, name) for name in ("title", "stage", "finished", "start_timer")}
    edited = msgspec.structs.replace(column, **{name: value for name, value in values.items() if value is not UNSET})
    position = min(edit.position, len(board) - 1) if isinstance(edit.position, int) else column.position
    if position != column.position:
        others = [each for each in await _without_ties(write.tx, board) if each.id != column.id]
        edited = msgspec.structs.replace(edited, position=position, rank=_rank_at(others, position))
    if edited == column:
        return ColumnAnswer(before)
    _require_flags_that_fit(edited.stage, edited.finished, edited.start_timer)
    edited = msgspec.structs.replace(edited, updated_at=max(now_ms(), column.updated_at + 1))
    await write.tx.execute(_update, {"column_id": edited.id, **values_of(edited)})
    if position != column.position:
        await _spread_if_crowded(write.tx, access, edited)
    after = to_response(edited)
    action = "edited" if edited.position == column.position else "moved"
    await publish_event(write, access.repository, "column", action, after, changes=differences(before, after))
    return ColumnAnswer(after)


@routes.delete("/columns/{id}")
async def delete_column(write: Write, column_id: str) -> Done:
    """Delete a column.

    Its tasks move to the end of the first remaining column of the project. The last column cannot be deleted.
    """
    params = {"column_id": column_id, "user_id": write.actor.user.id}
    rows = await fresh_rows(write.tx, _board_to_delete, params)
    access, column, board = _find_on_board(rows, write.actor, column_id)
    write.require_match(ColumnAnswer(to_response(column)))
    _require_board(access)
    fallback = next((each for each in board if each.id != column_id), None)
    if fallback is None:
        raise Conflict(say("A project must keep at least one column."), code="last_column")
    if any(row["has_tasks"] for row in rows if row["column_id"] == column_id):
        await move_tasks(write, access, column, fallback)
    await write.tx.execute(_delete, {"column_id": column_id})  # its tasks in the trash then have no column
    await publish_event(write, access.repository, "column", "deleted", to_response(column))
    return Done()


def _require_board(access: Access) -> None:
    access.require_writable()
    access.require_member("change columns")


def _rank_at(others: Board, position: int) -> int:
    before = others[position - 1].rank if position > 0 else None
    after = others[position].rank if position < len(others) else None
    return rank_between(before, after)


async def _without_ties(tx: Transaction, board: Board) -> Board:
    """Return the board, respread if two columns share a rank.

    Columns created at the same moment can get equal ranks, and no rank fits between those.
    """
    if len({each.rank for each in board}) == len(board):
        return board
    await _spread(tx, board)
    return [ColumnRank(rank, each.id) for rank, each in zip(spread(len(board)), board, strict=True)]


async def _spread_if_crowded(tx: Transaction, access: Access, column: Column) -> None:
    """Respread all ranks if no rank is left next to this one, as after dozens of moves to the same place."""
    if is_crowded(column.rank):
        await _spread(tx, await list_board_columns(tx, access.repository.id))


async def _spread(tx: Transaction, board: Board) -> None:
    """Store evenly spaced ranks, updating the columns in the order of their IDs, which is the locking order."""
    ranked = {each.id: rank for each, rank in zip(board, spread(len(board)), strict=True) if each.rank != rank}
    await tx.execute_many(_set_rank, [{"column_id": each, "position": rank} for each, rank in sorted(ranked.items())])


def _require_flags_that_fit(stage: str | None, finished: bool, start_timer: bool) -> None:
    """Raise `Invalid` for a column that would both complete tasks and start timers."""
    if start_timer and completes(stage, finished):
        message = "start_timer cannot be true for a column that completes tasks (stage done, or finished)"
        raise Invalid.at("start_timer", message)


# --- moving the tasks of a deleted column, with their buckets unchanged ----------------------------------------------

_leaving = (
    sa.select(*task_columns)
    .select_from(task_buckets.join(tasks, tasks.c.bucket_id == task_buckets.c.id))
    .where(task_buckets.c.column_id == sa.bindparam("column_id"))
    .order_by(task_buckets.c.rank, tasks.c.rank, tasks.c.id)
    .with_for_update(of=tasks, key_share=True)
)
_fallback_buckets = task_buckets.alias("there")
_of_fallback = _fallback_buckets.c.column_id == sa.bindparam("fallback_id")
_fallback_size = sa.select(
    sa.cast(sa.func.coalesce(sa.func.sum(_fallback_buckets.c.size), 0), sa.BigInteger).label("size")
).where(_of_fallback)
_last_rank = sa.select(sa.func.coalesce(sa.func.max(_fallback_buckets.c.rank), 0)).where(_of_fallback).scalar_subquery()
_first_rank = (
    sa.select(sa.func.min(_fallback_buckets.c.rank))
    .where(_fallback_buckets.c.column_id == sa.bindparam("column_id"))
    .scalar_subquery()
)
_move_buckets = (
    sa.update(task_buckets)
    .where(task_buckets.c.column_id == sa.bindparam("column_id"), task_buckets.c.size > 0)
    .values(column_id=sa.bindparam("fallback_id"), rank=task_buckets.c.rank - _first_rank + _last_rank + STEP)
)
_move_tasks = (
    sa.update(tasks)
    .where(tasks.c.column_id == sa.bindparam("column_id_from"), tasks.c.deleted_at.is_(None))
    .values(
        column_id=sa.bindparam("fallback_id"),
        completed_at=sa.case(
            (
                sa.bindparam("completes", type_=sa.Boolean()),
                sa.func.coalesce(tasks.c.completed_at, bigint_param("now")),
            ),
            else_=sa.null(),
        ),
        updated_at=sa.case(
            (tasks.c.updated_at < bigint_param("now"), bigint_param("now")), else_=tasks.c.updated_at + 1
        ),
    )
)
# The triggers count changes of a task's bucket or rank, and this move changes neither.
_count_revision = (
    sa.update(columns).where(columns.c.id == sa.bindparam("fallback_id")).values(revision=columns.c.revision + 1)
)


async def move_tasks(write: Write, access: Access, column: Column, fallback: Column) -> None:
    """Move the tasks of `column` to the end of `fallback`, in their order, and publish a `moved` event for each.

    The caller must hold the locks on both columns.
    """
    params = {"column_id": column.id, "column_id_from": column.id, "fallback_id": fallback.id, "now": write.now}
    row = await write.tx.fetch_one(_fallback_size, params)
    first = row["size"] if row else 0
    rows = await write.tx.fetch_all(_leaving, params)
    done = completes(fallback.stage, fallback.finished)
    await write.tx.execute(_move_buckets, params)
    await write.tx.execute(_move_tasks, {**params, "completes": done})
    await write.tx.execute(_count_revision, params)
    project = project_of(access)
    left, entered = TaskColumnShape(column.id, column.title), TaskColumnShape(fallback.id, fallback.title)
    events = []
    for number, each in enumerate(rows):
        before = task_at(each, project, left, number)
        after = msgspec.structs.replace(
            before,
            column=entered,
            position=first + number,
            completed_at=(before.completed_at or write.now) if done else None,
            updated_at=max(write.now, before.updated_at + 1),
        )
        # `moved` even if the move completes the task: the user acted on the column.
        events.append(msgspec.structs.replace(event_of(TaskChange(access, before, after)), action="moved"))
    await publish_events(write, events)
    if done:
        await questions.tasks_completed(write, access, [each["task_id"] for each in rows])
