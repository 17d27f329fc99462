"""`/projects/{id}/columns` and `/columns`."""

from __future__ import annotations

from workhook.core.records import to_response
from workhook.http import lists
from workhook.http.calls import Call
from workhook.http.endpoints import Listed, Routes
from workhook.http.lists import ListQuery
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.work.access import find_access
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

routes = Routes(WORK_API, "Columns", read="work.read", write="work.write")


def _shown(column: Column) -> ColumnAnswer:
    return ColumnAnswer(to_response(column))


@routes.get("/projects/{id}/columns")
async def list_columns(call: Call, project_id: str, query: ListQuery) -> Listed[ColumnsAnswer]:
    """List the columns of a project, in their order."""
    key = lists.after(query, tuple[CursorInteger, str])
    access = await find_access(call.database, actor_of(call), project_id)
    found = await queries.list_columns(call.database, access.repository.id)
    if key is not None:
        found = [each for each in found if (each.rank, each.id) > key]
    columns, headers = lists.page(call, found, query, lambda column: (column.rank, column.id))
    return Listed(ColumnsAnswer([to_response(each) for each in columns]), headers)


@routes.post("/projects/{id}/columns")
async def create_column(write: Write, project_id: str, create: ColumnCreate) -> ColumnAnswer:
    """Create a column."""
    return _shown(await actions.create_column(write, project_id, create))


@routes.get("/columns/{id}")
async def get_column(call: Call, column_id: str) -> ColumnAnswer:
    """Get a column."""
    found = await queries.find_column(call.database, actor_of(call), column_id)
    return _shown(found.column)


@routes.patch("/columns/{id}")
async def edit_column(write: Write, column_id: str, edit: ColumnEdit) -> ColumnAnswer:
    """Change or move a column.

    A changed stage leaves the tasks alone that are in the column already.
    """
    found = await actions.lock_to_edit(write, column_id, edit)
    write.require_match(_shown(found.column))
    return _shown(await actions.edit_column(write, found, edit))


@routes.delete("/columns/{id}")
async def delete_column(write: Write, column_id: str) -> Done:
    """Delete a column.

    Its tasks go to the end of the project's first other column; the last column stays.
    """
    doomed = await actions.lock_to_delete(write, column_id)
    write.require_match(_shown(doomed.column))
    await actions.delete_column(write, doomed)
    return Done()
