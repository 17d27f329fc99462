"""Hourly rates: which one applies, when it is fixed, and how invoices use it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.work.scene import Scene
from tests.work.studio import Caller, Studio

HOUR = 3_600_000
MINUTE = 60_000


class Rates:
    """Sets hourly rates as an owner and records time as the member."""

    def __init__(self, studio: Studio, scene: Scene) -> None:
        self.studio, self.owner = studio, studio.owner
        self.task = scene.task()
        self.login = studio.member.get("/me")["user"]["username"]
        self.organization = f"/organizations/{studio.world.organization}"

    def of_organization(self, **settings: Any) -> None:
        self.owner.patch(f"{self.organization}/billing", json=settings)

    def of_project(self, **settings: Any) -> None:
        self.owner.patch(f"{self.studio.project}/billing", json=settings)

    def of_member(self, rate: float | None) -> Any:
        path = f"{self.organization}/members/{self.login}"
        return self.owner.patch(path, json={"hourly_rate": rate})["member"]

    def spend(self, caller: Caller | None = None, **body: Any) -> Any:
        given = {"task_id": self.task, "duration": HOUR, **body}
        given = {name: value for name, value in given.items() if name != "duration" or value is not None}
        return (caller or self.studio.member).post(f"{self.studio.project}/timesheets", json=given)["timesheet"]

    def now(self, record: Any) -> Any:
        return self.owner.get(f"/timesheets/{record['id']}")["timesheet"]


@pytest.fixture
def rates(studio: Studio, scene: Scene) -> Rates:
    return Rates(studio, scene)


def whose(record: Any) -> tuple[Any, Any, Any]:
    return record["billable_rate"], record["hourly_rate"], record["rate_source"]


# --- precedence -------------------------------------------------------------------------------------------------------


def test_the_most_specific_rate_applies(rates: Rates) -> None:
    assert whose(rates.spend()) == (None, None, "none")
    rates.of_organization(hourly_rate=50)
    assert whose(rates.spend()) == (None, "50.00", "organization")
    assert rates.of_member(60)["hourly_rate"] == 60
    assert whose(rates.spend()) == (None, "60.00", "member")
    rates.of_project(hourly_rate=70)
    assert whose(rates.spend()) == (None, "70.00", "project")
    rates.of_project(rates=[{"username": rates.login.upper(), "hourly_rate": 80.5}])
    assert whose(rates.spend()) == (None, "80.50", "project_member")
    assert whose(rates.spend(rates.owner)) == (None, "70.00", "project")
    assert whose(rates.spend(billable_rate=0)) == (0, "0.00", "timesheet")
    rates.of_project(rates=None, hourly_rate=None)
    assert rates.of_member(None)["hourly_rate"] is None
    assert whose(rates.spend()) == (None, "50.00", "organization")


def test_rates_of_an_organization_are_in_its_currency(rates: Rates) -> None:
    rates.of_organization(hourly_rate=50)
    rates.of_member(60)
    rates.of_project(currency="EUR")
    assert whose(rates.spend()) == (None, None, "none")
    rates.of_organization(currency="EUR")
    assert whose(rates.spend()) == (None, "60.00", "member")
    rates.of_project(currency="CHF", hourly_rate=70)
    assert whose(rates.spend()) == (None, "70.00", "project")


def test_a_project_keeps_its_amounts_in_a_currency_with_other_decimals(rates: Rates) -> None:
    def amounts() -> tuple[Any, Any]:
        shown = rates.owner.get(f"{rates.studio.project}/billing")["billing"]
        return shown["hourly_rate"], shown["budget"]["amount"]

    rates.of_project(currency="EUR", hourly_rate=70, budget={"amount": 900})
    rates.of_project(currency="JPY")
    assert amounts() == (70, 900)
    rates.of_project(currency="EUR", hourly_rate=70.5)
    assert amounts() == (70.5, 900)
    # Amounts that the request replaces need not fit.
    rates.of_project(currency="JPY", hourly_rate=71)
    assert amounts() == (71, 900)
    rates.of_project(currency="EUR", budget={"amount": 900.5})
    assert amounts() == (71, 900.5)
    rates.of_project(currency="JPY", budget={"amount": 901})
    assert amounts() == (71, 901)


def test_the_default_of_billable_follows_the_settings(rates: Rates) -> None:
    assert rates.spend()["billable"] is False
    rates.of_organization(billable=True)
    assert rates.spend()["billable"] is True
    assert rates.spend(billable=False)["billable"] is False
    rates.of_project(billable=False)
    assert rates.spend()["billable"] is False
    rates.of_project(billable=None)
    column = rates.studio.column(start_timer=True)
    rates.studio.member.patch(f"/tasks/{rates.task}", json={"column_id": column})
    [timer] = rates.owner.get(f"{rates.studio.project}/timesheets", params={"is_active": "true"})["timesheets"]
    assert timer["billable"] is True


# --- fixing -----------------------------------------------------------------------------------------------------------


def test_a_later_change_of_the_default_does_not_affect_finished_time(rates: Rates) -> None:
    rates.of_project(hourly_rate=50)
    record, running = rates.spend(), rates.spend(duration=None)
    assert whose(running) == (None, "50.00", "project")
    rates.of_project(hourly_rate=90)
    assert whose(rates.now(record)) == (None, "50.00", "project")
    edited = rates.owner.patch(f"/timesheets/{record['id']}", json={"notes": "Sketches", "duration": 2 * HOUR})
    assert whose(edited["timesheet"]) == (None, "50.00", "project")
    again = rates.owner.patch(f"/timesheets/{record['id']}", json={"billable_rate": None, "notes": None})
    assert whose(again["timesheet"]) == (None, "50.00", "project")
    finished = rates.owner.post(f"/timesheets/{running['id']}/finish")["timesheet"]
    assert whose(finished) == (None, "90.00", "project")


@pytest.mark.parametrize("how", ["card", "edit", "right"])
def test_the_rate_is_fixed_however_a_timer_is_finished(rates: Rates, how: str) -> None:
    running = rates.spend(duration=None)
    rates.of_project(hourly_rate=90)
    if how == "card":
        done = rates.studio.column(stage="done")
        rates.owner.patch(f"/tasks/{rates.task}", json={"column_id": done})
    elif how == "edit":
        rates.owner.patch(f"/timesheets/{running['id']}", json={"duration": HOUR})
    else:
        rates.owner.http.delete(
            f"/api/v3/orgs/{rates.studio.world.organization}/members/{rates.login}"
        ).raise_for_status()
    record = rates.now(running)
    assert record["finished"]
    assert whose(record) == (None, "90.00", "project")
    [told] = [each.record for each in rates.studio.happened() if (each.name, each.action) == ("timesheet", "finished")]
    assert whose(told) == whose(record)


def test_clearing_an_entrys_own_rate_applies_the_current_default(rates: Rates) -> None:
    own, without = rates.spend(billable_rate=10), rates.spend()
    rates.of_project(hourly_rate=90)
    for each in (own, without):
        rates.studio.happened()
        changed = rates.owner.patch(f"/timesheets/{each['id']}", json={"billable_rate": None})["timesheet"]
        assert whose(changed) == (None, "90.00", "project")
        [event] = rates.studio.happened()
        assert event.changes["rate_source"] == {"from": each["rate_source"], "to": "project"}


def test_clearing_the_rate_without_a_default_changes_nothing(rates: Rates) -> None:
    record = rates.spend()
    rates.studio.happened()
    assert rates.owner.patch(f"/timesheets/{record['id']}", json={"billable_rate": None})["timesheet"] == record
    assert rates.studio.happened() == []


def test_reports_and_tables_use_the_effective_rate(rates: Rates) -> None:
    rates.of_project(hourly_rate=60, billable=True)
    rates.spend(duration=90 * MINUTE)
    report = rates.owner.get("/reports/timesheets", params={"project_id": rates.studio.project_id})
    assert report["totals"]["amount"] == 90
    table = rates.owner.call("GET", f"{rates.studio.project}/timesheets", headers={"Accept": "text/csv"}).text
    assert ",60.00,90.00," in table


# --- invoices ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "minutes", "qty"),
    [
        ({"round_minutes": 15}, 61, 1.25),
        ({"round_minutes": 15, "round_mode": "nearest"}, 61, 1),
        ({"round_minutes": 15, "round_mode": "nearest"}, 67.5, 1.25),
        ({"round_minutes": 0}, 75, 1.25),
    ],
)
def test_time_is_rounded_on_the_invoice_only(
    rates: Rates, settings: dict[str, Any], minutes: float, qty: float
) -> None:
    rates.of_organization(hourly_rate=80, billable=True, round_minutes=30)
    rates.of_project(**settings)
    record = rates.spend(duration=int(minutes * MINUTE))
    body = {"timesheet_ids": [record["id"]]}
    invoice = rates.owner.post(f"{rates.studio.project}/invoices", json=body)["invoice"]
    [line] = invoice["invoice_items"]
    assert (line["qty"], line["unit_price"], invoice["amount"]) == (qty, 80, qty * 80)
    assert rates.now(record)["duration"] == int(minutes * MINUTE)


# --- setting rates ----------------------------------------------------------------------------------------------------


def test_only_members_can_have_a_rate(rates: Rates) -> None:
    path = f"{rates.organization}/members/{rates.login}"
    rates.of_member(60)
    found = rates.owner.get(path)["member"]
    assert (found["username"], found["role"], found["hourly_rate"]) == (rates.login, "member", 60)
    nobody = f"{rates.organization}/members/{rates.studio.stranger.get('/me')['user']['username']}"
    assert rates.owner.refused(404, "PATCH", nobody, json={"hourly_rate": 1})
    assert rates.owner.refused(422, "PATCH", path, json={"hourly_rate": -1})["errors"][0]["field"] == "hourly_rate"


def test_project_rates_can_be_set_only_for_its_members(rates: Rates) -> None:
    client = rates.studio.client.get("/me")["user"]["username"]
    wanted = [{"username": each, "hourly_rate": 1} for each in (rates.login, "nobody-at-all", client, rates.login)]
    refused = rates.owner.refused(422, "PATCH", f"{rates.studio.project}/billing", json={"rates": wanted})
    assert [each["field"] for each in refused["errors"]] == [f"rates[{index}].username" for index in (1, 2, 3)]
    rates.of_project(rates=wanted[:1])
    found = rates.owner.get(f"{rates.studio.project}/billing")["billing"]["rates"]
    assert found == [{"username": rates.login, "hourly_rate": 1}]


def test_project_rates_can_be_sent_back_unchanged_after_a_member_left(rates: Rates) -> None:
    rates.of_project(rates=[{"username": rates.login, "hourly_rate": 1}])
    rates.owner.http.delete(f"/api/v3/orgs/{rates.studio.world.organization}/members/{rates.login}").raise_for_status()
    shown = rates.owner.get(f"{rates.studio.project}/billing")["billing"]
    rates.of_project(rates=shown["rates"], hourly_rate=2)
    assert rates.owner.get(f"{rates.studio.project}/billing")["billing"] == {**shown, "hourly_rate": 2}
