"""The pages and forms of the list."""

from __future__ import annotations

from collections import defaultdict

from workhook.http.calls import Answer
from workhook.web.frame import paging
from workhook.web.frame.names import Names
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext
from workhook.web.listing import edits, view
from workhook.web.listing.people import logins_of
from workhook.work.board.columns import api as columns
from workhook.work.board.projects.schemas import find_label_colors
from workhook.work.board.tasks import actions, export, listing
from workhook.work.kernel import csv_tables

places = Places("list")


@places.get("/{owner}/{project}/list")
async def task_list(visit: Visit) -> Answer:
    """Show the tasks of a project as a table."""
    access = await visit.follow()
    found = await view.read_list(visit, access)
    return visit.page(
        "listing/list.html",
        access=access,
        found=found,
        colors=await find_label_colors(visit.database, access.repository.id),
        given=defaultdict(str, paging.given(visit)),
        filtered=view.is_filtered(visit),
        first=paging.with_query(visit, cursor=None),
        columns=await columns.list_all(visit.database, access.repository.id),
        people=await logins_of(visit.database, access),
        sorts=view.sort_links(visit),
        back=paging.with_query(visit),
        unfiltered=paging.project_address(visit, "list"),
        csv=paging.project_address(visit, "list.csv") + paging.with_query(visit, cursor=None, group=None),
    )


@places.get("/{owner}/{project}/list.csv")
async def task_table(visit: Visit) -> Answer:
    """Download all tasks that fit the filters, as a table."""
    access = await visit.access()
    query = view.query_of(visit)
    filters, sort = listing.params_of(query), view.sort_of(query)
    headers = csv_tables.headers(f"{access.repository.name.replace('.', '-')}-tasks")
    body = export.whole_table(visit.database, access, filters, sort=sort)
    return Answer(body, headers={**headers, "Cache-Control": "no-store"}, media_type=csv_tables.MEDIA_TYPE)


@places.get("/{owner}/{project}/list/{task_id}/people")
async def choose_people(visit: Visit) -> Answer:
    """Choose who does a task: a part of the list, or a page of its own without JavaScript."""
    access = await visit.access()
    task = await actions.get_task(
        visit.database, visit.actor, visit.path("task_id"), project_id=access.repository.project_id
    )
    assigned = [person.login for person in task.assignees]
    return visit.page(
        "listing/people.html",
        access=access,
        task=task,
        assigned=assigned,
        people={**Names(task.assignees).by_login, **await logins_of(visit.database, access)},
        back=visit.query("back"),
        group=visit.query("group"),
    )


@places.post("/{owner}/{project}/list/{task_id}")
async def edit_row(visit: Visit) -> Answer:
    """Change a field of a task where it stands in the list."""
    access = await visit.access()
    task_id = visit.path("task_id")
    before, after = await edits.edit_task(visit, task_id, edits.edit_of(visit, access))
    address = paging.project_address(visit, "list")
    undo = edits.undo_of(f"{address}/{task_id}", before, visit.fields)
    return visit.done(
        paging.back_to(visit, address), gettext("“%(title)s” was changed.") % {"title": after.title}, undo=undo
    )
