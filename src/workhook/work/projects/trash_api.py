"""`/trash`, `/projects/{id}/trash` and `/projects/{id}/restore`."""

from __future__ import annotations

from workhook.core.clock import now_ms, to_millis_text
from workhook.http import lists
from workhook.http.calls import Call
from workhook.http.endpoints import Listed, Routes
from workhook.http.lists import ListQuery
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.work.access import find_access
from workhook.work.projects import actions, listing, trash_queries
from workhook.work.projects.schemas import ProjectAnswer, TrashAnswer, TrashShape, project_shape

routes = Routes(WORK_API, "Trash", read="work.read", write="work.write")


@routes.get("/trash")
async def list_trash(call: Call, query: ListQuery) -> Listed[TrashAnswer]:
    """List deleted projects that the caller can restore.

    The last deleted first. After 30 days a project is gone with everything in it.
    """
    found = await listing.list_deleted(
        call.database,
        actor_of(call),
        since=now_ms() - trash_queries.KEPT_MS,
        after=lists.after(query, tuple[int, str]),
        limit=query.limit + 1,
    )
    rows, headers = lists.page(call, found, query, lambda row: (row["deleted_at"], row["id"]))
    shown = [TrashShape("project", row["id"], row["title"], to_millis_text(row["deleted_at"])) for row in rows]
    return Listed(TrashAnswer(shown), headers)


@routes.get("/projects/{id}/trash")
async def list_project_trash(call: Call, project_id: str, query: ListQuery) -> Listed[TrashAnswer]:
    """List what was deleted in a project and can be restored.

    Tasks and files, the last deleted first. Not for clients.
    """
    after = lists.after(query, tuple[int, str])
    access = await find_access(call.database, actor_of(call), project_id)
    access.require_member("see what was deleted")
    found = await trash_queries.list_contents(call.database, access.repository.id, after=after, limit=query.limit + 1)
    rows, headers = lists.page(call, found, query, lambda row: (row["deleted_at"], row["id"]))
    shown = [TrashShape(row["type"], row["id"], row["title"], to_millis_text(row["deleted_at"])) for row in rows]
    return Listed(TrashAnswer(shown), headers)


@routes.post("/projects/{id}/restore")
async def restore_project(write: Write, project_id: str) -> ProjectAnswer:
    """Restore a deleted project.

    For owners of its organization and admins of the project, within 30 days. Its webhooks work again, and are told
    that it was created. Its name gets a suffix if another project has it now.
    """
    project = await actions.restore_project(write, project_id)
    return ProjectAnswer(project_shape(project))
