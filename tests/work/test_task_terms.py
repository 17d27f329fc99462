"""Billing fields of a task: hourly rate, billable default and estimate, and who can see them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.work.scene import Scene
from tests.work.studio import Caller, JsonObject, Studio
from tests.work.test_rates import HOUR, MINUTE, Rates, whose

TERMS: JsonObject = {"hourly_rate": "95.50", "billable": True, "estimate": 5 * HOUR}
UNSEEN: JsonObject = dict.fromkeys(TERMS)


@pytest.fixture
def rates(studio: Studio, scene: Scene) -> Rates:
    return Rates(studio, scene)


def terms(task: JsonObject) -> JsonObject:
    return {name: task[name] for name in TERMS}


def on_task(rates: Rates, **body: Any) -> JsonObject:
    task: JsonObject = rates.owner.patch(f"/tasks/{rates.task}", json=body)["task"]
    return task


# --- rates ------------------------------------------------------------------------------------------------------------


def test_the_rate_of_a_task_overrides_all_but_that_of_the_time_entry(rates: Rates) -> None:
    rates.of_organization(hourly_rate=50)
    rates.of_project(hourly_rate=70, rates=[{"username": rates.login, "hourly_rate": 80}])
    assert whose(rates.spend()) == (None, "80.00", "project_member")
    assert on_task(rates, hourly_rate=95.5)["hourly_rate"] == "95.50"
    assert whose(rates.spend()) == (None, "95.50", "task")
    assert whose(rates.spend(billable_rate=0)) == (0, "0.00", "timesheet")
    assert on_task(rates, hourly_rate="0")["hourly_rate"] == "0.00"
    assert whose(rates.spend()) == (None, "0.00", "task")
    assert on_task(rates, hourly_rate=None)["hourly_rate"] is None
    assert whose(rates.spend()) == (None, "80.00", "project_member")


def test_the_rate_of_a_task_is_fixed_when_its_time_is_finished(rates: Rates) -> None:
    on_task(rates, hourly_rate=50)
    record, running = rates.spend(), rates.spend(duration=None)
    assert whose(running) == (None, "50.00", "task")
    on_task(rates, hourly_rate=90)
    assert whose(rates.now(record)) == (None, "50.00", "task")
    finished = rates.owner.post(f"/timesheets/{running['id']}/finish")["timesheet"]
    assert whose(finished) == (None, "90.00", "task")
    again = rates.owner.patch(f"/timesheets/{record['id']}", json={"billable_rate": 10})["timesheet"]
    assert whose(again) == (10, "10.00", "timesheet")
    again = rates.owner.patch(f"/timesheets/{record['id']}", json={"billable_rate": None})["timesheet"]
    assert whose(again) == (None, "90.00", "task")


def test_time_moved_while_finishing_has_the_rate_of_its_new_task(rates: Rates) -> None:
    on_task(rates, hourly_rate=50)
    other = rates.studio.task(hourly_rate=60)
    without = rates.studio.task()
    rates.of_project(hourly_rate=70)
    for task_id, expected in ((other, (None, "60.00", "task")), (without, (None, "70.00", "project"))):
        running = rates.spend(duration=None)
        edit = {"task_id": task_id, "duration": HOUR}
        assert whose(rates.owner.patch(f"/timesheets/{running['id']}", json=edit)["timesheet"]) == expected


def test_a_timer_started_by_a_card_has_the_rate_of_the_card(rates: Rates) -> None:
    on_task(rates, hourly_rate=50, billable=True)
    column = rates.studio.column(start_timer=True)
    rates.studio.member.patch(f"/tasks/{rates.task}", json={"column_id": column})
    [timer] = rates.owner.get(f"{rates.studio.project}/timesheets", params={"is_active": "true"})["timesheets"]
    assert whose(timer) == (None, "50.00", "task")
    assert timer["billable"] is True


def test_the_default_of_billable_follows_the_task(rates: Rates) -> None:
    on_task(rates, billable=True)
    assert rates.spend()["billable"] is True
    assert rates.spend(billable=False)["billable"] is False
    rates.of_project(billable=True)
    on_task(rates, billable=False)
    assert rates.spend()["billable"] is False
    on_task(rates, billable=None)
    assert rates.spend()["billable"] is True


def test_only_an_admin_can_set_the_rate_of_a_task(rates: Rates) -> None:
    member, path = rates.studio.member, f"/tasks/{rates.task}"
    on_task(rates, hourly_rate=50)
    answer = member.refused(403, "PATCH", path, json={"hourly_rate": 60})
    assert answer["code"] == "missing_role"
    assert "admin role" in answer["message"]
    member.refused(403, "PATCH", path, json={"hourly_rate": None})
    operation = {"action": "edit", "id": rates.task, "hourly_rate": 60}
    member.refused(403, "POST", "/tasks/bulk", json={"operations": [operation]})
    member.refused(403, "POST", f"/columns/{rates.studio.column()}/tasks", json={"title": "x", "hourly_rate": 1})
    # Sending back unchanged values is allowed.
    sent_back = member.patch(path, json={"hourly_rate": "50.00", "billable": False, "estimate": "1h"})["task"]
    assert terms(sent_back) == {"hourly_rate": "50.00", "billable": False, "estimate": HOUR}


# --- estimates --------------------------------------------------------------------------------------------------------


def test_an_estimate_is_a_duration(studio: Studio) -> None:
    """`tests/unit/test_durations.py` covers all formats."""
    forms = {90 * MINUTE: 90 * MINUTE, "5400000": 90 * MINUTE, "1h 30m": 90 * MINUTE, "1000h": 1000 * HOUR, 0: 0}
    for given, stored in (*forms.items(), (None, None)):
        made = studio.owner.new_task(column := studio.column(), estimate=given)
        assert made["estimate"] == stored
        assert studio.owner.get(f"/tasks/{made['id']}")["task"]["estimate"] == stored
        [listed] = studio.owner.get(f"/columns/{column}/tasks")["tasks"]
        assert listed["estimate"] == stored


def test_invalid_estimates_and_rates_are_refused(studio: Studio) -> None:
    path = f"/columns/{studio.column()}/tasks"
    for wrong in ("soon", -1, 1.5, True, "99999999h"):
        assert studio.owner.faults("POST", path, json={"title": "x", "estimate": wrong}) == {"estimate": "invalid"}
    for wrong in ("much", -1, True, 1_000_001):
        assert studio.owner.faults("POST", path, json={"title": "x", "hourly_rate": wrong}) == {
            "hourly_rate": "invalid"
        }
    decimals = {"hourly_rate": "too_many_decimals"}
    assert studio.owner.faults("POST", path, json={"title": "x", "hourly_rate": 1.555}) == decimals
    assert studio.owner.faults("POST", path, json={"title": "x", "billable": "yes"}) == {"billable": "invalid"}


def test_changing_the_billing_fields_is_an_event(studio: Studio) -> None:
    task_id = studio.task()
    studio.happened()
    body = {"hourly_rate": 95.5, "billable": True, "estimate": "5h"}
    after = studio.owner.patch(f"/tasks/{task_id}", json=body)["task"]
    [event] = studio.happened()
    assert terms(event.record) == terms(after) == TERMS
    assert event.changes == {name: {"from": None, "to": value} for name, value in TERMS.items()}
    assert studio.owner.patch(f"/tasks/{task_id}", json=body)["task"] == after
    assert studio.happened() == []


# --- clients ----------------------------------------------------------------------------------------------------------


def seen_by(client: Caller, studio: Studio, task: JsonObject) -> dict[str, JsonObject]:
    path, column = f"/tasks/{task['id']}", task["column"]["id"]
    edit = {"action": "edit", "id": task["id"], "title": "Bulk", **UNSEEN}
    answers = {
        "get": client.get(path)["task"],
        "column": client.get(f"/columns/{column}/tasks")["tasks"][0],
        "filtered": client.get(f"/columns/{column}/tasks", params={"finished": "false"})["tasks"][0],
        "project": client.get(f"{studio.project}/tasks")["tasks"][0],
        "across": client.get("/tasks")["tasks"][0],
        "edit": client.patch(path, json={"title": "New", **UNSEEN})["task"],
        "move": client.patch(path, json={"position": 0})["task"],
        "bulk": client.post("/tasks/bulk", json={"operations": [edit]})["tasks"][0],
    }
    client.delete(path)
    return {**answers, "restore": client.post(f"{path}/restore")["task"]}


def test_a_client_sees_neither_rates_nor_estimates(studio: Studio) -> None:
    task = studio.client.new_task(studio.column(), **UNSEEN)
    studio.owner.patch(f"/tasks/{task['id']}", json=TERMS)
    found = seen_by(studio.client, studio, task)
    assert {how: terms(each) for how, each in found.items()} == dict.fromkeys(found, UNSEEN)
    assert terms(studio.owner.get(f"/tasks/{task['id']}")["task"]) == TERMS, "null from a client clears nothing"
    assert terms(studio.owner.get("/tasks")["tasks"][0]) == TERMS


def test_a_client_cannot_set_rates_or_estimates(studio: Studio) -> None:
    column = studio.column()
    task = studio.client.new_task(column)
    for said in ({name: value} for name, value in TERMS.items()):
        for method, path, body in (
            ("PATCH", f"/tasks/{task['id']}", said),
            ("POST", f"/columns/{column}/tasks", {"title": "x", **said}),
            ("POST", "/tasks/bulk", {"operations": [{"action": "edit", "id": task["id"], **said}]}),
        ):
            assert studio.client.refused(403, method, path, json=body)["code"] == "missing_role"
    assert terms(studio.owner.get(f"/tasks/{task['id']}")["task"]) == UNSEEN
