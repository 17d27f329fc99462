"""`/trash`, `/projects/{id}/trash` and `/projects/{id}/restore`."""

from __future__ import annotations

from workhook.core.clock import now_ms, to_millis_text
from workhook.http import lists, parameters
from workhook.http.calls import Answer, Call
from workhook.http.lists import ListQuery
from workhook.http.operations import AREA_A, Operation
from workhook.identity.guard import actor_of
from workhook.storage import Transaction
from workhook.work.access import find_access
from workhook.work.announce import base_of
from workhook.work.projects import actions, listing, trash_queries
from workhook.work.projects.schemas import ProjectAnswer, TrashAnswer, TrashShape, project_shape

TAG = "Trash"


async def list_trash(call: Call) -> Answer:
    query = parameters.read_query(call, ListQuery)
    found = await listing.list_deleted(
        call.database,
        actor_of(call),
        since=now_ms() - trash_queries.KEPT_MS,
        after=lists.after(query, tuple[int, str]),
        limit=query.limit + 1,
    )
    rows, headers = lists.page(call, found, query, lambda row: (row["deleted_at"], row["id"]))
    shown = [TrashShape("project", row["id"], row["title"], to_millis_text(row["deleted_at"])) for row in rows]
    return Answer(TrashAnswer(shown), headers=headers)


async def list_project_trash(call: Call) -> Answer:
    query = parameters.read_query(call, ListQuery)
    after = lists.after(query, tuple[int, str])
    access = await find_access(call.database, actor_of(call), call.path("id"))
    access.require_member("see what was deleted")
    found = await trash_queries.list_contents(call.database, access.repository.id, after=after, limit=query.limit + 1)
    rows, headers = lists.page(call, found, query, lambda row: (row["deleted_at"], row["id"]))
    shown = [TrashShape(row["type"], row["id"], row["title"], to_millis_text(row["deleted_at"])) for row in rows]
    return Answer(TrashAnswer(shown), headers=headers)


async def restore_project(call: Call) -> Answer:
    async def change(tx: Transaction) -> Answer:
        project = await actions.restore_project(tx, actor_of(call), call.path("id"), base=base_of(call))
        return Answer(ProjectAnswer(project_shape(project)))

    return await call.write(change)


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        AREA_A,
        "GET",
        "/trash",
        list_trash,
        "list_trash",
        "List deleted projects that the caller can restore",
        "work.read",
        tag=TAG,
        query=parameters.documented(ListQuery),
        answers={200: TrashAnswer},
        problems=(422,),
        description="The last deleted first. After 30 days a project is gone with everything in it.",
    ),
    Operation(
        AREA_A,
        "GET",
        "/projects/{id}/trash",
        list_project_trash,
        "list_project_trash",
        "List what was deleted in a project and can be restored",
        "work.read",
        tag=TAG,
        query=parameters.documented(ListQuery),
        answers={200: TrashAnswer},
        problems=(403, 404, 422),
        description="Tasks and files, the last deleted first. Not for clients.",
    ),
    Operation(
        AREA_A,
        "POST",
        "/projects/{id}/restore",
        restore_project,
        "restore_project",
        "Restore a deleted project",
        "work.write",
        tag=TAG,
        answers={200: ProjectAnswer},
        problems=(403, 404, 409, 422),
        description="For owners of its organization and admins of the project, within 30 days. Its webhooks work "
        "again, and are told that it was created. Its name gets a suffix if another project has it now.",
    ),
)
