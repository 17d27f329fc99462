"""`/projects`.

Whoever is in an organization creates projects in it and may change those that they can write to. Deleting takes an
organization owner or an admin of the repository, and so does changing who sees a project or its name. The creator is an
admin of what it creates. Clients only look.
"""

from __future__ import annotations

from workhook.core.records import to_response
from workhook.http import lists
from workhook.http.calls import Call
from workhook.http.endpoints import Listed, Routes
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.work.board.projects import actions
from workhook.work.board.projects.listing import list_visible
from workhook.work.board.projects.schemas import ProjectAnswer, ProjectCreate, ProjectsAnswer

routes = Routes(WORK_API, "Projects", read="work.read", write="work.write")


@routes.get("/projects")
async def list_projects(call: Call, query: lists.ListQuery) -> Listed[ProjectsAnswer]:
    """List the projects that the caller sees."""
    key = lists.after(query, tuple[str])
    found = await list_visible(call.database, actor_of(call), after=key[0] if key else None, limit=query.limit + 1)
    page, headers = lists.page(call, found, query, lambda project: (project.id,))
    return Listed(ProjectsAnswer([to_response(each) for each in page]), headers)


@routes.post("/projects")
async def create_project(write: Write, create: ProjectCreate) -> ProjectAnswer:
    """Create a project."""
    return ProjectAnswer(to_response(await actions.add_project(write, create)))


@routes.get("/projects/{id}")
async def get_project(call: Call, project_id: str) -> ProjectAnswer:
    """Get a project."""
    return ProjectAnswer(to_response(await actions.find_project(call.database, actor_of(call), project_id)))


routes.patch("/projects/{id}")(actions.edit_project)
routes.delete("/projects/{id}")(actions.delete_project)
