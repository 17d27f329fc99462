"""`/{owner}`: an organization or a user, with the projects that the visitor sees, and its people."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from workhook.core.errors import Invalid, NotFound
from workhook.http.calls import Answer
from workhook.identity.members import InOrganization, list_people
from workhook.identity.queries import find_account, find_member_role
from workhook.identity.schemas import Account
from workhook.storage.pages import Page
from workhook.web.frame.places import Places, Visit
from workhook.web.home.templates import PROJECT_TEMPLATES, add_from_template
from workhook.work.board.projects.api import ProjectCreate
from workhook.work.board.projects.listing import list_newest
from workhook.work.board.projects.schemas import Project

places = Places("owner")

PROJECTS_MAX, PEOPLE_MAX = 500, 100


class OwnerView(NamedTuple):
    """An account as the visitor sees it. `role`: theirs there, `owner` in their own; None: they are not in it."""

    account: Account
    role: str | None
    projects: list[Project]

    @property
    def may_create(self) -> bool:
        return self.role is not None


@places.get("/{owner}")
async def show(visit: Visit) -> Answer:
    """Show the projects and people of an account."""
    return await _page(visit, await find_owner(visit))


@places.post("/{owner}", makes=True)
async def create_project(visit: Visit) -> Answer:
    """Make a project, with the columns of its template."""
    view = await find_owner(visit)
    if not view.may_create:
        raise NotFound()
    template = visit.fields.get("template", "")
    try:
        create = visit.form(ProjectCreate, "title", organization=view.account.login, private="private" in visit.fields)
        project = await visit.change(lambda write: add_from_template(write, create, template))
    except Invalid as problem:
        return await _page(visit, view, problem.reasons)
    return visit.done(f"/{project.full_name}")


async def find_owner(visit: Visit) -> OwnerView:
    """The account of the path. Raises `NotFound` if it is none that the visitor is in, or sees a project of."""
    reader, actor = visit.database, visit.actor
    account = await find_account(reader, visit.path("owner"))
    if account is None or account.kind == "bot":
        raise NotFound()
    role, projects = await asyncio.gather(
        find_member_role(reader, account.id, actor.user.id),
        list_newest(reader, actor, limit=PROJECTS_MAX + 1, account_id=account.id),
    )
    if account.id == actor.user.id:
        role = "owner"
    if role is None and not projects:
        actor.request.touches(account.id, hidden=True, names=[account.login])
        raise NotFound()
    return OwnerView(account, role, projects)


async def _page(visit: Visit, view: OwnerView, faults: list[str] | None = None) -> Answer:
    shown = sorted(view.projects[:PROJECTS_MAX], key=lambda each: each.title.casefold())
    return visit.page(
        "home/owner.html",
        status=422 if faults else 200,
        owner=view.account,
        view=view,
        projects=[each for each in shown if not each.archive],
        archived=[each for each in shown if each.archive],
        more=len(view.projects) > PROJECTS_MAX,
        people=await _people(visit, view),
        templates=PROJECT_TEMPLATES,
        faults=faults or [],
        given={name: visit.fields.get(name, "") for name in ("title", "template", "private")},
    )


async def _people(visit: Visit, view: OwnerView) -> list[InOrganization]:
    """Of an organization, for those who are in it: of the first, owners come before others."""
    if view.role is None or view.account.kind != "organization":
        return []
    found, _ = await list_people(visit.database, view.account.id, Page(PEOPLE_MAX))
    return sorted(found, key=lambda each: each.role != "owner")
