"""The SQL of columns. Each statement is confined to a project.

Columns are written under the lock of their own row, and moved under the locks of all rows of the board, taken by id.
Two that are made at the same place at once may get the same rank: the id decides then, for everybody alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from workhook.core import json
from workhook.core.errors import NotFound
from workhook.identity.schemas import Actor
from workhook.identity.tables import projects
from workhook.storage import Reader, Row, Transaction
from workhook.storage.dialects import json_rows
from workhook.storage.metadata import big, insert_into
from workhook.storage.record_rows import assigned, row_reader, selected, stored_names, values_of
from workhook.work.access import Access, access_of, with_access
from workhook.work.columns.schemas import Column
from workhook.work.columns.tables import columns
from workhook.work.tasks.tables import tasks

_SELECTED = selected(Column, columns, "column_")
_read = row_reader(Column)


class Ranked(msgspec.Struct, array_like=True, order=True):
    """A column in the order of its board."""

    rank: int
    id: str


_siblings = columns.alias("siblings")
_place = projects.alias("place")


def _board(repository_id: sa.ColumnElement[int]) -> sa.Label[Any]:
    """The ranks and ids of a project's columns."""
    rows = sa.select(json_rows(_siblings.c.position, _siblings.c.id)).where(_siblings.c.repository_id == repository_id)
    return rows.scalar_subquery().label("board")


_project = with_access(
    sa.select(_board(_place.c.repository_id)).where(_place.c.id == sa.bindparam("project_id")), _place.c.repository_id
)
_one = with_access(
    sa.select(*_SELECTED, _board(columns.c.repository_id)).where(columns.c.id == sa.bindparam("column_id")),
    columns.c.repository_id,
)
# Others may go on to put tasks into the column: that takes a key share of its row, which this lock lets through.
_locked = _one.with_for_update(of=columns, key_share=True)
_all = (
    sa.select(*_SELECTED)
    .where(columns.c.repository_id == big("repository_id"))
    .order_by(columns.c.position, columns.c.id)
)
_holder = columns.alias("holder")
_seen = columns.alias("seen")
_whole_board = with_access(
    sa.select(
        *_SELECTED,
        sa.exists().where(tasks.c.column_id == columns.c.id, tasks.c.deleted_at.is_(None)).label("holds"),
        # What a wait for the lock made out of date.
        (columns.c.revision == sa.select(_seen.c.revision).where(_seen.c.id == columns.c.id).scalar_subquery()).label(
            "fresh"
        ),
    ).where(
        columns.c.repository_id
        == sa.select(_holder.c.repository_id).where(_holder.c.id == sa.bindparam("column_id")).scalar_subquery()
    ),
    columns.c.repository_id,
).order_by(columns.c.id)
_locked_board = _whole_board.with_for_update(of=columns)
# For a move, which may give every column a new rank; others may go on to put tasks into them.
_ranking_board = _whole_board.with_for_update(of=columns, key_share=True)
_ranks = (
    sa.select(columns.c.position, columns.c.id)
    .where(columns.c.repository_id == big("repository_id"))
    .order_by(columns.c.position, columns.c.id)
)
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


def _board_of(row: Row) -> list[Ranked]:
    return sorted(msgspec.convert(json.decode(row["board"]), list[Ranked]))


class Found(msgspec.Struct, frozen=True):
    """A column with the board that it is on, in its order."""

    access: Access
    column: Column
    board: Sequence[Ranked]


async def _find(reader: Reader, statement: sa.Select[Any], actor: Actor, column_id: str) -> Found:
    row = await reader.fetch_one(statement, {"column_id": column_id, "user_id": actor.user.id})
    access = access_of(row, actor)
    assert row is not None, "`access_of` says that it is not there"
    board = _board_of(row)
    position = next(number for number, each in enumerate(board) if each.id == column_id)
    return Found(access, _read(row, position=position), board)


