"""`/projects/{id}/columns` and `/columns`."""

from __future__ import annotations

from msgspec import UNSET

from workhook.core.records import to_response
from workhook.http import conditions, lists, parameters
from workhook.http.calls import Answer, Call
from workhook.http.lists import ListQuery
from workhook.http.operations import AREA_A, Operation
from workhook.identity.guard import actor_of
from workhook.storage import Transaction
from workhook.work.access import find_access
from workhook.work.announce import base_of
from workhook.work.columns import actions, queries
from workhook.work.columns.schemas import (
    Column,
    ColumnAnswer,
    ColumnCreate,
    ColumnEdit,
    ColumnsAnswer,
    CursorInteger,
)
from workhook.work.schemas import Done

TAG = "Columns"


def _shown(column: Column) -> ColumnAnswer:
    return ColumnAnswer(to_response(column))


async def list_columns(call: Call) -> Answer:
    query = parameters.read_query(call, ListQuery)
    key = lists.after(query, tuple[CursorInteger, str])
    access = await find_access(call.database, actor_of(call), call.path("id"))
    found = await queries.list_columns(call.database, access.repository.id)
    if key is not None:
        found = [each for each in found if (each.rank, each.id) > key]
    columns, headers = lists.page(call, found, query, lambda column: (column.rank, column.id))
    return Answer(ColumnsAnswer([to_response(each) for each in columns]), headers=headers)


async def create_column(call: Call) -> Answer:
    create = await parameters.read(call, ColumnCreate)

    async def change(tx: Transaction) -> Answer:
        actor, project_id = actor_of(call), call.path("id")
        return Answer(_shown(await actions.create_column(tx, actor, project_id, create, base=base_of(call))))

    return await call.write(change)


async def get_column(call: Call) -> Answer:
    found = await queries.find_column(call.database, actor_of(call), call.path("id"))
    return Answer(_shown(found.column))


async def edit_column(call: Call) -> Answer:
    edit = await parameters.read(call, ColumnEdit)

    async def change(tx: Transaction) -> Answer:
        lock = queries.lock_column if edit.position is UNSET else queries.lock_order
        found = await lock(tx, actor_of(call), call.path("id"))
        conditions.require_match(call, _shown(found.column))
        return Answer(_shown(await actions.edit_column(tx, found, edit, base=base_of(call))))

    return await call.write(change)


async def delete_column(call: Call) -> Answer:
    async def change(tx: Transaction) -> Answer:
        doomed = await queries.lock_board(tx, actor_of(call), call.path("id"))
        conditions.require_match(call, _shown(doomed.column))
        await actions.delete_column(tx, doomed, base=base_of(call))
        return Answer(Done())

    return await call.write(change)


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        AREA_A,
        "GET",
        "/projects/{id}/columns",
        list_columns,
        "list_columns",
        "List the columns of a project, in their order",
        "work.read",
        tag=TAG,
        query=parameters.documented(ListQuery),
        answers={200: ColumnsAnswer},
        problems=(404, 422),
    ),
    Operation(
        AREA_A,
        "POST",
        "/projects/{id}/columns",
        create_column,
        "create_column",
        "Create a column",
        "work.write",
        tag=TAG,
        body=ColumnCreate,
        query=parameters.documented(ColumnCreate, or_body=True),
        answers={200: ColumnAnswer},
        problems=(400, 403, 404, 409, 413, 415, 422),
    ),
    Operation(
        AREA_A,
        "GET",
        "/columns/{id}",
        get_column,
        "get_column",
        "Get a column",
        "work.read",
        tag=TAG,
        answers={200: ColumnAnswer},
        problems=(404,),
    ),
    Operation(
        AREA_A,
        "PATCH",
        "/columns/{id}",
        edit_column,
        "edit_column",
        "Change or move a column",
        "work.write",
        tag=TAG,
        body=ColumnEdit,
        query=parameters.documented(ColumnEdit, or_body=True),
        answers={200: ColumnAnswer},
        problems=(400, 403, 404, 409, 412, 413, 415, 422),
        description="A changed stage leaves the tasks alone that are in the column already.",
    ),
    Operation(
        AREA_A,
        "DELETE",
        "/columns/{id}",
        delete_column,
        "delete_column",
        "Delete a column",
        "work.write",
        tag=TAG,
        answers={200: Done},
        problems=(403, 404, 409, 412),
        description="Its tasks go to the end of the project's first other column; the last column stays.",
    ),
)
