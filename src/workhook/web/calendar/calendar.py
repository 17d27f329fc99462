"""The pages and forms of the calendar."""

from __future__ import annotations

from collections import defaultdict

from workhook.http.calls import Answer
from workhook.web.calendar import view
from workhook.web.frame import dates, paging, zones
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext
from workhook.web.listing import edits
from workhook.web.listing.people import logins_of
from workhook.work.board.tasks.inputs import TaskEdit

places = Places("calendar")


@places.get("/{owner}/{project}/calendar")
async def calendar(visit: Visit) -> Answer:
    """Show the deadlines of a project by month or week."""
    access = await visit.follow()
    span = view.span_of(visit)
    people = await logins_of(visit.database, access)
    return visit.page(
        "calendar/calendar.html",
        access=access,
        span=span,
        calendar=await view.read_calendar(visit, access, span),
        today=zones.today(),
        weekdays=dates.weekday_names(),
        given=defaultdict(str, paging.given(visit)),
        people={login: gettext("Tasks of %(person)s") % {"person": name} for login, name in people.items()},
        back=paging.with_query(visit),
    )


@places.post("/{owner}/{project}/calendar/{task_id}")
async def move_deadline(visit: Visit) -> Answer:
    """Give a task another deadline: another day, at the same time of the day."""
    access = await visit.access()
    edit = visit.form(TaskEdit, "deadline", project_id=access.repository.project_id)
    task_id, address = visit.path("task_id"), paging.project_address(visit, "calendar")
    before, after = await edits.edit_task(visit, task_id, edit)
    day = view.day_at(after.deadline)
    said = gettext("“%(title)s” has no deadline.") if day is None else gettext("“%(title)s” is due on %(day)s.")
    undo = edits.undo_of(f"{address}/{task_id}", before, visit.fields)
    return visit.done(paging.back_to(visit, address), said % {"title": after.title, "day": day}, undo=undo)
