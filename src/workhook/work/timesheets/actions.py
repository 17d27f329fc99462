"""What can be done with timesheets: authorise, decide, write, append the event.

Whoever sees the project as an owner or a member may do everything with its timesheets, also with others'. A timesheet
is made for the caller. Clients see none.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import UNSET
from msgspec.structs import replace

from workhook.core.errors import Conflict, Fault, Invalid, NotFound
from workhook.identity.context import Write
from workhook.identity.schemas import Actor
from workhook.storage import Reader
from workhook.work.access import Access, find_access
from workhook.work.record_events import differences
from workhook.work.schemas import if_set
from workhook.work.timesheets import queries, rights, rules, timers
from workhook.work.timesheets.rules import Times
from workhook.work.timesheets.schemas import (
    Timesheet,
    TimesheetCreate,
    TimesheetEdit,
    TimesheetTaskShape,
    changed,
    timesheet_shape,
)
from workhook.work.timesheets.timers import tell

Check = Callable[[Timesheet], None]
"""Told what the timesheet is now, in the transaction of the change; raises if the caller has seen something else."""


async def see_timesheets(reader: Reader, actor: Actor, project_id: str) -> Access:
    """The project whose timesheets are to be listed. Raises `NotFound`."""
    access = await find_access(reader, actor, project_id)
    access.hide_from_clients()
    return access


async def get_timesheet(reader: Reader, actor: Actor, timesheet_id: str) -> Timesheet:
    """Raises `NotFound`."""
    timesheet, access = await queries.find_timesheet(reader, actor, timesheet_id)
    access.hide_from_clients()
    return timesheet


async def create_timesheet(write: Write, project_id: str, create: TimesheetCreate) -> Timesheet:
    """Raises `NotFound`, `Forbidden`, `Conflict`, `Invalid`."""
    runs = create.times.duration_ms is None and create.times.end is None
    place = await queries.find_place(write.tx, write.actor, project_id, create.task_id, lock_user=runs)
    _require_writable(place.access)
    task = _task(create.task_id, place.task_title)
    times = _times(task is not None, lambda: rules.created(create.times, write.now))
    assert task is not None, "else there was a fault"
    timesheet = replace(
        timers.new_timesheet(place.access, task, times, write.now),
        notes=if_set(create.notes),
        billable=if_set(create.billable) or False,
        billable_rate_minor=if_set(create.billable_rate),
    )
    if runs:
        if not await rights.may_run(write.tx, write.actor.user.id, place.access.repository.id):
            raise NotFound()  # the right was lost while the user's lock was waited for
        running = await queries.lock_running(write.tx, write.actor, write.actor.user.id)
        await timers.pause(write, running)
    await queries.insert_timesheet(write.tx, timesheet)
    await tell(write, timesheet, "started" if runs else "finished")
    return timesheet


async def edit_timesheet(write: Write, timesheet_id: str, edit: TimesheetEdit, check: Check) -> Timesheet:
    """The timesheet after the change; what changes nothing has no event. Raises `NotFound`, `Forbidden`, `Conflict`,
    `Invalid`, and what `check` raises."""
    task_id = if_set(edit.task_id)
    before, access, task_title = await queries.lock_to_edit(write.tx, write.actor, timesheet_id, task_id)
    _require_writable(access)
    check(before)
    if _says_nothing_new(before, edit):
        return before
    if before.invoice_id is not None:
        raise Conflict("The timesheet is on an invoice; it can be changed when it is off it again.", code="invoiced")
    if edit.end_time is None and before.times.finished:
        raise Conflict("The timesheet is finished; a finished one is not opened again.", code="finished")
    task = before.task if task_id is None or task_id == _task_id(before) else _task(task_id, task_title)
    times = _times(task_id is None or task is not None, lambda: rules.edited(before.times, edit.times, write.now))
    after = replace(
        changed(before, times, write.now),
        task=task,
        notes=if_set(edit.notes, before.notes),
        billable=if_set(edit.billable, before.billable),
        billable_rate_minor=if_set(edit.billable_rate, before.billable_rate_minor),
    )
    await queries.update_timesheets(write.tx, [after])
    action = "finished" if after.times.finished and not before.times.finished else "edited"
    changes = differences(timesheet_shape(before, write.now), timesheet_shape(after, write.now))
    await tell(write, after, action, changes=changes)
    return after


async def pause_timesheet(write: Write, timesheet_id: str) -> Timesheet:
    """Raises `NotFound`, `Forbidden`, and `Conflict` if it is finished."""
    return await _turn(write, timesheet_id, rules.paused, "paused")


async def finish_timesheet(write: Write, timesheet_id: str) -> Timesheet:
    """Raises `NotFound`, `Forbidden`, `Conflict`."""
    return await _turn(write, timesheet_id, rules.finished, "finished")


async def resume_timesheet(write: Write, timesheet_id: str) -> Timesheet:
    """The other timer of its user is paused. Raises `NotFound`, `Forbidden`, and `Conflict` if it is finished, if its
    user may not write there any more, or if the actor may not pause the other one."""
    found, access = await queries.lock_user_of(write.tx, write.actor, timesheet_id)
    _require_writable(access)
    timers_of_user = await queries.lock_running(write.tx, write.actor, found.user.id, and_id=timesheet_id)
    before = next((each for each in timers_of_user if each.id == timesheet_id), None)
    if before is None:  # it was deleted while this waited
        raise NotFound()
    times = rules.resumed(before.times, write.now)
    if times == before.times:
        return before
    if not await rights.may_run(write.tx, found.user.id, before.repository.id):
        message = "The user of this timer can no longer write to the project, so that the timer stays as it is."
        raise Conflict(message, code="not_in_project")
    others = [each for each in timers_of_user if each.id != timesheet_id]
    await timers.pause(write, others)
    return await _put(write, before, times, "resumed")


async def delete_timesheet(write: Write, timesheet_id: str, check: Check) -> None:
    """Raises `NotFound`, `Forbidden`, `Conflict`, and what `check` raises."""
    timesheet, access = await queries.lock_timesheet(write.tx, write.actor, timesheet_id)
    _require_writable(access)
    check(timesheet)
    if timesheet.invoice_id is not None:
        raise Conflict("The timesheet is on an invoice; it can be deleted when it is off it again.", code="invoiced")
    await queries.delete_timesheet(write.tx, timesheet_id)
    await tell(write, timesheet, "deleted")


async def _turn(write: Write, timesheet_id: str, turn: Callable[[Times, int], Times], action: str) -> Timesheet:
    before, access = await queries.lock_timesheet(write.tx, write.actor, timesheet_id)
    _require_writable(access)
    times = turn(before.times, write.now)
    return before if times == before.times else await _put(write, before, times, action)


async def _put(write: Write, before: Timesheet, times: Times, action: str) -> Timesheet:
    after = changed(before, times, write.now)
    await queries.update_timesheets(write.tx, [after])
    await tell(write, after, action)
    return after


def _require_writable(access: Access) -> None:
    access.hide_from_clients()
    access.require_writable()


def _task(task_id: str, title: str | None) -> TimesheetTaskShape | None:
    """`title` is None for what is no task of the project."""
    return None if title is None else TimesheetTaskShape(task_id, title)


def _task_id(timesheet: Timesheet) -> str | None:
    return timesheet.task.id if timesheet.task else None


def _times(task_found: bool, times: Callable[[], Times]) -> Times:
    """What `times` answers. Raises `Invalid` with what is wrong with them, and with the task if it was not found."""
    faults = [] if task_found else [Fault(field="task_id", message="task_id must be a task of the project")]
    try:
        found = times()
    except Invalid as wrong:
        raise Invalid(faults=[*faults, *wrong.faults]) from None
    if faults:
        raise Invalid(faults=faults)
    return found


def _says_nothing_new(timesheet: Timesheet, edit: TimesheetEdit) -> bool:
    times = timesheet.times
    current: dict[str, object] = {
        "task_id": _task_id(timesheet),
        "start_time": times.start,
        "end_time": times.end,
        "duration": times.counted_ms if times.finished else None,
        "notes": timesheet.notes,
        "billable": timesheet.billable,
        "billable_rate": timesheet.billable_rate_minor,
    }
    return all(getattr(edit, name) in (UNSET, value) for name, value in current.items())
