"""An app's timer ends when the app may no longer stop it.

This happens when the app loses its installation, the permission to work, or the repository.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.harness.apps import PERMISSIONS, Registered, install, make_app
from tests.harness.concurrent_transactions import Beside
from tests.harness.world import World, make_world, must
from tests.work.studio import Caller, Studio
from tests.work.timesheets_kit import Desk, make_task
from workhook.core.clock import now_ms
from workhook.core.errors import Forbidden, NotFound, Problem
from workhook.http.calls import Services
from workhook.identity.apps import actions, credentials, installer
from workhook.identity.apps.app_schemas import AppCreate
from workhook.identity.apps.schemas import BOT_SUFFIX, Installation
from workhook.identity.context import Write
from workhook.identity.queries import find_account
from workhook.identity.schemas import Actor, Grant
from workhook.storage import Transaction
from workhook.work.board import columns
from workhook.work.board.columns import ColumnCreate
from workhook.work.board.tasks import actions as tasks
from workhook.work.board.tasks.inputs import TaskCreate
from workhook.work.time.timesheets import actions as timesheets_actions
from workhook.work.time.timesheets.schemas import TimesheetCreate
from workhook.work.time.timesheets.schemas import timesheets as timesheet_rows

BASE = "http://work.example.com"

Weaken = Callable[[Studio, Registered], object]


def _of_installation(method: str, more: str = "", **body: Any) -> Weaken:
    def weaken(studio: Studio, app: Registered) -> None:
        path = f"{studio.world.org_path}/installations/{app.installation_id}{more}"
        answer = studio.owner.http.request(method, path, json=body or None)
        assert answer.is_success, answer.text

    return weaken


def _number(studio: Studio, name: str) -> int:
    return int(studio.owner.http.get(f"/repos/{studio.world.organization}/{name}").json()["id"])


def _take_repository(name: str | None = None) -> Weaken:
    """Remove a repository from the installation, by default that of the timer."""

    def take(studio: Studio, app: Registered) -> None:
        number = _number(studio, name or studio.world.repository)
        path = f"/user/installations/{app.installation_id}/repositories/{number}"
        assert studio.owner.http.delete(path).status_code == 204

    return take


def _ask_for(**permissions: str) -> Weaken:
    def ask(studio: Studio, app: Registered) -> None:
        answer = studio.owner.http.patch(f"{studio.world.org_path}/apps/{app.slug}", json={"permissions": permissions})
        assert answer.is_success, answer.text

    return ask


# Ways to restrict an app, and whether it may still stop the timer.
WEAKENED: dict[str, tuple[Weaken, bool]] = {
    "uninstalled": (_of_installation("DELETE"), False),
    "suspended": (_of_installation("PUT", "/suspended"), False),
    "repository taken": (_take_repository(), False),
    "other repositories chosen": (
        _of_installation("PATCH", repository_selection="selected", repositories=["other"]),
        False,
    ),
    "permission taken": (_of_installation("PATCH", permissions={"repository_hooks": "write"}), False),
    "permission lowered": (_of_installation("PATCH", permissions={"work": "read"}), False),
    "the app asks for less": (_ask_for(work="read"), False),
    "other permission taken": (_of_installation("PATCH", permissions={"work": "write"}), True),
    "other repository taken": (_take_repository("other"), True),
    "all repositories": (_of_installation("PATCH", repository_selection="all"), True),
    "the app asks for less of something else": (_ask_for(work="write"), True),
}


@pytest.mark.parametrize("how", WEAKENED)
def test_an_apps_timer_ends_when_its_installation_loses_access(studio: Studio, how: str) -> None:
    """The timer of another app keeps running."""
    weaken, is_left = WEAKENED[how]
    studio.owner.post("/projects", json={"title": "Other", "name": "other", "organization": studio.world.organization})
    chosen = [studio.world.repository, "other"]
    apps = [make_app(studio.server, studio.world, repositories=chosen) for _ in range(2)]
    task_id, timers = make_task(studio), []
    for app in apps:
        bot = Caller(studio.server, app.token(studio.server))
        timers.append(Desk(studio, bot).new(task_id))
        bot.http.close()
    studio.hook("http://127.0.0.1:9/", "timesheet", active=False)
    studio.happened()
    weaken(studio, apps[0])
    told = [(each.action, each.record["id"]) for each in studio.happened() if each.name == "timesheet"]
    assert told == ([] if is_left else [("finished", timers[0]["id"])])
    found = [Desk(studio, studio.owner).get(each) for each in timers]
    assert [each["is_active"] for each in found] == [is_left, True]
    assert found[0]["finished"] is not is_left


def test_an_apps_timer_in_another_organization_keeps_running(studio: Studio, elsewhere: Studio) -> None:
    app = make_app(studio.server, studio.world, public=True)
    here, app.installation_id = app.installation_id, install(studio.server, app, elsewhere.world)
    bot = Caller(studio.server, app.token(studio.server))
    running = Desk(elsewhere, bot).new(make_task(elsewhere))
    bot.http.close()
    elsewhere.happened()
    app.installation_id = here
    for how in ("permission taken", "suspended", "uninstalled"):
        WEAKENED[how][0](studio, app)
    assert elsewhere.happened() == []
    assert Desk(elsewhere, elsewhere.owner).get(running)["is_active"]


# --- concurrency -----------------------------------------------------------------------------------------------------


class _Robot:
    """An app installed on an organization, with a task to work on."""

    def __init__(self, world: World, installation: Installation, actor: Actor, task_id: str) -> None:
        self.world, self.installation, self.actor, self.task_id = world, installation, actor, task_id

    @classmethod
    async def make(cls, services: Services) -> _Robot:
        world = await make_world(services)
        async with services.database.transaction() as tx:
            boss, place = must(await find_account(tx, world.owner)), must(await find_account(tx, world.organization))
            app, _, _ = await actions.create_app(
                tx,
                None,
                place,
                AppCreate(name=f"Robot {place.id}", permissions=PERMISSIONS),
                key=await credentials.new_key(),
            )
            installation = await installer.install(tx, None, app, place)
            bot = must(await find_account(tx, f"{app.slug}{BOT_SUFFIX}"))
            owner = Actor(boss, token_id=0, token_kind="classic", scopes=frozenset())
            column = await columns.add_column(Write(tx, owner, BASE), world.project_id, ColumnCreate(title="To do"))
            task = await tasks.create_task(Write(tx, owner, BASE), column.id, TaskCreate(title="Draw"))
        reach = Grant(place.id, PERMISSIONS)
        actor = Actor(
            bot,
            token_id=0,
            token_kind="installation",
            scopes=frozenset(),
            installation_id=installation.id,
            grants=(reach,),
            need=("work", "write"),
        )
        return cls(world, installation, actor, task.id)

    async def start(self, tx: Transaction) -> object:
        """Start a timer with the permissions the token had when it was cached."""
        timer = TimesheetCreate(task_id=self.task_id)
        return await timesheets_actions.create_timesheet(
            Write(tx, self.actor, BASE, moment=now_ms()), self.world.project_id, timer
        )

    async def lower(self, tx: Transaction) -> object:
        return await installer.edit_installation(tx, None, self.installation, permissions={"work": "read"})

    async def running(self, services: Services) -> int:
        return len(await services.database.fetch_all(timesheet_rows.select().where(timesheet_rows.c.is_active)))


async def test_an_apps_timer_cannot_start_while_its_permission_is_removed(services: Services, beside: Beside) -> None:
    """The removal is not yet committed when the timer starts."""
    robot = await _Robot.make(services)
    async with services.database.transaction() as tx:
        await robot.lower(tx)
        starting = await beside.begin(robot.start)
    with pytest.raises(Problem) as refused:
        await starting
    assert isinstance(refused.value, NotFound | Forbidden)
    assert await robot.running(services) == 0


async def test_removing_a_permission_finishes_an_apps_timer_that_is_starting(
    services: Services, beside: Beside
) -> None:
    """The start is not yet committed when the permission is removed."""
    robot = await _Robot.make(services)
    async with services.database.transaction() as tx:
        await robot.start(tx)
        taking = await beside.begin(robot.lower)
    await taking
    assert await robot.running(services) == 0
