"""Timers that start or finish because a card was moved, another timer was started, or a permission was lost.

A user has at most one running timer across all projects, which a unique index enforces. A token that cannot reach a
running timer cannot start another one.

A timer may run only while its user is not disabled and can write to the project. Removing that permission finishes the
timer and records its event in the same transaction. Starting a timer and removing a permission both lock the user's
account and check again once they have the lock, so a timer started at that moment is either rejected or finished.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from workhook.core.errors import Conflict
from workhook.core.ids import new_id
from workhook.identity.context import Write
from workhook.identity.queries import by_membership
from workhook.identity.removal import Loss
from workhook.identity.schemas import Actor, Repository
from workhook.identity.tables import (
    accounts,
    apps,
    collaborators,
    installation_repositories,
    installations,
    memberships,
    projects,
)
from workhook.identity.tokens.lookup import may_reach
from workhook.storage import Reader, Transaction
from workhook.storage.dialects import json_member
from workhook.storage.metadata import bigint_param
from workhook.work.kernel.access import Access
from workhook.work.kernel.people import person_to_response
from workhook.work.kernel.record_events import Changes, publish_event
from workhook.work.time.rates import TimeTerms, terms_of
from workhook.work.time.timesheets import queries, rules
from workhook.work.time.timesheets.budgets import publish_budget_events
from workhook.work.time.timesheets.queries import everywhere
from workhook.work.time.timesheets.schemas import (
    Timesheet,
    TimesheetTaskShape,
    changed,
    timesheet_to_response,
    timesheets,
)

_runner = accounts.alias("runner")


def _exists(*conditions: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    """Return an EXISTS condition, correlated with the project and timesheet of the outer statement."""
    return sa.exists().where(*conditions).correlate(projects, timesheets)


def _may_write(user_id: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    """Return the condition that the user can write to the project of the statement.

    It follows `identity.queries.repository_of`. An installed app can write wherever its tokens reach
    (`identity.tokens.lookup`).
    """
    enabled = _exists(_runner.c.id == user_id, _runner.c.disabled_at.is_(None))
    is_member = _exists(
        memberships.c.organization_id == projects.c.account_id,
        memberships.c.user_id == user_id,
        memberships.c.role != "app",
        by_membership,
    )
    is_collaborator = _exists(
        collaborators.c.repository_id == projects.c.repository_id,
        collaborators.c.user_id == user_id,
        sa.or_(collaborators.c.role == "write", collaborators.c.role == "admin"),
    )
    is_chosen = sa.exists().where(
        installation_repositories.c.installation_id == installations.c.id,
        installation_repositories.c.repository_id == projects.c.repository_id,
    )
    is_installed_app = _exists(
        apps.c.bot_id == user_id,
        installations.c.app_id == apps.c.id,
        installations.c.account_id == projects.c.account_id,
        installations.c.suspended_at.is_(None),
        json_member(installations.c.permissions, "work") == sa.literal("write", sa.Text),
        sa.or_(installations.c.repository_selection == "all", is_chosen.correlate(installations, projects)),
    )
    is_in_project = sa.or_(projects.c.account_id == user_id, is_member, is_collaborator, is_installed_app)
    return sa.and_(is_in_project, enabled)


_may_run = sa.select(projects.c.repository_id).where(
    projects.c.repository_id == bigint_param("repository_id"),
    projects.c.deleted_at.is_(None),
    projects.c.archive.is_(sa.false()),
    _may_write(bigint_param("runner_id")),
)

_accounts = sa.select(accounts.c.id).order_by(accounts.c.id).with_for_update(key_share=True)
_lock_one = _accounts.where(accounts.c.id == bigint_param("runner_id"))
_lock_all = _accounts.where(
    accounts.c.id.in_(
        sa.union(
            sa.select(memberships.c.user_id).where(memberships.c.organization_id == bigint_param("account_id")),
            sa.select(collaborators.c.user_id).where(collaborators.c.repository_id == bigint_param("repository_id")),
            sa.select(timesheets.c.user_id).where(
                timesheets.c.repository_id == bigint_param("repository_id"), sa.not_(timesheets.c.finished)
            ),
        )
    )
)

_running = everywhere.where(timesheets.c.is_active)
_in_project = everywhere.where(
    timesheets.c.repository_id == bigint_param("repository_id"), sa.not_(timesheets.c.finished)
)
_lost = _running.where(sa.not_(_may_write(timesheets.c.user_id)))
_lost_in_project = _lost.where(timesheets.c.repository_id == bigint_param("repository_id"))
_lost_in_account = _lost.where(projects.c.account_id == bigint_param("account_id"))
_lost_of_user = _lost_in_account.where(timesheets.c.user_id == bigint_param("runner_id"))
_lost_everywhere = _lost.where(timesheets.c.user_id == bigint_param("runner_id"))


class Settled(msgspec.Struct, frozen=True):
    """Timesheets with their fixed rates, and the terms of each by its ID."""

    timesheets: list[Timesheet]
    terms: dict[str, TimeTerms]

    async def tell(self, write: Write) -> None:
        """Publish the events of budgets. Call this after the timesheets are written and their events are published."""
        timesheets = [each for each in self.timesheets if not each.repository_gone]
        places = [each.repository for each in timesheets if self.terms.get(each.id, TimeTerms()).has_budget]
        await publish_budget_events(write, places)


async def settle(tx: Transaction, finished: Sequence[Timesheet]) -> Settled:
    """Fix the rates of timesheets that are being finished: their own, or the currently inherited ones."""
    rows = await tx.fetch_all(queries.terms_of_timesheets, {"ids": [each.id for each in finished]})
    terms = {row["id"]: terms_of(row) for row in rows}
    at_rates = [each.at_rate(each.own_rate_minor, terms.get(each.id, TimeTerms())) for each in finished]
    return Settled(at_rates, terms)


async def may_run(reader: Reader, user_id: int, repository_id: int) -> bool:
    """Return whether a timer of the user may run in the project. Call this after locking the user."""
    return await reader.fetch_one(_may_run, {"runner_id": user_id, "repository_id": repository_id}) is not None


async def publish(write: Write, timesheet: Timesheet, action: str, *, changes: Changes | None = None) -> None:
    """Publish the event in the timesheet's own project, unless the project was deleted."""
    if not timesheet.repository_gone:
        record = timesheet_to_response(timesheet, write.now)
        await publish_event(write, timesheet.repository, "timesheet", action, record, changes=changes)


