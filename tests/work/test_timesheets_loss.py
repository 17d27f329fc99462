"""A timer ends when its user may no longer stop it. The user's timers elsewhere, and those of others, keep running."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.harness.concurrent_transactions import Beside
from tests.harness.world import World, make_world, must
from tests.work.rights_kit import (
    change_by_hand,
    disable,
    enable,
    make_member,
    make_reader,
    remove_collaborator,
    remove_member,
)
from tests.work.studio import Caller, JsonObject, Studio
from tests.work.timesheets_kit import Desk, make_task
from workhook.core.clock import now_ms
from workhook.core.errors import Forbidden, NotFound, Problem
from workhook.http.calls import Services
from workhook.identity import actions
from workhook.identity import actions as identity
from workhook.identity.context import Write
from workhook.identity.queries import find_account, find_repository
from workhook.identity.schemas import Account, Actor
from workhook.storage import Transaction
from workhook.work.board import columns
from workhook.work.board.columns import ColumnCreate
from workhook.work.board.projects import actions as projects_actions
from workhook.work.board.projects.schemas import ProjectEdit
from workhook.work.board.tasks import actions as tasks
from workhook.work.board.tasks.inputs import TaskCreate
from workhook.work.people import membership
from workhook.work.time.timesheets import actions as timesheets_actions
from workhook.work.time.timesheets.schemas import TimesheetCreate

BASE = "http://work.example.com"

Lose = Callable[[Studio, Caller], None]


def _make_private(studio: Studio, caller: Caller) -> None:
    studio.owner.patch(studio.project, json={"private": True})


def _lower_in_private(studio: Studio, caller: Caller) -> None:
    _make_private(studio, caller)
    make_member(studio, caller)


def _add_elsewhere(studio: Studio, caller: Caller) -> Studio:
    """Return a second organization where the caller can write to a project."""
    there = Studio(studio.server, studio.server.world())
    change_by_hand(
        there, caller, lambda tx, place, _, who: membership.set_member(Write(tx, None, BASE), place, who, "member")
    )
    return there


def _timesheet_events(studio: Studio) -> list[tuple[str | None, str, bool]]:
    """Return the action, the record ID and whether there is a sender, for each timesheet event."""
    found = [each for each in studio.happened() if each.name == "timesheet"]
    return [(each.action, each.record["id"], each.payload["sender"] is not None) for each in found]


LOSSES: dict[str, tuple[JsonObject, Lose, bool]] = {
    "member removed": ({"member": "member"}, remove_member, False),
    "member with a role in the project removed": ({"member": "member", "role": "write"}, remove_member, False),
    "owner removed": ({"member": "owner"}, remove_member, False),
    "owner lowered, in a private project": ({"member": "owner"}, _lower_in_private, False),
    "collaborator removed": ({"role": "admin"}, remove_collaborator, True),
    "collaborator lowered": ({"role": "write"}, make_reader, False),
    "project private": ({"member": "member"}, _make_private, True),
    "user disabled": ({"member": "member"}, disable, False),
    "project deleted": ({"member": "member"}, lambda studio, caller: studio.owner.delete(studio.project), True),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_timer_is_finished_when_its_user_may_no_longer_stop_it(studio: Studio, loss: str) -> None:
    place, lose, by_somebody = LOSSES[loss]
    caller = studio.add(**place)
    colleague = Desk(studio, studio.add(role="write"))
    task_id = make_task(studio)
    running, other = Desk(studio, caller).new(task_id), colleague.new(task_id)
    studio.hook("http://127.0.0.1:9/", "timesheet", active=False)
    studio.happened()
    lose(studio, caller)
    told = _timesheet_events(studio)
    if loss == "project deleted":
        assert sorted(told) == sorted([("finished", each["id"], True) for each in (running, other)])
        studio.owner.post(f"{studio.project}/restore")
        assert Desk(studio, studio.owner).all(is_active="true") == []
        return
    assert told == [("finished", running["id"], by_somebody)]
    finished = Desk(studio, studio.owner).get(running)
    assert (finished["is_active"], finished["finished"], finished["end_time"] is not None) == (False, True, True)
    assert colleague.get(other)["is_active"]


@pytest.mark.parametrize("loss", ["member removed", "project private", "collaborator removed"])
def test_timers_elsewhere_keep_running(studio: Studio, loss: str) -> None:
    place, lose, _ = LOSSES[loss]
    caller = studio.add(**place)
    there = _add_elsewhere(studio, caller)
    here = Desk(studio, caller)
    paused = here.turn(here.new(make_task(studio)), "pause")
    desk = Desk(there, caller)
    running = desk.new(make_task(there))
    there.happened()
    lose(studio, caller)
    assert desk.get(running)["is_active"]
    assert _timesheet_events(there) == []
    assert not Desk(studio, studio.owner).get(paused)["finished"], "a paused one counts nothing"
    there.close()


@pytest.mark.parametrize("where", ["another organization", "a project of their own"])
def test_a_timer_of_a_disabled_user_ends_wherever_it_runs(studio: Studio, where: str) -> None:
    caller = studio.add(member="member")
    there = _add_elsewhere(studio, caller)
    if where == "another organization":
        project, task_id = there.project, make_task(there)
    else:
        mine = caller.post("/projects", json={"title": "Mine", "organization": caller.login})["project"]["id"]
        project = f"/projects/{mine}"
        column = caller.post(f"{project}/columns", json={"title": "To do"})["column"]["id"]
        task_id = caller.post(f"/columns/{column}/tasks", json={"title": "Draw"})["task"]["id"]
    running = caller.post(f"{project}/timesheets", json={"task_id": task_id})["timesheet"]
    assert running["is_active"]
    login = caller.login
    disable(studio, caller)
    enable(studio, login)
    assert caller.get(f"/timesheets/{running['id']}")["timesheet"]["finished"]
    there.close()


def test_a_remaining_right_keeps_the_timer_running(studio: Studio) -> None:
    """Either the organization or the project can still grant what the other one revoked."""
    caller = studio.add(member="member", role="write")
    desk = Desk(studio, caller)
    running = desk.new(make_task(studio))
    remove_collaborator(studio, caller)
    assert desk.get(running)["is_active"]
    change_by_hand(
        studio,
        caller,
        lambda tx, _, here, who: membership.set_collaborator(Write(tx, None, BASE), here, who, "write"),
    )
    _make_private(studio, caller)
    assert desk.get(running)["is_active"]
    make_reader(studio, caller)
    assert desk.get(running)["finished"]


def test_the_timer_of_a_person_who_left_cannot_be_resumed(studio: Studio) -> None:
    caller = studio.add(member="member")
    here = Desk(studio, caller)
    paused = here.turn(here.new(make_task(studio)), "pause")
    remove_member(studio, caller)
    refused = studio.owner.refused(409, "POST", f"/timesheets/{paused['id']}/resume")
    assert refused["code"] == "not_in_project"
    assert not Desk(studio, studio.owner).get(paused)["is_active"]


# --- concurrency -----------------------------------------------------------------------------------------------------


class _Worker:
    """A member of an organization, with a task to work on."""

    def __init__(self, world: World, owner: Actor, actor: Actor, column_id: str, task_id: str) -> None:
        self.world, self.owner, self.actor, self.column_id, self.task_id = world, owner, actor, column_id, task_id

    @classmethod
    async def make(cls, services: Services) -> _Worker:
        world = await make_world(services)
        async with services.database.transaction() as tx:
            boss, place = must(await find_account(tx, world.owner)), must(await find_account(tx, world.organization))
            user = await identity.create_account(tx, "user", f"worker-{place.id}", name=None, email=None)
            await identity.set_member(tx, place, user, "member")
            owner = _actor(boss)
            made = ColumnCreate(title="To do", start_timer=True)
            column_id = (await columns.add_column(Write(tx, owner, BASE), world.project_id, made)).id
            task = await tasks.create_task(Write(tx, owner, BASE), column_id, TaskCreate(title="Draw"))
        return cls(world, owner, _actor(user), column_id, task.id)

    async def start(self, tx: Transaction) -> object:
        timer = TimesheetCreate(task_id=self.task_id)
        return await timesheets_actions.create_timesheet(
            Write(tx, self.actor, BASE, moment=now_ms()), self.world.project_id, timer
        )

    async def remove(self, tx: Transaction) -> object:
        place = must(await find_account(tx, self.world.organization))
        return await membership.remove_member(Write(tx, None, BASE), place, self.actor.user)

    async def disable(self, tx: Transaction) -> object:
        return await actions.disable(tx, self.actor.user, base=BASE)

    async def make_private(self, tx: Transaction) -> object:
        return await projects_actions.edit_project(
            Write(tx, self.owner, BASE), self.world.project_id, ProjectEdit(private=True)
        )

    async def lower(self, tx: Transaction) -> object:
        """Leave the member only with read access to the project."""
        repository = must(await find_repository(tx, self.world.organization, self.world.repository))
        await identity.set_collaborator(tx, repository, self.actor.user, "read")
        return await self.remove(tx)

    async def delete(self, tx: Transaction) -> object:
        await projects_actions.delete_project(Write(tx, self.owner, BASE), self.world.project_id)
        return None


def _actor(user: Account) -> Actor:
    return Actor(user, token_id=0, token_kind="classic", scopes=frozenset())


async def _running(services: Services) -> list[Any]:
    from workhook.work.time.timesheets.schemas import timesheets as table

    return list(await services.database.fetch_all(table.select().where(table.c.is_active)))


WAYS = ("remove", "disable", "make_private", "lower", "delete")


@pytest.mark.parametrize("way", WAYS)
async def test_a_timer_cannot_start_while_the_right_is_removed(services: Services, beside: Beside, way: str) -> None:
    """The removal is not yet committed when the timer starts."""
    worker = await _Worker.make(services)
    take: Callable[[Transaction], Awaitable[object]] = getattr(worker, way)
    async with services.database.transaction() as tx:
        await take(tx)
        starting = await beside.begin(worker.start)
    with pytest.raises(Problem) as refused:
        await starting
    assert isinstance(refused.value, NotFound | Forbidden)
    assert await _running(services) == []


@pytest.mark.parametrize("way", WAYS)
async def test_removing_a_right_finishes_a_timer_that_is_starting(services: Services, beside: Beside, way: str) -> None:
    """The start is not yet committed when the right is removed."""
    worker = await _Worker.make(services)
    async with services.database.transaction() as tx:
        await worker.start(tx)
        taking = await beside.begin(getattr(worker, way))
    await taking
    assert await _running(services) == []


async def test_creating_a_card_with_its_timer_during_a_project_deletion_does_not_deadlock(
    services: Services, beside: Beside
) -> None:
    """Bulk changes do the same: the card takes a shared lock of the project, then the timer locks its user."""
    worker = await _Worker.make(services)
    async with services.database.transaction() as tx:
        await tasks.create_task(Write(tx, worker.actor, BASE), worker.column_id, TaskCreate(title="Paint"))
        await tx.flush()
        deleting = await beside.begin(worker.delete)
        await worker.start(tx)
    await deleting
    assert await _running(services) == []
