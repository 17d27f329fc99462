"""The forms of timers and time entries. The actions check the visitor's rights."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import tzinfo

from workhook.core.clock import to_millis_text
from workhook.core.money import amount_text
from workhook.core.zones import zone_of
from workhook.http.calls import Response
from workhook.identity.context import Write
from workhook.web.frame.flash import Undo
from workhook.web.frame.forms import UNSENT, PageForm, form_page
from workhook.web.frame.places import AmountField, Places, Visit
from workhook.web.frame.sessions import safe_return_to
from workhook.web.frame.texts import gettext, text
from workhook.web.time.days import field_text, moment_text, read_duration, span_ms, zone_name
from workhook.web.time.forms import CALLED, NAMES, at_week_of, offer_tasks, query_of, rate_hint, spent
from workhook.web.time.week import own_page, week_page
from workhook.work.history.activity.queries import find_last_edits
from workhook.work.kernel.access import Access
from workhook.work.kernel.durations import format_duration
from workhook.work.time.timesheets import actions, queries
from workhook.work.time.timesheets.schemas import Timesheet, TimesheetCreate, TimesheetEdit

places = Places("time")

_FIELDS = ("task_id", "start_time", "end_time", "duration", "notes", "billable", "billable_rate")
_UNDO_NOTES_MAX = 500  # characters, because the undo is stored in a cookie

Step = Callable[[Write, str], Awaitable[Response]]


@places.post("/{owner}/{project}/time/start", makes=True, action="timesheet.create")
async def start_timer(visit: Visit) -> Response:
    """Start a timer for a task, which pauses the visitor's other timer."""
    create = visit.form(TimesheetCreate, "task_id", "notes")
    return await _create(visit, create, gettext("The timer was started."))


async def _week_again(visit: Visit, form: PageForm) -> Response:
    access = await visit.access()
    access.require_not_client()
    await visit.load_frame()
    return await week_page(visit, access, query_of(_back(visit)), form)


@places.post("/{owner}/{project}/time/entries", makes=True, action="timesheet.create")
@form_page(_week_again, NAMES, called=CALLED)
async def add_entry(visit: Visit) -> Response:
    """Add a time entry."""
    access = await visit.access()
    return await _create(visit, spent(visit, access.repository.currency), gettext("The time entry was added."))


@places.post("/{owner}/{project}/time/restore", makes=True, action="timesheet.restore")
async def restore_entry(visit: Visit) -> Response:
    """Recreate a deleted entry."""
    return await _create(visit, visit.form(TimesheetCreate, *_FIELDS), gettext("The time entry was restored."))


async def _create(visit: Visit, create: TimesheetCreate, done: str) -> Response:
    access = await visit.access()
    await visit.change(lambda write: actions.create_timesheet(write, access.repository.project_id, create))
    return visit.done(at_week_of(create, _back(visit), visit), done)


@places.get("/{owner}/{project}/time/{timesheet_id}")
async def show_entry(visit: Visit, form: PageForm = UNSENT) -> Response:
    """Show the form that edits an entry."""
    timesheet, access = await _find(visit)
    if form.is_refused:
        await visit.load_frame()
    name = zone_name(visit)
    zone = zone_of(name)
    inherited = None if timesheet.rate_source is None else timesheet.billable_rate_minor
    return visit.page(
        "time/entry.html",
        form=form,
        access=access,
        entry=timesheet,
        choice=await offer_tasks(visit, access, form.value("task_id")),
        zone_name=name,
        rate_hint=rate_hint(inherited, timesheet.rate_source or "none", timesheet.repository.currency),
        start=field_text(timesheet.times.start, zone),
        end=field_text(timesheet.times.end, zone),
        spent=format_duration(timesheet.times.counted_ms) if timesheet.times.finished else "",
        can_undo=_undo(visit, timesheet) is not None,
        return_to=_back(visit, visit.fields.get("return_to", "") if form.is_refused else visit.query("return_to")),
        edits=await find_last_edits(visit.database, access.repository.id, "timesheet"),
    )


