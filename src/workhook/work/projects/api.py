"""`/projects`."""

from __future__ import annotations

from workhook.http import conditions, lists, parameters
from workhook.http.calls import Answer, Call
from workhook.http.lists import ListQuery
from workhook.http.operations import AREA_A, Operation
from workhook.identity.guard import actor_of
from workhook.storage import Transaction
from workhook.work.announce import base_of
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

TAG = "Projects"


def _shown(project: Project) -> ProjectAnswer:
    return ProjectAnswer(project_shape(project))


async def list_projects(call: Call) -> Answer:
    query = parameters.read_query(call, ListQuery)
    key = lists.after(query, tuple[str])
    found = await listing.list_projects(
        call.database, actor_of(call), after=key[0] if key else None, limit=query.limit + 1
    )
    projects, headers = lists.page(call, found, query, lambda project: (project.repository.project_id,))
    return Answer(ProjectsAnswer([project_shape(each) for each in projects]), headers=headers)


async def create_project(call: Call) -> Answer:
    create = await parameters.read(call, ProjectCreate)

    async def change(tx: Transaction) -> Answer:
        return Answer(_shown(await actions.create_project(tx, actor_of(call), create, base=base_of(call))))

    return await call.write(change)


async def get_project(call: Call) -> Answer:
    return Answer(_shown(await actions.get_project(call.database, actor_of(call), call.path("id"))))


async def edit_project(call: Call) -> Answer:
    edit = await parameters.read(call, ProjectEdit)

    async def change(tx: Transaction) -> Answer:
        project = await actions.take_project(tx, actor_of(call), call.path("id"))
        conditions.require_match(call, _shown(project))
        return Answer(_shown(await actions.edit_project(tx, actor_of(call), project, edit, base=base_of(call))))

    return await call.write(change)


async def delete_project(call: Call) -> Answer:
    async def change(tx: Transaction) -> Answer:
        project = await actions.take_project(tx, actor_of(call), call.path("id"))
        conditions.require_match(call, _shown(project))
        await actions.delete_project(tx, actor_of(call), project, base=base_of(call))
        return Answer(Done())

    return await call.write(change)


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        AREA_A,
        "GET",
        "/projects",
        list_projects,
        "list_projects",
        "List the projects that the caller sees",
        "work.read",
        tag=TAG,
        query=parameters.documented(ListQuery),
        answers={200: ProjectsAnswer},
        problems=(422,),
    ),
    Operation(
        AREA_A,
        "POST",
        "/projects",
        create_project,
        "create_project",
        "Create a project",
        "work.write",
        tag=TAG,
        body=ProjectCreate,
        query=parameters.documented(ProjectCreate, or_body=True),
        answers={200: ProjectAnswer},
        problems=(400, 409, 413, 415, 422),
    ),
    Operation(
        AREA_A,
        "GET",
        "/projects/{id}",
        get_project,
        "get_project",
        "Get a project",
        "work.read",
        tag=TAG,
        answers={200: ProjectAnswer},
        problems=(404,),
    ),
    Operation(
        AREA_A,
        "PATCH",
        "/projects/{id}",
        edit_project,
        "edit_project",
        "Change a project, archive it or take it up again",
        "work.write",
        tag=TAG,
        body=ProjectEdit,
        query=parameters.documented(ProjectEdit, or_body=True),
        answers={200: ProjectAnswer},
        problems=(400, 403, 404, 409, 412, 413, 415, 422),
        description="For who can write to it. Changing `private` or `name` needs the role admin.",
    ),
    Operation(
        AREA_A,
        "DELETE",
        "/projects/{id}",
        delete_project,
        "delete_project",
        "Delete a project",
        "work.write",
        tag=TAG,
        answers={200: Done},
        problems=(403, 404, 409, 412),
        description="Its webhooks still get the event that it was deleted. The name is free again. One with issued "
        "invoices stays (409 `has_invoices`): archive it instead.",
    ),
)
