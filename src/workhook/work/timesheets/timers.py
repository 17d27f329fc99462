"""Timers that start and finish because something else happened: a card that moves, another timer that starts, a right
that ends.

One timer of a user runs at a time, in whatever project; a unique index backs it. A token that is confined leaves alone
what runs where it does not reach, and so starts nothing beside it.

A timer ends with the right to stop it: it is finished, with its event, in the transaction that takes the right.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from workhook.core.errors import Conflict
from workhook.core.ids import new_id
from workhook.identity.context import Write
from workhook.identity.removal import Loss
from workhook.identity.schemas import Actor, Repository
from workhook.identity.tokens.reach import may_reach
from workhook.storage import Transaction
from workhook.work.access import Access
from workhook.work.people import person_shape
from workhook.work.record_events import Changes, publish_event
from workhook.work.timesheets import queries, rights, rules
from workhook.work.timesheets.schemas import Timesheet, TimesheetTaskShape, changed, timesheet_to_response


async def publish(write: Write, timesheet: Timesheet, action: str, *, changes: Changes | None = None) -> None:
    """The event, in the timesheet's own project. There is none for a project that was deleted."""
    if not timesheet.repository_gone:
        record = timesheet_to_response(timesheet, write.now)
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
        await publish(write, each, "finished")


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
    await publish(write, timer, "started")


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
        await publish(write, each, "paused")


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


async def rights_lost(tx: Transaction, loss: Loss) -> None:
    """An `identity.removal.OnLoss`. What an app may do less for its user takes nothing from the user."""
    if loss.app_id is not None:
        return
    if loss.account_id is not None:
        rows = await rights.lock_lost(tx, loss.account_id, loss.repository_id, loss.user_id)
    elif loss.user_id is not None:
        rows = await rights.lock_lost_everywhere(tx, loss.user_id)
    else:
        raise ValueError("a loss is of a place, of an app or of a user")
    running = queries.timesheets_of(rows, 0)
    await finish(Write(tx, loss.actor, loss.base), running)


async def project_ends(write: Write, repository: Repository) -> None:
    """Call it once the project is deleted, and before the event of that: its webhooks get those of its timers, too.

    Deleting waits for whoever adds something to the project, and they may be about to start a timer: so the project is
    locked before the accounts.
    """
    rows = await rights.lock_all_running(write.tx, repository.owner.id, repository.id)
    running = [replace(each, repository_gone=False) for each in queries.timesheets_of(rows, 0)]
    # They run until now: deleting the project may have waited long for its locks.
    await finish(Write(write.tx, write.caller, write.base), running)