async def finish_running(write: Write, access: Access, task_ids: Sequence[str]) -> None:
    """Finish the running timers of tasks that entered a done column, and publish a `finished` event for each.

    Paused timers stay paused. Nothing happens for clients. Call this before `start_for` if both are called.
    """
    if access.is_client:
        return
    running = await queries.lock_running_on(write.tx, task_ids, access.user.id) if task_ids else []
    await finish(write, running)


async def tasks_end(write: Write, task_ids: Sequence[str]) -> None:
    """Finish the running and paused timers of tasks that are being deleted."""
    await finish(write, await queries.lock_running_on(write.tx, task_ids, write.actor.user.id, and_paused=True))


async def finish(write: Write, running: Sequence[Timesheet]) -> None:
    """Finish timers, and publish a `finished` event for each. The permissions of the actor are not checked."""
    after = [changed(each, rules.finished(each.times, write.now), write.now) for each in running]
    if after:
        settled = await settle(write.tx, after)
        await _write_all(write, settled.timesheets, "finished")
        await settled.tell(write)


async def _write_all(write: Write, after: Sequence[Timesheet], action: str) -> None:
    await queries.update_timesheets(write.tx, after)
    for each in after:
        await publish(write, each, action)


async def start_for(write: Write, access: Access, task_id: str) -> None:
    """Start the caller's timer on the task, in the project of `access`, and pause the caller's other one.

    Nothing happens for clients, if the caller's timer already runs on the task, or if the token cannot reach the
    running timer.
    """
    if access.is_client:
        return
    task, terms = await queries.lock_user_for(write.tx, access.user, task_id)
    running = await queries.lock_running(write.tx, access.actor, access.user.id)
    if any(each.task and each.task.id == task_id for each in running) or not _reaches(access.actor, running):
        return
    if not await may_run(write.tx, access.user.id, access.repository.id):
        return  # the permission was lost while waiting for the user's lock
    await pause(write, running)
    timer = new_timesheet(access, task, terms, rules.started(write.now), write.now)
    await queries.insert_timesheet(write.tx, timer)
    await publish(write, timer, "started")


