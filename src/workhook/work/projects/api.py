"""`/projects`."""

from __future__ import annotations

from workhook.http import lists
from workhook.http.calls import Call
from workhook.http.endpoints import Listed, Routes
from workhook.http.lists import ListQuery
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.work.projects import actions, listing
from workhook.work.projects.schemas import (
    Project,
    ProjectAnswer,
    ProjectCreate,
    ProjectEdit,
    ProjectsAnswer,
    project_shape,
)
from workhook.work.schemas import Done

routes = Routes(WORK_API, "Projects", read="work.read", write="work.write")


def _shown(project: Project) -> ProjectAnswer:
    return ProjectAnswer(project_shape(project))


@routes.get("/projects")
async def list_projects(call: Call, query: ListQuery) -> Listed[ProjectsAnswer]:
    """List the projects that the caller sees."""
    key = lists.after(query, tuple[str])
    found = await listing.list_projects(
        call.database, actor_of(call), after=key[0] if key else None, limit=query.limit + 1
    )
    projects, headers = lists.page(call, found, query, lambda project: (project.repository.project_id,))
    return Listed(ProjectsAnswer([project_shape(each) for each in projects]), headers)


@routes.post("/projects")
async def create_project(write: Write, create: ProjectCreate) -> ProjectAnswer:
    """Create a project."""
    return _shown(await actions.create_project(write, create))


@routes.get("/projects/{id}")
async def get_project(call: Call, project_id: str) -> ProjectAnswer:
    """Get a project."""
    return _shown(await actions.get_project(call.database, actor_of(call), project_id))


@routes.patch("/projects/{id}")
async def edit_project(write: Write, project_id: str, edit: ProjectEdit) -> ProjectAnswer:
    """Change a project, archive it or take it up again.

    For who can write to it. Changing `private` or `name` needs the role admin.
    """
    project = await actions.lock_project(write.tx, write.actor, project_id)
    write.require_match(_shown(project))
    return _shown(await actions.edit_project(write, project, edit))


@routes.delete("/projects/{id}")
async def delete_project(write: Write, project_id: str) -> Done:
    """Delete a project.

    Its webhooks still get the event that it was deleted. The name is free again. One with issued invoices stays
    (409 `has_invoices`): archive it instead.
    """
    project = await actions.lock_project(write.tx, write.actor, project_id)
    write.require_match(_shown(project))
    await actions.delete_project(write, project)
    return Done()
