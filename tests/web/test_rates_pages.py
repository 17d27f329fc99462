"""Hourly rates, rounding and budgets: where they are set, and where they are displayed."""

from __future__ import annotations

import pytest

from tests.web.studio import Studio, page_of, text_of

pytestmark = pytest.mark.one_database

HOUR = 3_600_000


@pytest.fixture
def organization(studio: Studio) -> str:
    return studio.base.split("/")[1]


def member(studio: Studio) -> str:
    return str(studio.team.everybody["member"].login)


def spend(studio: Studio, hours: float) -> str:
    task = studio.add_task(studio.add_column("To do"), "Draw")
    body = {"task_id": task, "duration": int(hours * HOUR)}
    return str(studio.call("POST", f"{studio.project}/timesheets", **body)["timesheet"]["id"])


def test_an_organization_sets_rates_and_rounding(studio: Studio, organization: str) -> None:
    path, login = f"/{organization}/settings/billing", member(studio)
    fields = {"hourly_rate": "90.00", "billable": "true", "round_minutes": "15", "round_mode": "nearest"}
    answer = studio.owner.fill(path, path, **fields, **{f"rate-{login}": "75.50"})
    assert answer.status_code == 303, text_of(answer.text)
    billing = studio.call("GET", f"/organizations/{organization}/billing")["billing"]
    assert {name: billing[name] for name in fields} == {
        "hourly_rate": 90, "billable": True, "round_minutes": 15, "round_mode": "nearest",
    }  # fmt: skip
    assert studio.call("GET", f"/organizations/{organization}/members/{login}")["member"]["hourly_rate"] == 75.5
    page = page_of(studio.owner, path)
    assert f'name="rate-{login}" value="75.50"' in page
    refused = studio.owner.fill(path, path, **{f"rate-{login}": "much", "hourly_rate": "-1"})
    assert refused.status_code == 422
    assert "“much” is not an amount" in text_of(refused.text)
    assert studio.call("GET", f"/organizations/{organization}/members/{login}")["member"]["hourly_rate"] == 75.5


def test_a_project_overrides_rates_and_sets_a_budget(studio: Studio) -> None:
    path, login = f"{studio.base}/settings/billing", member(studio)
    answer = studio.owner.fill(
        path, path, hourly_rate="80", billable="true", round_minutes="0", budget_hours="13", **{f"rate-{login}": "60"}
    )
    assert answer.status_code == 303, text_of(answer.text)
    billing = studio.call("GET", f"{studio.project}/billing")["billing"]
    assert (billing["hourly_rate"], billing["billable"], billing["round_minutes"]) == (80, True, 0)
    assert billing["rates"] == [{"username": login, "hourly_rate": 60}]
    assert billing["budget"] == {"hours": 13, "amount": None}
    for typed, hours in (("1:30", 1.5), ("90m", 1.5), ("1,250", 1250), ("13", 13)):
        assert studio.owner.fill(path, path, budget_hours=typed).status_code == 303
        assert studio.call("GET", f"{studio.project}/billing")["billing"]["budget"]["hours"] == hours
    both = studio.owner.fill(path, path, budget_amount="100")
    assert (both.status_code, "either hours or an amount, not both" in text_of(both.text)) == (422, True)
    refused = studio.owner.fill(path, path, **{f"rate-{login}": "much"})
    assert (refused.status_code, f'id="rate-{login}-fault"' in refused.text) == (422, True)
    assert studio.owner.fill(path, path, budget_hours="", **{f"rate-{login}": ""}).status_code == 303
    billing = studio.call("GET", f"{studio.project}/billing")["billing"]
    assert (billing["budget"], billing["rates"], billing["hourly_rate"]) == (None, [], 80)


def test_the_time_page_shows_the_budget_and_the_applicable_rate(studio: Studio) -> None:
    path = f"{studio.base}/time"
    spend(studio, 1)
    assert "<meter" not in page_of(studio.owner, path)
    studio.call("PATCH", f"{studio.project}/billing", budget={"hours": 13}, hourly_rate=80, billable=True)
    entry = spend(studio, 11.5)
    page = page_of(studio.member, path)
    assert "11:30 of 13:00 hours used (88%) Almost used up" in text_of(page)
    assert "Defaults to this project’s rate, 80.00 USD per hour." in text_of(page)
    assert "this project’s rate, 80.00 USD per hour." in text_of(page_of(studio.owner, f"{path}/{entry}"))
    studio.call("PATCH", f"{studio.project}/billing", budget={"amount": 920})
    assert "920.00 of 920.00 used (100%) Used up" in text_of(page_of(studio.member, path))


def test_a_saved_entry_keeps_its_rate(studio: Studio) -> None:
    studio.call("PATCH", f"{studio.project}/billing", hourly_rate=80, billable=True)
    entry = spend(studio, 1)
    studio.call("PATCH", f"{studio.project}/billing", hourly_rate=90)
    path = f"{studio.base}/time/{entry}"
    assert studio.owner.fill(path, f"{path}/edit", notes="Sketches").status_code == 303
    record = studio.call("GET", f"/timesheets/{entry}")["timesheet"]
    assert (record["notes"], record["hourly_rate"], record["rate_source"]) == ("Sketches", "80.00", "project")
    assert studio.owner.fill(path, f"{path}/edit", billable_rate="75").status_code == 303
    assert studio.call("GET", f"/timesheets/{entry}")["timesheet"]["rate_source"] == "timesheet"


def test_a_restored_entry_keeps_its_rate(studio: Studio) -> None:
    studio.call("PATCH", f"{studio.project}/billing", hourly_rate=80)
    path = f"{studio.base}/time"
    entry = spend(studio, 1)
    studio.call("PATCH", f"{studio.project}/billing", hourly_rate=90)
    assert studio.owner.fill(f"{path}/{entry}", f"{path}/{entry}/delete").status_code == 303
    assert studio.owner.fill(path, f"{path}/restore").status_code == 303
    [again] = studio.call("GET", f"{studio.project}/timesheets")["timesheets"]
    assert (again["hourly_rate"], again["duration"]) == ("80.00", HOUR)