def _reaches(actor: Actor, running: Sequence[Timesheet]) -> bool:
    return all(may_reach(actor, ("work", "write"), each.repository.owner.id, each.repository.id) for each in running)


async def pause(write: Write, running: Sequence[Timesheet]) -> None:
    """Pause timers, and publish a `paused` event for each in its own project. `running` contains the actor's roles.

    A timer of another user is paused only where the actor can write. Raises `Conflict`, without naming the project, for
    a timer that the actor or the token may not stop.
    """
    if not _reaches(write.actor, running):
        message = "The user's other timer is running in a project that this token cannot access; pause it first."
        raise Conflict(message, code="timer_elsewhere")
    if not all(each.user.id == write.actor.user.id or each.repository.role in ("write", "admin") for each in running):
        message = "The user has another timer running, which you cannot pause; the user has to pause it first."
        raise Conflict(message, code="timer_elsewhere")
    if after := [changed(each, rules.paused(each.times, write.now), write.now) for each in running]:
        await _write_all(write, after, "paused")


def new_timesheet(
    access: Access, task: TimesheetTaskShape, terms: TimeTerms, times: rules.Times, now: int
) -> Timesheet:
    """Return a new timesheet for the caller, with the inherited terms and no notes."""
    return Timesheet(
        id=new_id("tms"),
        repository=access.repository,
        task=task,
        user=person_to_response(access.user),
        times=times,
        notes=None,
        billable=terms.billable,
        billable_rate_minor=None,
        rate_source=None,
        invoice_id=None,
        created_at=now,
        updated_at=now,
    ).at_rate(None, terms)


async def rights_lost(tx: Transaction, loss: Loss) -> None:
    """Finish the running timers of users who lost write access. This is an `identity.removal.OnLoss`.

    The accounts are locked first, then the timers. The loss of an app does not affect its user.
    """
    if loss.app_id is not None:
        return
    if loss.account_id is None and loss.user_id is None:
        raise ValueError("a loss is of a place, of an app or of a user")
    params = {"account_id": loss.account_id, "repository_id": loss.repository_id, "runner_id": loss.user_id}
    await tx.fetch_all(_lock_all if loss.user_id is None else _lock_one, params)
    if loss.account_id is None:
        statement = _lost_everywhere
    elif loss.user_id is not None:
        statement = _lost_of_user
    else:
        statement = _lost_in_account if loss.repository_id is None else _lost_in_project
    rows = await tx.fetch_all(statement, {**params, "user_id": 0})
    await finish(Write(tx, loss.actor, loss.base), queries.timesheets_of(rows, 0))


async def project_ends(write: Write, repository: Repository) -> None:
    """Finish the running and paused timers of a project that was just deleted or archived.

    The project is locked before the accounts, because both changes wait for transactions that add something to the
    project, and those may be about to start a timer.
    """
    place = {"account_id": repository.owner.id, "repository_id": repository.id}
    await write.tx.fetch_all(_lock_all, place)
    rows = await write.tx.fetch_all(_in_project, {**place, "user_id": 0})
    running = [replace(each, repository_gone=False) for each in queries.timesheets_of(rows, 0)]
    # They run until now, because deleting the project may have waited long for its locks.
    await finish(Write(write.tx, write.caller, write.base), running)
