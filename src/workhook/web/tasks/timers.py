"""The forms that start, pause, resume and finish a timer, on the page of a task and in every page's header."""

from __future__ import annotations

from workhook.core.errors import NotFound
from workhook.http.calls import Answer
from workhook.web.frame.paging import back_to, project_address
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.sessions import safe_return_to
from workhook.web.tasks.task import address
from workhook.work.time.timesheets import api, queries
from workhook.work.time.timesheets.schemas import TimesheetCreate

places = Places("timers")

_STEPS = {"pause": api.pause_timesheet, "resume": api.resume_timesheet, "finish": api.finish_timesheet}


@places.post("/{owner}/{project}/tasks/{task_id}/timer", makes=True)
async def start_timer(visit: Visit) -> Answer:
    """Start a timer on a task; another one of the visitor is paused. Whoever did it on the board stays there."""
    access = await visit.access()
    access.hide_from_clients()
    create = TimesheetCreate(task_id=visit.path("task_id"))
    await visit.change(lambda write: api.create_timesheet(write, access.repository.project_id, create))
    return visit.done(back_to(visit, project_address(visit)) if "back" in visit.fields else address(visit))


@places.post("/{owner}/{project}/timesheets/{timesheet_id}/{step}")
async def change_timer(visit: Visit) -> Answer:
    """Pause, resume or finish a timer, and go back to the page that the form stood on."""
    access = await visit.access()
    step, timesheet_id = _STEPS.get(visit.path("step")), visit.path("timesheet_id")
    found, _ = await queries.find_timesheet(visit.database, visit.actor, timesheet_id)
    if step is None or found.repository.id != access.repository.id:
        raise NotFound()
    await visit.change(lambda write: step(write, timesheet_id))
    return visit.done(safe_return_to(visit.fields.get("back")))