async def find_column(reader: Reader, actor: Actor, column_id: str) -> Found:
    """Raises `NotFound`."""
    return await _find(reader, _one, actor, column_id)


async def lock_column(tx: Transaction, actor: Actor, column_id: str) -> Found:
    """For a change. What the column itself says is as it is now; the board may be a moment old. Raises `NotFound`."""
    return await _find(tx, _locked, actor, column_id)


async def lock_order(tx: Transaction, actor: Actor, column_id: str) -> Found:
    """For a move: every column of the board, by id, so that two moves wait for each other and never meet a deadlock.
    Raises `NotFound`."""
    rows = await tx.fetch_all(_ranking_board, {"column_id": column_id, "user_id": actor.user.id})
    access = access_of(rows[0] if rows else None, actor)
    board = sorted(Ranked(row["column_position"], row["column_id"]) for row in rows)
    for position, each in enumerate(board):
        if each.id == column_id:
            row = next(row for row in rows if row["column_id"] == column_id)
            return Found(access, _read(row, position=position), board)
    raise NotFound()  # it was deleted while this waited


class Emptied(msgspec.Struct, frozen=True):
    """A column that is to go. `heir`: the first other one, None if there is none; `holds`: whether there are tasks."""

    access: Access
    column: Column
    heir: Column | None
    holds: bool


async def lock_board(tx: Transaction, actor: Actor, column_id: str) -> Emptied:
    """For the deletion of a column: nobody changes the board, nor the order of its tasks. Raises `NotFound`."""
    for _ in range(2):  # once the locks are had, nothing can be out of date
        rows = await tx.fetch_all(_locked_board, {"column_id": column_id, "user_id": actor.user.id})
        if all(row["fresh"] for row in rows):
            break
    access = access_of(rows[0] if rows else None, actor)
    board = sorted(rows, key=lambda row: (row["column_position"], row["column_id"]))
    found = {row["column_id"]: _read(row, position=position) for position, row in enumerate(board)}
    if column_id not in found:  # somebody else was faster
        raise NotFound()
    holds = next(bool(row["holds"]) for row in rows if row["column_id"] == column_id)
    heir = next((column for each, column in found.items() if each != column_id), None)
    return Emptied(access, found[column_id], heir, holds)


async def find_board(reader: Reader, actor: Actor, project_id: str) -> tuple[Access, list[Ranked]]:
    """The project and the columns that it has, in their order. Raises `NotFound`."""
    row = await reader.fetch_one(_project, {"project_id": project_id, "user_id": actor.user.id})
    access = access_of(row, actor)
    assert row is not None, "`access_of` says that it is not there"
    return access, _board_of(row)


async def list_columns(reader: Reader, repository_id: int) -> list[Column]:
    """All of the project's, in their order."""
    rows = await reader.fetch_all(_all, {"repository_id": repository_id})
    return [_read(row, position=position) for position, row in enumerate(rows)]


async def ranks(tx: Transaction, repository_id: int) -> list[Ranked]:
    rows = await tx.fetch_all(_ranks, {"repository_id": repository_id})
    return [Ranked(row["position"], row["id"]) for row in rows]


async def insert_column(tx: Transaction, repository_id: int, column: Column) -> None:
    await tx.execute(_insert, {"repository_id": repository_id, **values_of(column)})


async def update_column(tx: Transaction, column: Column) -> None:
    await tx.execute(_update, {"column_id": column.id, **values_of(column)})


async def set_ranks(tx: Transaction, ranked: Mapping[str, int]) -> None:
    """By column id, and in the order of ids: that of every lock on several columns."""
    await tx.execute_many(_set_rank, [{"column_id": each, "position": rank} for each, rank in sorted(ranked.items())])


async def delete_column(tx: Transaction, column_id: str) -> None:
    """Tasks of it that were deleted are in no column then."""
    await tx.execute(_delete, {"column_id": column_id})
