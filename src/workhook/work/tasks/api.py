"""`/columns/{id}/tasks`, `/projects/{id}/tasks` and `/tasks`."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from workhook.core.records import to_response
from workhook.http import conditions, lists, parameters
from workhook.http.calls import Answer, Call
from workhook.http.idempotency import Change
from workhook.http.operations import AREA_A, Operation
from workhook.identity.guard import actor_of
from workhook.storage import Transaction
from workhook.work.access import find_access
from workhook.work.announce import base_of
from workhook.work.columns.schemas import CursorInteger
from workhook.work.schemas import Done
from workhook.work.tasks import actions, assignees, bulk, listing, queries, reading
from workhook.work.tasks.bulk_schemas import TasksBulk, TasksBulkAnswer
from workhook.work.tasks.schemas import (
    ColumnTasksQuery,
    OfProjectQuery,
    Task,
    TaskAnswer,
    TaskCreate,
    TaskEdit,
    TasksAnswer,
    TasksQuery,
)

TAG = "Tasks"

BUSY_TRIES = 20


def _shown(task: Task) -> TaskAnswer:
    return TaskAnswer(to_response(task))


async def _write(call: Call, change: Change) -> Answer:
    """`call.write`, again for a task that somebody else moved at the same moment: it is somewhere then."""
    for _ in range(BUSY_TRIES - 1):
        with suppress(queries.Busy):
            return await call.write(change)
    return await call.write(change)


async def list_column_tasks(call: Call) -> Answer:
    query = parameters.read_query(call, ColumnTasksQuery)
    after = lists.after(query, tuple[CursorInteger, CursorInteger])
    read = await reading.read_column(call.database, actor_of(call), call.path("id"), after=after, limit=query.limit + 1)
    actions.require_project(read.access, query.project_id)
    rows, headers = lists.page(call, read.rows, query, reading.sort_key, cut=read.cut)
    return Answer(TasksAnswer(await reading.shown(call.database, read, rows)), headers=headers)


async def create_task(call: Call) -> Answer:
    create = await parameters.read(call, TaskCreate)

    async def change(tx: Transaction) -> Answer:
        actor, column_id = actor_of(call), call.path("id")
        return Answer(_shown(await actions.create_task(tx, actor, column_id, create, base=base_of(call))))

    return await _write(call, change)


async def list_project_tasks(call: Call) -> Answer:
    query = parameters.read_query(call, TasksQuery)
    sort = "id" if isinstance(query.sort, msgspec.UnsetType) else query.sort
    by_text = sort in ("id", "title", "-title")
    after: listing.Key | None
    after = lists.after(query, tuple[str, str]) if by_text else lists.after(query, tuple[CursorInteger, str])
    access = await find_access(call.database, actor_of(call), call.path("id"))
    found = await listing.list_tasks(
        call.database, access, listing.params_of(query), sort=sort, after=after, limit=query.limit + 1
    )
    shown, headers = lists.page(
        call, found.tasks, query, lambda pair: pair[1], cut=found.cut, last_seen=found.last_seen
    )
    seen = await assignees.as_seen(call.database, access, [task for task, _ in shown])
    return Answer(TasksAnswer([to_response(task) for task in seen]), headers=headers)


async def get_task(call: Call) -> Answer:
    query = parameters.read_query(call, OfProjectQuery)
    actor, task_id = actor_of(call), call.path("id")
    return Answer(_shown(await actions.get_task(call.database, actor, task_id, project_id=query.project_id)))


async def change_tasks(call: Call) -> Answer:
    wanted = await parameters.read(call, TasksBulk)

    async def change(tx: Transaction) -> Answer:
        done = await bulk.do_all(tx, actor_of(call), wanted.operations, base=base_of(call))
        return Answer(TasksBulkAnswer([to_response(task) if task else None for task in done]))

    return await _write(call, change)


async def edit_task(call: Call) -> Answer:
    edit = await parameters.read(call, TaskEdit)

    async def change(tx: Transaction) -> Answer:
        found = await actions.take_task(tx, actor_of(call), call.path("id"), edit)
        conditions.require_match(call, _shown(await assignees.one_as_seen(tx, found.access, found.task)))
        return Answer(_shown(await actions.edit_task(tx, found, edit, base=base_of(call))))

    return await _write(call, change)


async def delete_task(call: Call) -> Answer:
    query = parameters.read_query(call, OfProjectQuery)

    async def change(tx: Transaction) -> Answer:
        found = await actions.take_to_delete(tx, actor_of(call), call.path("id"), query.project_id)
        conditions.require_match(call, _shown(await assignees.one_as_seen(tx, found.access, found.task)))
        await actions.delete_task(tx, found, base=base_of(call))
        return Answer(Done())

    return await _write(call, change)


async def restore_task(call: Call) -> Answer:
    query = parameters.read_query(call, OfProjectQuery)

    async def change(tx: Transaction) -> Answer:
        actor, task_id = actor_of(call), call.path("id")
        restored = await actions.restore_task(tx, actor, task_id, project_id=query.project_id, base=base_of(call))
        return Answer(_shown(restored))

    return await _write(call, change)


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        AREA_A,
        "GET",
        "/columns/{id}/tasks",
        list_column_tasks,
        "list_column_tasks",
        "List the tasks of a column, in their order",
        "work.read",
        tag=TAG,
        query=parameters.documented(ColumnTasksQuery),
        answers={200: TasksAnswer},
        problems=(404, 422),
    ),
    Operation(
        AREA_A,
        "POST",
        "/columns/{id}/tasks",
        create_task,
        "create_task",
        "Create a task in a column",
        "work.write",
        tag=TAG,
        body=TaskCreate,
        query=parameters.documented(TaskCreate, or_body=True),
        answers={200: TaskAnswer},
        problems=(400, 403, 404, 409, 413, 415, 422),
        description="In a column where tasks are completed the task is completed at once.",
    ),
    Operation(
        AREA_A,
        "GET",
        "/projects/{id}/tasks",
        list_project_tasks,
        "list_project_tasks",
        "List, filter and search the tasks of a project",
        "work.read",
        tag=TAG,
        query=parameters.documented(TasksQuery),
        answers={200: TasksAnswer},
        problems=(404, 422),
    ),
    Operation(
        AREA_A,
        "POST",
        "/tasks/bulk",
        change_tasks,
        "change_tasks",
        "Create, change, move and delete many tasks at once",
        "work.write",
        tag=TAG,
        body=TasksBulk,
        body_required=True,
        answers={200: TasksBulkAnswer},
        problems=(400, 403, 409, 413, 415, 422),
        description="All of it is done, or nothing. The tasks may be in several projects.",
    ),
    Operation(
        AREA_A,
        "GET",
        "/tasks/{id}",
        get_task,
        "get_task",
        "Get a task",
        "work.read",
        tag=TAG,
        query=parameters.documented(OfProjectQuery),
        answers={200: TaskAnswer},
        problems=(404, 422),
    ),
    Operation(
        AREA_A,
        "PATCH",
        "/tasks/{id}",
        edit_task,
        "edit_task",
        "Change a task, move it in its column or to another",
        "work.write",
        tag=TAG,
        body=TaskEdit,
        query=parameters.documented(TaskEdit, or_body=True),
        answers={200: TaskAnswer},
        problems=(400, 403, 404, 409, 412, 413, 415, 422),
    ),
    Operation(
        AREA_A,
        "DELETE",
        "/tasks/{id}",
        delete_task,
        "delete_task",
        "Delete a task",
        "work.write",
        tag=TAG,
        query=parameters.documented(OfProjectQuery),
        answers={200: Done},
        problems=(403, 404, 409, 412, 422),
        description="It can be restored for 30 days. One with time on issued invoices stays (409 `has_invoices`).",
    ),
    Operation(
        AREA_A,
        "POST",
        "/tasks/{id}/restore",
        restore_task,
        "restore_task",
        "Restore a task that was deleted",
        "work.write",
        tag=TAG,
        query=parameters.documented(OfProjectQuery),
        answers={200: TaskAnswer},
        problems=(403, 404, 409, 422),
        description="It comes to the end of its column, or of the project's first one if that is gone.",
    ),
)
