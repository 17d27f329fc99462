"""`/columns/{id}/tasks`, `/projects/{id}/tasks` and `/tasks`."""

from __future__ import annotations

from workhook.core.records import to_response
from workhook.http import lists
from workhook.http.calls import Call
from workhook.http.endpoints import Listed, Retry, Routes
from workhook.http.lists import Key, Rows
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.work.board.tasks import actions, assignees, bulk, column_tasks, listing, queries
from workhook.work.board.tasks.bulk import TasksBulk, TasksBulkAnswer
from workhook.work.board.tasks.inputs import (
    ColumnTasksQuery,
    OfProjectQuery,
    TaskCreate,
    TaskEdit,
    TaskFilters,
    TasksQuery,
)
from workhook.work.board.tasks.schemas import CursorInteger, TaskAnswer, TasksAnswer
from workhook.work.kernel.access import find_access
from workhook.work.kernel.lists import cursor_of
from workhook.work.kernel.schemas import Done
from workhook.work.kernel.scopes import Source, source_of_project

routes = Routes(WORK_API, "Tasks", retry=Retry(queries.Busy, 20))


@routes.get("/columns/{id}/tasks")
async def list_column_tasks(call: Call, column_id: str, query: ColumnTasksQuery) -> Listed[TasksAnswer]:
    """List the tasks of a column, in their order.

    With filters, a page can be short or empty without being the last one. Follow the `Link` header.
    """
    if listing.is_filtered(query):
        place = cursor_of(query, listing.ORDERS[listing.BY_POSITION])
        access = await column_tasks.find_column_access(call.database, actor_of(call), column_id)
        actions.require_project(access, query.project_id)
        return await list_page(call, source_of_project(access), query, listing.BY_POSITION, place, column_id=column_id)
    after = lists.after(query, tuple[CursorInteger, CursorInteger])
    read = await column_tasks.read_column(call.database, actor_of(call), column_id, after=after, limit=query.limit + 1)
    actions.require_project(read.access, query.project_id)
    rows, headers = lists.page(call, Rows(read.rows, truncated=read.cut), query, column_tasks.sort_key)
    return Listed(TasksAnswer(await column_tasks.to_responses(call.database, read, rows)), headers)


async def list_page(
    call: Call, source: Source, query: TaskFilters, sort: str, after: Key | None, **more: object
) -> Listed[TasksAnswer]:
    filters = {**listing.filters_of(query, source), **more}
    found = await listing.list_tasks(call.database, source, filters, sort=sort, after=after, limit=query.limit + 1)
    page, headers = lists.page(call, found, query)
    return Listed(TasksAnswer([to_response(task) for task in page]), headers)


@routes.post("/columns/{id}/tasks")
async def create_task(write: Write, column_id: str, create: TaskCreate) -> TaskAnswer:
    """Create a task in a column.

    If the column's stage completes tasks, the task is created completed.
    """
    return TaskAnswer(to_response(await actions.create_task(write, column_id, create)))


@routes.get("/projects/{id}/tasks")
async def list_project_tasks(call: Call, project_id: str, query: TasksQuery) -> Listed[TasksAnswer]:
    """List, filter and search the tasks of a project."""
    sort = listing.sort_of(query)
    after = cursor_of(query, listing.ORDERS[sort])
    access = await find_access(call.database, actor_of(call), project_id)
    return await list_page(call, source_of_project(access), query, sort, after)


@routes.post("/tasks/bulk", query=(), body_required=True, action="task.bulk")
async def change_tasks(write: Write, wanted: TasksBulk) -> TasksBulkAnswer:
    """Create, update, move and delete many tasks at once.

    Either all operations are applied or none. The tasks can belong to several projects.
    """
    tasks = await bulk.change_tasks(write, wanted.operations)
    return TasksBulkAnswer([to_response(task) if task else None for task in tasks])


@routes.get("/tasks/{id}")
async def get_task(call: Call, task_id: str, query: OfProjectQuery) -> TaskAnswer:
    """Get a task."""
    return TaskAnswer(
        to_response(await actions.get_task(call.database, actor_of(call), task_id, project_id=query.project_id))
    )


@routes.patch("/tasks/{id}")
async def edit_task(write: Write, task_id: str, edit: TaskEdit) -> TaskAnswer:
    """Update a task, or move it within its column or to another one."""
    found = await actions.lock_task(write.tx, write.actor, task_id, edit)
    if write.is_conditional:
        write.require_match(TaskAnswer(to_response(await assignees.visible_task(write.tx, found.access, found.task))))
    return TaskAnswer(to_response(await actions.edit_task(write, found, edit)))


@routes.delete("/tasks/{id}")
async def delete_task(write: Write, task_id: str, query: OfProjectQuery) -> Done:
    """Delete a task.

    It can be restored for 30 days. A task with time on issued invoices cannot be deleted (409 `has_invoices`).
    """
    found = await queries.lock_to_move(write.tx, write.actor, task_id, None)
    actions.require_project(found.access, query.project_id)
    if write.is_conditional:
        write.require_match(TaskAnswer(to_response(await assignees.visible_task(write.tx, found.access, found.task))))
    await actions.delete_task(write, found)
    return Done()


@routes.post("/tasks/{id}/restore")
async def restore_task(write: Write, task_id: str, query: OfProjectQuery) -> TaskAnswer:
    """Restore a deleted task.

    It returns to the end of its column, or of the project's first column if its own was deleted.
    """
    return TaskAnswer(to_response(await actions.restore_task(write, task_id, project_id=query.project_id)))
