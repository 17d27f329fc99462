"""Project budgets: used, billed and remaining amounts, and threshold events."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.work.scene import Scene
from tests.work.studio import Studio
from workhook.http.calls import Services
from workhook.work.time.timesheets.sums import add_changes

HOUR = 3_600_000


@pytest.fixture
def task(scene: Scene) -> str:
    return scene.task()


def budget(studio: Studio) -> Any:
    return {name: value for name, value in studio.owner.get(f"{studio.project}/budget").items() if name != "success"}


def set_budget(studio: Studio, wanted: dict[str, float] | None, **more: Any) -> None:
    studio.owner.patch(f"{studio.project}/billing", json={"budget": wanted, **more})


def spend(studio: Studio, task: str, hours: float, **more: Any) -> Any:
    body = {"task_id": task, "duration": int(hours * HOUR), "billable": True, "billable_rate": 100, **more}
    return studio.owner.post(f"{studio.project}/timesheets", json=body)["timesheet"]


def reached(studio: Studio) -> list[int]:
    happened = [each for each in studio.happened() if each.action == "budget_reached"]
    assert all(each.record["id"] == studio.project_id for each in happened)
    return [each.payload["budget"]["percent"] for each in happened]


def test_without_a_budget_the_used_hours_are_shown(studio: Studio, task: str) -> None:
    spend(studio, task, 1.5)
    assert budget(studio) == {"budget": None, "used": 1.5, "billed": 0, "left": None, "percent": None}


@pytest.mark.parametrize("summed", [False, True])
def test_used_billed_and_remaining_amounts(studio: Studio, task: str, summed: bool) -> None:
    set_budget(studio, {"amount": 1000})
    billed, drafted = spend(studio, task, 2), spend(studio, task, 1.25, billable_rate=80)
    spend(studio, task, 1, billable=False)
    paused = studio.owner.post(f"{studio.project}/timesheets", json={"task_id": task, "billable": True})["timesheet"]
    studio.owner.post(f"/timesheets/{paused['id']}/pause")
    for each in (billed, drafted):
        made = studio.owner.post(f"{studio.project}/invoices", json={"timesheet_ids": [each["id"]]})["invoice"]
        if each is billed:
            studio.owner.post(f"/invoices/{made['id']}/send")
    if summed:

        async def sum_up(services: Services) -> None:
            await add_changes(services, 0)

        studio.server.run(sum_up)
    expected = {"budget": {"hours": None, "amount": 1000}, "used": 300, "billed": 200, "left": 700, "percent": 30}
    assert budget(studio) == expected
    set_budget(studio, {"hours": 13})
    assert budget(studio) == {
        "budget": {"hours": 13, "amount": None}, "used": 3.25, "billed": 2, "left": 9.75, "percent": 25,
    }  # fmt: skip


def test_each_threshold_is_reported_once(studio: Studio, task: str) -> None:
    set_budget(studio, {"hours": 10})
    spend(studio, task, 7.9)
    assert reached(studio) == []
    running = studio.owner.post(f"{studio.project}/timesheets", json={"task_id": task, "billable": True})["timesheet"]
    studio.owner.patch(f"/timesheets/{running['id']}", json={"duration": HOUR // 10})
    assert reached(studio) == [80]
    more = spend(studio, task, 1)
    assert reached(studio) == []
    studio.owner.delete(f"/timesheets/{more['id']}")
    spend(studio, task, 1)
    assert reached(studio) == []
    grown = spend(studio, task, 0.5)
    studio.owner.patch(f"/timesheets/{grown['id']}", json={"duration": HOUR})
    assert reached(studio) == [100]
    spend(studio, task, 5)
    assert reached(studio) == []
    assert (budget(studio)["left"], budget(studio)["percent"]) == (-5, 150)


def test_a_jump_reports_both_thresholds_and_a_new_budget_starts_over(studio: Studio, task: str) -> None:
    set_budget(studio, {"amount": 100})
    spend(studio, task, 1)
    assert reached(studio) == [80, 100]
    set_budget(studio, {"amount": 120})
    spend(studio, task, 0.1)
    assert reached(studio) == []  # setting the budget already passed 80 percent: 100 of 120
    spend(studio, task, 0.1)
    assert reached(studio) == [100]
    set_budget(studio, None)
    spend(studio, task, 10)
    assert reached(studio) == []


def test_concurrent_time_entries_report_each_threshold_once(studio: Studio, task: str) -> None:
    set_budget(studio, {"hours": 10})
    with ThreadPoolExecutor(10) as pool:
        list(pool.map(lambda _: spend(studio, task, 1), range(12)))
    assert reached(studio) == [80, 100]
    assert budget(studio)["used"] == 12


def test_a_budget_has_either_hours_or_an_amount(studio: Studio) -> None:
    for wanted in ({}, {"hours": 1, "amount": 1}, {"hours": 0}, {"amount": -1}, {"hours": 0.001}):
        refused = studio.owner.refused(422, "PATCH", f"{studio.project}/billing", json={"budget": wanted})
        assert refused["errors"][0]["field"].startswith("budget"), wanted