@places.post("/{owner}/{project}/time/{timesheet_id}/edit", action="timesheet.edit")
@form_page(show_entry, NAMES, called=CALLED)
async def edit_entry(visit: Visit) -> Response:
    """Edit an entry."""
    timesheet, _ = await _find(visit)
    edit = visit.form(
        TimesheetEdit,
        "task_id",
        "notes",
        AmountField("billable_rate", timesheet.repository.currency),
        billable="billable" in visit.fields,
        **_changed_times(visit, zone_of(zone_name(visit))),
    )
    await visit.change(lambda write: actions.edit_timesheet(write, timesheet.id, edit))
    return visit.done(_back(visit), gettext("The time entry was saved."))


def _changed_times(visit: Visit, zone: tzinfo) -> dict[str, object]:
    """Return only the times that were changed in the form, because its fields have no seconds.

    A changed end implies the duration, unless another duration was typed. Raises `Invalid`.
    """
    fields = visit.fields
    changed = [name for name in ("start", "end", "duration") if fields.get(name, "") != fields.get(f"was_{name}", "")]
    times: dict[str, object] = {
        f"{name}_time": moment_text(fields[name], zone) for name in changed if name != "duration" and fields.get(name)
    }
    if "duration" in changed:
        duration = read_duration(fields.get("duration", ""))
        if "end" not in changed or duration != span_ms(fields.get("start", ""), fields.get("end", ""), zone):
            times["duration"] = duration
    return times


_SAID = {
    "pause": text("The timer was paused."),
    "resume": text("The timer was started."),
    "finish": text("The timer was finished."),
}


def _step(name: str, action: Step) -> Callable[[Visit], Awaitable[Response]]:
    async def step(visit: Visit) -> Response:
        timesheet, _ = await _find(visit)
        await visit.change(lambda write: action(write, timesheet.id))
        return visit.done(_back(visit), gettext(_SAID[name]))

    step.__name__, step.__doc__ = f"{name}_timer", f"{name.capitalize()} a timer."
    return places.post(f"/{{owner}}/{{project}}/time/{{timesheet_id}}/{name}", action=f"timesheet.{name}")(step)


pause_timer = _step("pause", actions.pause_timesheet)
resume_timer = _step("resume", actions.resume_timesheet)
finish_timer = _step("finish", actions.finish_timesheet)


@places.post("/{owner}/{project}/time/{timesheet_id}/delete", action="timesheet.delete")
async def delete_entry(visit: Visit) -> Response:
    """Delete an entry."""
    timesheet, _ = await _find(visit)
    await visit.change(lambda write: actions.delete_timesheet(write, timesheet.id))
    return visit.done(_back(visit), gettext("The time entry was deleted."), undo=_undo(visit, timesheet))


def _undo(visit: Visit, timesheet: Timesheet) -> Undo | None:
    """Return the undo of a deletion, for the user who spent the time, at the rate that it had."""
    times, rate = timesheet.times, timesheet.billable_rate_minor
    is_short = len(timesheet.notes or "") <= _UNDO_NOTES_MAX
    if timesheet.user.id != visit.actor.user.id or times.end is None or timesheet.task is None or not is_short:
        return None
    values = {
        "task_id": timesheet.task.id,
        "start_time": to_millis_text(times.start),
        "end_time": to_millis_text(times.end),
        "duration": str(times.counted_ms),
        "notes": timesheet.notes,
        "billable": "true" if timesheet.billable else "false",
        "billable_rate": None if rate is None else amount_text(rate, timesheet.repository.currency),
    }
    fields = {name: value for name, value in values.items() if value}
    return Undo(f"{_base(visit)}/restore", {**fields, "return_to": _back(visit)})


async def _find(visit: Visit) -> tuple[Timesheet, Access]:
    """Return the entry in the path. Raises `NotFound`, also for clients and if it is in another project."""
    access = await visit.access()
    access.require_not_client()
    timesheet, its = await queries.find_timesheet(visit.database, visit.actor, visit.path("timesheet_id"))
    access.require_same_project(its)
    return timesheet, access


def _base(visit: Visit) -> str:
    return f"/{visit.path('owner')}/{visit.path('project')}/time"


def _back(visit: Visit, values: str | None = None) -> str:
    """Return the page to return to: the visitor's own time page or the project's."""
    return_to = visit.fields.get("return_to") if values is None else values
    if own := own_page(return_to):
        return own
    wanted = safe_return_to(return_to)
    return wanted if wanted.partition("?")[0] == _base(visit) else _base(visit)
