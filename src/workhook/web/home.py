"""`/`, the visitor's tasks and projects, and `/{owner}`, the projects and people of an account."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from workhook.core.clock import now_ms
from workhook.core.errors import NotFound, require_found
from workhook.http.calls import Call, Response
from workhook.identity import members
from workhook.identity.context import Write
from workhook.identity.members import InOrganization, list_people
from workhook.identity.schemas import Account
from workhook.storage.pages import Page
from workhook.web.frame.formats import reader_zone
from workhook.web.frame.forms import UNSENT, PageForm, form_page
from workhook.web.frame.places import Places, Visit, visit_of
from workhook.web.frame.sessions import sign_in_redirect, signed_in
from workhook.web.frame.texts import gettext, text
from workhook.web.people.links import find_invitations
from workhook.work.board.columns import ColumnCreate, add_column
from workhook.work.board.projects.actions import add_project
from workhook.work.board.projects.listing import list_newest
from workhook.work.board.projects.schemas import Project, ProjectCreate
from workhook.work.board.tasks.assigned import list_assigned
from workhook.work.board.tasks.schemas import urgency
from workhook.work.discussion.mentions import list_mentions
from workhook.work.money.invoices.queries import list_due
from workhook.work.time.timesheets import queries as timesheets
from workhook.work.time.timesheets.rules import elapsed_ms


class ProjectTemplate(NamedTuple):
    """A set of columns for new projects. `columns` are pairs of title and whether the column completes tasks."""

    name: str
    label: str
    columns: tuple[tuple[str, bool], ...] = ()

    @property
    def names(self) -> str:
        return ", ".join(gettext(title) for title, _ in self.columns)


PROJECT_TEMPLATES = (
    ProjectTemplate(
        "board", text("To do, Doing, Done"), ((text("To do"), False), (text("Doing"), False), (text("Done"), True))
    ),
    ProjectTemplate("", text("Empty")),
)


async def add_from_template(write: Write, create: ProjectCreate, name: str) -> Project:
    """Create a project with the columns of a template. Raises `NotFound` for an unknown template."""
    template = require_found(next((each for each in PROJECT_TEMPLATES if each.name == name), None))
    project = await add_project(write, create)
    await add_columns(write, project.id, template)
    return project


async def add_columns(write: Write, project_id: str, template: ProjectTemplate) -> None:
    for title, finished in template.columns:
        await add_column(write, project_id, ColumnCreate(title=gettext(title), finished=finished))


places = Places("owner")

PROJECTS_MAX, PEOPLE_MAX = 500, 100


class OwnerView(NamedTuple):
    """An account as the visitor sees it. `role` is `owner` in the visitor's own account, and None without a role."""

    account: Account
    role: str | None
    projects: list[Project]


@places.get("/{owner}")
async def show(visit: Visit, form: PageForm = UNSENT) -> Response:
    view = await find_owner(visit)
    shown = sorted(view.projects[:PROJECTS_MAX], key=lambda each: each.title.casefold())
    people: list[InOrganization] = []
    if view.role is not None and view.account.kind == "organization":
        people, _ = await list_people(visit.database, view.account.id, Page(PEOPLE_MAX))
    return visit.page(
        "home/owner.html",
        form=form,
        owner=view.account,
        view=view,
        projects=[each for each in shown if not each.archive],
        archived=[each for each in shown if each.archive],
        more=len(view.projects) > PROJECTS_MAX,
        people=sorted(people, key=lambda each: each.role != "owner"),
        templates=PROJECT_TEMPLATES,
        faults=form.reasons,
    )


@places.post("/{owner}", makes=True, action="project.create")
@form_page(show)
async def create_project(visit: Visit) -> Response:
    """Create a project with the columns of a template."""
    view = await find_owner(visit)
    if view.role is None:
        raise NotFound()
    template = visit.fields.get("template", "")
    create = visit.form(ProjectCreate, "title", organization=view.account.login, private="private" in visit.fields)
    project = await visit.change(lambda write: add_from_template(write, create, template))
    return visit.done(f"/{project.full_name}")


async def find_owner(visit: Visit) -> OwnerView:
    """Return the account in the path. Raises `NotFound` if the visitor has no role and sees no project in it."""
    account, role = await visit.account()
    projects = await list_newest(visit.database, visit.actor, limit=PROJECTS_MAX + 1, account_id=account.id)
    if role is None and not projects:
        raise visit.hidden(account)
    return OwnerView(account, role, projects)


TASKS_MAX, OWN_PROJECTS_MAX, INVOICES_MAX, MENTIONS_MAX, ORGANIZATIONS_MAX = 100, 60, 20, 20, 5


async def home(call: Call) -> Response:
    session = await signed_in(call)
    return sign_in_redirect(call) if session is None else await my_work(visit_of(call, session))


async def my_work(visit: Visit) -> Response:
    """Show the visitor's tasks, mentions, unpaid invoices and projects."""
    reader, user, now = visit.database, visit.actor.user, now_ms()
    (assigned, due, mentions, _), running, projects, invitations, (own, _) = await asyncio.gather(
        asyncio.gather(
            list_assigned(reader, user, TASKS_MAX + 1),
            list_due(reader, user, INVOICES_MAX + 1),
            list_mentions(reader, user, MENTIONS_MAX),
            visit.load_frame(),
        ),
        timesheets.find_running(reader, user),
        list_newest(reader, visit.actor, limit=OWN_PROJECTS_MAX + 1),
        find_invitations(visit),
        members.list_own(reader, visit.actor, Page(ORGANIZATIONS_MAX)),
    )
    zone = reader_zone()
    return visit.page(
        "home/my_work.html",
        tasks=[(each, urgency(each.deadline, is_completed=False, now=now, zone=zone)) for each in assigned[:TASKS_MAX]],
        more_tasks=len(assigned) > TASKS_MAX,
        running=running,
        elapsed=elapsed_ms(running.times, now) if running else 0,
        projects=[each for each in projects[:OWN_PROJECTS_MAX] if not each.archive],
        invitations=invitations,
        invoices=due[:INVOICES_MAX],
        more_invoices=len(due) > INVOICES_MAX,
        mentions=mentions,
        now=now,
        may_make=bool(projects or own),
        organizations=[each.account for each in own],
        is_guest=bool(projects) and all(each.repository.role is None for each in projects),
        more_projects=len(projects) > OWN_PROJECTS_MAX,
    )
