"""What can be done with columns: authorise, decide, write, append the event.

Whoever can write to a project changes its board; a client does not.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET

from workhook.core.clock import now_ms
from workhook.core.errors import Conflict, Fault, Invalid
from workhook.core.ids import new_id
from workhook.core.records import to_response
from workhook.identity.context import Write
from workhook.storage import Transaction
from workhook.work.access import Access
from workhook.work.columns import queries
from workhook.work.columns.queries import Emptied, Found, Ranked
from workhook.work.columns.schemas import (
    COLUMNS_MAX,
    Column,
    ColumnCreate,
    ColumnEdit,
    require_flags_that_fit,
)
from workhook.work.record_events import differences, publish_event
from workhook.work.schemas import if_set
from workhook.work.tasks.ordering.column_order import is_crowded, rank_between, spread
from workhook.work.tasks.ordering.move_tasks import move_tasks


async def create_column(write: Write, project_id: str, create: ColumnCreate) -> Column:
    """Raises `NotFound`, `Forbidden`, `Conflict`, `Invalid`."""
    access, board = await queries.find_board(write.tx, write.actor, project_id)
    _require_board(access)
    if len(board) >= COLUMNS_MAX:
        message = f"a project has at most {COLUMNS_MAX} columns"
        raise Invalid(faults=[Fault(field="project_id", code="too_many", message=message)])
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
    require_flags_that_fit(column.stage, column.finished, column.start_timer)
    await queries.insert_column(write.tx, access.repository.id, column)
    await _keep_room(write.tx, access, column)
    await publish_event(write, access.repository, "column", "created", to_response(column))
    return column


async def lock_to_edit(write: Write, column_id: str, edit: ColumnEdit) -> Found:
    """The column, locked for this edit; with all of its board where it moves. Raises `NotFound`."""
    lock = queries.lock_column if edit.position is UNSET else queries.lock_order
    return await lock(write.tx, write.actor, column_id)


async def lock_to_delete(write: Write, column_id: str) -> Emptied:
    """The column, locked with all of its board. Raises `NotFound`."""
    return await queries.lock_board(write.tx, write.actor, column_id)


async def edit_column(write: Write, found: Found, edit: ColumnEdit) -> Column:
    """The column after the change; `found` is what `lock_to_edit` gave.

    Raises `Forbidden`, `Conflict`, `Invalid`. An edit that changes nothing writes nothing and has no event.
    """
    access, before = found.access, found.column
    _require_board(access)
    after = msgspec.structs.replace(
        before,
        title=if_set(edit.title, before.title),
        stage=if_set(edit.stage, before.stage),
        finished=if_set(edit.finished, before.finished),
        start_timer=if_set(edit.start_timer, before.start_timer),
    )
    position = min(if_set(edit.position, before.position), len(found.board) - 1)
    if position != before.position:
        board = await _without_ties(write.tx, found.board)
        others = [each for each in board if each.id != before.id]
        after = msgspec.structs.replace(after, position=position, rank=_rank_at(others, position))
    if after == before:
        return before
    require_flags_that_fit(after.stage, after.finished, after.start_timer)
    after = msgspec.structs.replace(after, updated_at=max(now_ms(), before.updated_at + 1))
    await queries.update_column(write.tx, after)
    if position != before.position:
        await _keep_room(write.tx, access, after)
    shape = to_response(after)
    action = "edited" if position == before.position else "moved"
    changes = differences(to_response(before), shape)
    await publish_event(write, access.repository, "column", action, shape, changes=changes)
    return after


async def delete_column(write: Write, doomed: Emptied) -> None:
    """Its tasks go to the end of the project's first other column. `doomed` is what `lock_to_delete` gave.

    Raises `Forbidden`, and `Conflict` for the last column.
    """
    access, column = doomed.access, doomed.column
    _require_board(access)
    if doomed.heir is None:
        raise Conflict("The last column of a project stays.", code="last_column")
    if doomed.holds:
        await move_tasks(write, access, column, doomed.heir)
    await queries.delete_column(write.tx, column.id)
    await publish_event(write, access.repository, "column", "deleted", to_response(column))


def _require_board(access: Access) -> None:
    access.require_writable()
    access.require_member("change columns")


def _rank_at(others: Sequence[Ranked], position: int) -> int:
    before = others[position - 1].rank if position > 0 else None
    after = others[position].rank if position < len(others) else None
    return rank_between(before, after)


async def _without_ties(tx: Transaction, board: Sequence[Ranked]) -> Sequence[Ranked]:
    """Between two columns of one rank there is no place. They have come to it at the same moment: rare."""
    if len({each.rank for each in board}) == len(board):
        return board
    fresh = [Ranked(rank, each.id) for rank, each in zip(spread(len(board)), board, strict=True)]
    await queries.set_ranks(tx, {each.id: each.rank for each in fresh})
    return fresh


async def _keep_room(tx: Transaction, access: Access, column: Column) -> None:
    """Give all columns new ranks when the last one was used up. Rare: after dozens of moves to one place."""
    if is_crowded(column.rank):
        ranked = await queries.ranks(tx, access.repository.id)
        await queries.set_ranks(
            tx, {each.id: rank for each, rank in zip(ranked, spread(len(ranked)), strict=True) if each.rank != rank}
        )
