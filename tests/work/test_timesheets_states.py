"""Timers: running, paused and finished, with one running per user."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest

from tests.harness.world import must
from tests.work.studio import Caller, JsonObject, Studio
from tests.work.timesheets_kit import HOUR, Desk, archive, make_project, make_task, run_since
from workhook.core.clock import now_ms
from workhook.http.calls import Services
from workhook.identity import queries
from workhook.identity.actions import set_collaborator
from workhook.identity.context import Write
from workhook.identity.tokens.lookup import find_actor
from workhook.work.kernel.access import Access, find_access
from workhook.work.time.timesheets import timers


def _state(timesheet: JsonObject) -> tuple[bool, bool]:
    return timesheet["is_active"], timesheet["finished"]


def _timesheet_events(studio: Studio) -> list[tuple[str | None, str]]:
    return [(each.action, each.record["id"]) for each in studio.happened() if each.name == "timesheet"]


def test_a_timer_can_be_paused_resumed_and_finished(studio: Studio, desk: Desk, task_id: str) -> None:
    timer, before = desk.new(task_id), now_ms()
    run_since(studio, timer["id"], HOUR)
    studio.happened()
    paused = desk.turn(timer, "pause")
    assert (_state(paused), paused["end_time"]) == ((False, False), None)
    assert HOUR <= paused["duration"] <= HOUR + now_ms() - before
    assert desk.get(timer) == paused, "its time stands"
    resumed = desk.turn(timer, "resume")
    assert _state(resumed) == (True, False)
    assert resumed["duration"] >= paused["duration"]
    finished = desk.turn(timer, "finish")
    assert _state(finished) == (False, True)
    assert finished["duration"] >= resumed["duration"]
    assert finished["end_time"] is not None
    assert timer["updated_at"] < paused["updated_at"] < resumed["updated_at"] < finished["updated_at"]
    events = [each for each in studio.happened() if each.name == "timesheet"]
    assert [(each.action, each.record, each.changes) for each in events] == [
        ("paused", paused, {}),
        ("resumed", resumed, {}),
        ("finished", finished, {}),
    ]


def test_repeating_a_transition_changes_nothing(studio: Studio, desk: Desk, task_id: str) -> None:
    timer = desk.new(task_id)
    for how, state in (("resume", (True, False)), ("pause", (False, False)), ("finish", (False, True))):
        first = desk.turn(timer, how)
        studio.happened()
        again = desk.turn(timer, how)
        assert _state(again) == state
        assert again["updated_at"] == first["updated_at"]
        assert _timesheet_events(studio) == []


def test_a_paused_timer_can_be_finished(desk: Desk, task_id: str) -> None:
    timer = desk.new(task_id)
    paused = desk.turn(timer, "pause")
    finished = desk.turn(timer, "finish")
    assert (_state(finished), finished["duration"]) == ((False, True), paused["duration"])


def test_starting_a_timer_pauses_the_users_other_one_in_any_project(studio: Studio, desk: Desk, task_id: str) -> None:
    other = make_project(studio)
    first = desk.new(task_id)
    theirs = Desk(studio, studio.member).new(task_id)
    studio.happened()
    second = Desk(studio, studio.owner, other).new(make_task(studio, project_id=other))
    assert second["project"]["id"] == other
    paused, started = (each for each in studio.happened() if each.name == "timesheet")
    assert (paused.action, paused.record) == ("paused", desk.get(first))
    assert paused.payload["repository"]["project_id"] == studio.project_id
    assert (started.action, started.record["id"]) == ("started", second["id"])
    assert started.payload["repository"]["project_id"] == other
    assert _state(desk.get(theirs)) == (True, False)
    desk.turn(first, "resume")
    assert _timesheet_events(studio) == [("paused", second["id"]), ("resumed", first["id"])]
    desk.new(task_id, duration=HOUR)  # finished timesheets pause nothing
    assert _state(desk.get(first)) == (True, False)


def test_a_timer_in_a_deleted_project_does_not_prevent_starting_another(
    studio: Studio, desk: Desk, task_id: str
) -> None:
    gone = make_project(studio)
    Desk(studio, studio.owner, gone).new(make_task(studio, project_id=gone))
    studio.owner.delete(f"/projects/{gone}")
    studio.happened()
    timer = desk.new(task_id)
    assert _timesheet_events(studio) == [("started", timer["id"])]


def test_starting_a_timer_pauses_one_in_an_archived_project(studio: Studio, desk: Desk, task_id: str) -> None:
    old = make_project(studio)
    there = Desk(studio, studio.owner, old).new(make_task(studio, project_id=old))
    archive(studio, old)
    assert desk.caller.refused(409, "POST", f"/timesheets/{there['id']}/pause")["code"] == "archived"
    timer = desk.new(task_id)
    assert _timesheet_events(studio)[-2:] == [("paused", there["id"]), ("started", timer["id"])]


def test_a_timer_of_another_user_can_be_resumed(studio: Studio, desk: Desk, task_id: str) -> None:
    theirs = Desk(studio, studio.member)
    first = theirs.new(task_id)
    second, mine = theirs.new(task_id), desk.new(task_id)
    studio.happened()
    desk.turn(first, "resume")
    assert _timesheet_events(studio) == [("paused", second["id"]), ("resumed", first["id"])]
    assert _state(desk.get(mine)) == (True, False)


def _timer_elsewhere(studio: Studio, **place: Any) -> tuple[Desk, JsonObject, JsonObject, Desk]:
    """Return a paused timer of the member in the studio's project, and one running in another organization.

    The owner of the studio has the role `place["role"]` in the other project, or none.
    """
    there = Studio(studio.server, studio.server.world())
    me, member = (each.login for each in (studio.owner, studio.member))

    async def add(services: Services) -> None:
        async with services.database.transaction() as tx:
            repository = must(await queries.find_repository(tx, there.world.organization, there.world.repository))
            worker, boss = [await queries.find_account(tx, each) for each in (member, me)]
            assert worker is not None
            assert boss is not None
            await set_collaborator(tx, repository, worker, "write")
            if place:
                await set_collaborator(tx, repository, boss, place["role"])

    studio.server.run(add)
    theirs = Desk(studio, studio.member)
    paused = theirs.turn(theirs.new(make_task(studio)), "pause")
    elsewhere = Desk(studio, studio.member, there.project_id)
    running = elsewhere.new(make_task(studio, project_id=there.project_id))
    studio.happened()
    there.close()
    return elsewhere, paused, running, theirs


@pytest.mark.parametrize("place", [{}, {"role": "read"}], ids=["hidden", "read"])
def test_resuming_for_another_user_cannot_pause_a_timer_without_permission(
    studio: Studio, desk: Desk, place: JsonObject
) -> None:
    elsewhere, paused, running, theirs = _timer_elsewhere(studio, **place)
    refused = desk.caller.refused(409, "POST", f"/timesheets/{paused['id']}/resume")
    assert refused["code"] == "timer_elsewhere"
    told = str(refused)
    assert running["project"]["id"] not in told
    assert running["project"]["title"] not in told
    assert _state(elsewhere.get(running)) == (True, False)
    assert theirs.get(paused) == paused
    assert _timesheet_events(studio) == []
    theirs.turn(paused, "resume")  # its own user may pause the other timer
    assert _state(elsewhere.get(running)) == (False, False)


def test_resuming_for_another_user_pauses_a_timer_if_permitted(studio: Studio, desk: Desk) -> None:
    elsewhere, paused, running, _ = _timer_elsewhere(studio, role="write")
    assert _state(desk.turn(paused, "resume")) == (True, False)
    assert _state(elsewhere.get(running)) == (False, False)


# --- concurrency -------------------------------------------------------------------------------------------------


def _run_concurrently(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    with ThreadPoolExecutor(len(calls)) as pool:
        return [each.result() for each in [pool.submit(call) for call in calls]]


def _running(desk: Desk) -> list[str]:
    return desk.all(is_active="true")


def test_concurrent_starts_leave_one_running(studio: Studio, desk: Desk, task_id: str) -> None:
    for _ in range(3):
        answers = _run_concurrently([lambda: desk.new(task_id)] * 6)
        made = {each["id"] for each in answers}
        assert len(made) == 6
        (running,) = _running(desk)
        told = _timesheet_events(studio)
        assert {each for action, each in told if action == "started"} == made
        assert len([each for action, each in told if action == "paused"]) in (5, 6)
        assert running in made
        assert told[-1] == ("started", running)


def test_concurrent_resumes_leave_one_running(studio: Studio, desk: Desk, task_id: str) -> None:
    made = [desk.new(task_id) for _ in range(6)]
    studio.happened()
    answers = _run_concurrently([lambda each=each: desk.turn(each, "resume") for each in made])  # type: ignore[misc]  # mypy types no such lambda
    assert len(answers) == 6
    (running,) = _running(desk)
    told = _timesheet_events(studio)
    assert told[-1] == ("resumed", running) or not told
    for each in made:
        turns = [action for action, timesheet_id in told if timesheet_id == each["id"]]
        assert all(one != two for one, two in pairwise(turns)), "paused and resumed alternate"


def test_concurrent_pauses_and_resumes_alternate(studio: Studio, desk: Desk, task_id: str) -> None:
    timer = desk.new(task_id)
    studio.happened()
    hows = ["pause", "resume", "pause", "resume", "pause", "resume"]
    _run_concurrently([lambda how=how: desk.turn(timer, how) for how in hows])  # type: ignore[misc]  # mypy types no such lambda
    turns = [action for action, _ in _timesheet_events(studio)]
    assert all(one != two for one, two in pairwise(["resumed", *turns]))
    assert _state(desk.get(timer)) == ((turns or ["resumed"])[-1] == "resumed", False)


def test_concurrent_finishes_take_effect_once(studio: Studio, desk: Desk, task_id: str) -> None:
    timer = desk.new(task_id)
    studio.happened()
    answers = _run_concurrently([lambda: desk.turn(timer, "finish")] * 6)
    assert all(each == answers[0] for each in answers)
    assert _timesheet_events(studio) == [("finished", timer["id"])]


async def _access(services: Services, studio: Studio, caller: Caller) -> Access:
    actor = must(await find_actor(services.database, must(caller.token)))
    return await find_access(services.database, actor, studio.project_id)


def test_concurrent_moves_neither_deadlock_nor_leave_two_running(studio: Studio, desk: Desk) -> None:
    """Cards enter a column that both finishes and starts timers, in varying order."""
    tasks = [make_task(studio) for _ in range(4)]
    callers = [studio.owner, studio.member, studio.add(member="member")]
    for caller, task in zip(callers, tasks, strict=False):
        Desk(studio, caller).new(task)

    async def move(services: Services, access: Access, number: int) -> None:
        async with services.database.transaction() as tx:
            moved = [tasks[number % 4], tasks[(number * 3 + 1) % 4]]
            write = Write(tx, access.actor, "http://workhook.invalid", moment=now_ms())
            await timers.finish_running(write, access, moved)
            await timers.start_for(write, access, moved[0])

    async def race(services: Services) -> None:
        places = [await _access(services, studio, caller) for caller in callers]
        await asyncio.gather(*(move(services, places[number % 3], number) for number in range(36)))

    studio.server.run(race)
    running = desk.caller.get(desk.path, params={"is_active": "true"})["timesheets"]
    users = [each["user"]["id"] for each in running]
    assert len(users) == len(set(users))
