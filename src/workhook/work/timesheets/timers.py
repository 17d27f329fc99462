"""Timers that start and finish because something else happened: a card that moves, another timer that starts.

One timer of a user runs at a time, in whatever project; a unique index backs it. A token that is confined leaves alone
what runs where it does not reach, and so starts nothing beside it.
"""

from __future__ import annotations

from collections.abc import Sequence

from workhook.core.errors import Conflict
from workhook.core.ids import new_id
from workhook.identity.context import Write
from workhook.identity.schemas import Actor
from workhook.identity.tokens.lookup import may_reach
from workhook.work.access import Access
from workhook.work.people import person_shape
from workhook.work.record_events import Changes, publish_event
from workhook.work.timesheets import queries, rights, rules
from workhook.work.timesheets.schemas import Timesheet, TimesheetTaskShape, changed, timesheet_shape


async def tell(write: Write, timesheet: Timesheet, action: str, *, changes: Changes | None = None) -> None:
    """The event, in the timesheet's own project. There is none for a project that was deleted."""
    if not timesheet.repository_gone:
        record = timesheet_shape(timesheet, write.now)
        await publish_event(write, timesheet.repository, "timesheet", action, record, changes=changes)


async def finish_running(write: Write, access: Access, task_ids: Sequence[str]) -> None:
    """Finish the running timers of tasks that entered a done column: an event `finished` for each.

    Timers that are paused stay paused. A client ends nobody's: it has no timers, and the time of others is not its to
    end. Call it before `start_for` where both are called.
    """
    if access.is_client:
        return
    running = await queries.lock_running_on(write.tx, task_ids, access.user.id) if task_ids else []
    await finish(write, running)


async def finish(write: Write, running: Sequence[Timesheet]) -> None:
    """An event `finished` for each. Whether the actor may do so is not asked."""
    over = [changed(each, rules.finished(each.times, write.now), write.now) for each in running]
    if over:
        await queries.update_timesheets(write.tx, over)
    for each in over:
        await tell(write, each, "finished")


async def start_for(write: Write, access: Access, task_id: str) -> None:
    """Start the caller's timer on the task, in the project of `access`, and pause the caller's other one.

    Nothing happens if the caller's timer runs on the task already, or where the token does not reach, and for clients:
    they have no timers.
    """
    if access.is_client:
        return
    task = await queries.lock_user_for(write.tx, access.user, task_id)
    assert task is not None, "the task is the one that the caller moves"
    running = await queries.lock_running(write.tx, access.actor, access.user.id)
    if any(each.task and each.task.id == task_id for each in running) or not _reaches(access.actor, running):
        return
    if not await rights.may_run(write.tx, access.user.id, access.repository.id):
        return  # the right was lost while the user's lock was waited for
    await pause(write, running)
    timer = new_timesheet(access, task, rules.started(write.now), write.now)
    await queries.insert_timesheet(write.tx, timer)
    await tell(write, timer, "started")


def _reaches(actor: Actor, running: Sequence[Timesheet]) -> bool:
    return all(may_reach(actor, ("work", "write"), each.repository.owner.id, each.repository.id) for each in running)


async def pause(write: Write, running: Sequence[Timesheet]) -> None:
    """Pause what runs: an event `paused` for each, in its own project.

    Everybody pauses their own timer. Somebody else's is paused only where the actor may write: `running` has the
    actor's roles. Raises `Conflict`, which does not name the project, for a timer that the actor or its token may not
    stop.
    """
    if not _reaches(write.actor, running):
        message = "The user's other timer runs where this token does not reach; pause it first."
        raise Conflict(message, code="timer_elsewhere")
    if not all(each.user.id == write.actor.user.id or each.repository.role in ("write", "admin") for each in running):
        message = "The user has another timer running, which you cannot pause; the user has to pause it first."
        raise Conflict(message, code="timer_elsewhere")
    still = [changed(each, rules.paused(each.times, write.now), write.now) for each in running]
    if still:
        await queries.update_timesheets(write.tx, still)
    for each in still:
        await tell(write, each, "paused")


def new_timesheet(access: Access, task: TimesheetTaskShape, times: rules.Times, now: int) -> Timesheet:
    """The caller's own, without notes, not billable."""
    return Timesheet(
        id=new_id("tms"),
        repository=access.repository,
        task=task,
        user=person_shape(access.user),
        times=times,
        notes=None,
        billable=False,
        billable_rate_minor=None,
        invoice_id=None,
        created_at=now,
        updated_at=now,
    )
