"""Amounts have the digits of their currency: in requests, in answers, on pages and in documents. Decision 54."""

from __future__ import annotations

from typing import Any

import pytest

from tests.work.paper import read, text_of
from tests.work.scene import Scene
from tests.work.studio import Studio

HOUR = 3_600_000
NO_DECIMALS = "an amount in JPY has no decimals"


class Money:
    """A studio that says in which currency it works."""

    def __init__(self, studio: Studio, scene: Scene) -> None:
        self.studio, self.owner = studio, studio.owner
        self.task = scene.task()
        self.organization = f"/organizations/{studio.world.organization}/billing"
        self.login = studio.member.get("/me")["user"]["username"]

    def of_project(self, **settings: Any) -> Any:
        return self.owner.patch(f"{self.studio.project}/billing", json=settings)["billing"]

    def of_organization(self, **settings: Any) -> Any:
        return self.owner.patch(self.organization, json=settings)["billing"]

    def spend(self, **body: Any) -> Any:
        given = {"task_id": self.task, "duration": HOUR, "billable": True, **body}
        return self.owner.post(f"{self.studio.project}/timesheets", json=given)["timesheet"]

    def draft(self, **body: Any) -> Any:
        return self.owner.post(f"{self.studio.project}/invoices", json=body)["invoice"]

    def refused(self, method: str, path: str, body: Any) -> dict[str, str]:
        """The messages by field; each is one of too many decimals."""
        answer = self.owner.call(method, path, json=body)
        assert answer.status_code == 422, answer.text
        assert {each["code"] for each in answer.json()["errors"]} == {"too_many_decimals"}
        return {each["field"]: each["message"] for each in answer.json()["errors"]}


@pytest.fixture
def money(studio: Studio, scene: Scene) -> Money:
    return Money(studio, scene)


def line(price: float, **more: Any) -> dict[str, Any]:
    return {"description": "Work", "qty": 1, "unit_price": price, **more}


@pytest.mark.parametrize(
    ("currency", "price", "tax", "printed"),
    [("JPY", 1005, 101, "1,106"), ("EUR", 10.05, 1.01, "11.06"), ("KWD", 1.005, 0.101, "1.106")],
)
def test_an_invoice_is_counted_in_the_smallest_unit(
    money: Money, currency: str, price: float, tax: float, printed: str
) -> None:
    money.of_project(currency=currency)
    draft = money.draft(invoice_items=[line(price)], tax=10)
    assert (draft["currency"], draft["amount"], draft["taxes"][0]["tax"]) == (currency, price, tax)
    assert draft["total"] == pytest.approx(price + tax)
    assert draft["invoice_items"][0]["unit_price"] == price
    sent = money.owner.post(f"/invoices/{draft['id']}/send")["invoice"]
    paid = money.owner.post(f"/invoices/{draft['id']}/payments", json={"amount": tax})["payment"]
    assert (paid["amount"], paid["currency"]) == (tax, currency)
    after = money.owner.get(f"/invoices/{draft['id']}")["invoice"]
    assert (after["amount_paid"], after["payments"][0]["amount"]) == (tax, tax)
    assert after["amount_due"] == pytest.approx(sent["total"] - tax)
    note = money.owner.post(f"/invoices/{draft['id']}/credit_notes", json={"total": tax, "reason": "x"})["credit_note"]
    assert note["total"] == tax
    assert f"{printed} {currency}" in text_of(read(money.studio, draft["id"]))


def test_more_decimals_are_refused_and_named(money: Money) -> None:
    money.of_project(currency="JPY")
    invoices = f"{money.studio.project}/invoices"
    body = {"invoice_items": [line(1), line(1.5, discount_amount=0.1)], "discount_amount": 0.5}
    assert money.refused("POST", invoices, body) == {
        f"{name}": f"{name}: {NO_DECIMALS}"
        for name in ("invoice_items[1].unit_price", "invoice_items[1].discount_amount", "discount_amount")
    }
    sent = money.draft(invoice_items=[line(100)])["id"]
    money.owner.post(f"/invoices/{sent}/send")
    assert money.refused("POST", f"/invoices/{sent}/payments", {"amount": 0.5}) == {"amount": f"amount: {NO_DECIMALS}"}
    note = {"total": 0.5, "reason": "x"}
    assert money.refused("POST", f"/invoices/{sent}/credit_notes", note) == {"total": f"total: {NO_DECIMALS}"}
    lines = {"invoice_items": [line(0.5)], "reason": "x"}
    assert list(money.refused("POST", f"/invoices/{sent}/credit_notes", lines)) == ["invoice_items[0].unit_price"]
    payment = money.owner.post(f"/invoices/{sent}/pay")["invoice"]["payments"][0]["id"]
    assert list(money.refused("POST", f"/payments/{payment}/refund", {"amount": 0.5})) == ["amount"]
    timesheet = {"task_id": money.task, "duration": HOUR, "billable_rate": 80.5}
    assert list(money.refused("POST", f"{money.studio.project}/timesheets", timesheet)) == ["billable_rate"]
    task = f"/tasks/{money.task}"
    given = {"hourly_rate": "80.5", "project_id": money.owner.get(task)["task"]["project"]["id"]}
    assert list(money.refused("PATCH", task, given)) == ["hourly_rate"]
    billing = f"{money.studio.project}/billing"
    assert list(money.refused("PATCH", billing, {"hourly_rate": 0.5})) == ["hourly_rate"]
    assert list(money.refused("PATCH", billing, {"budget": {"amount": 0.5}})) == ["budget.amount"]
    rates = {"rates": [{"username": money.login, "hourly_rate": 0.5}]}
    assert list(money.refused("PATCH", billing, rates)) == ["rates[0].hourly_rate"]


def test_a_price_has_the_digits_of_its_own_currency_and_credits_have_two(money: Money) -> None:
    prices = [
        {"amount": amount, "currency": currency, "interval": "month", "credits": 2.25}
        for currency, amount in (("JPY", 9000), ("KWD", 9.125), ("EUR", 9.5))
    ]
    made = money.owner.post("/services", json={"title": "Retainer", "service_prices": prices})["service"]
    assert [(each["amount"], each["credits"]) for each in made["service_prices"]] == [
        (9000, 2.25), (9.125, 2.25), (9.5, 2.25),
    ]  # fmt: skip
    again = money.owner.patch(f"/services/{made['id']}", json={"service_prices": prices[::-1]})["service"]
    assert {each["id"] for each in again["service_prices"]} == {each["id"] for each in made["service_prices"]}
    wrong = {"service_prices": [prices[0], {**prices[0], "amount": 0.5}]}
    assert list(money.refused("PATCH", f"/services/{made['id']}", wrong)) == ["service_prices[1].amount"]


def test_rates_and_budgets_keep_their_value_in_another_currency(money: Money) -> None:
    rates = [{"username": money.login, "hourly_rate": 70}]
    money.of_project(currency="EUR", hourly_rate=80, rates=rates, budget={"amount": 1000})
    project_id = money.owner.get(f"/tasks/{money.task}")["task"]["project"]["id"]
    task = {"hourly_rate": 90, "project_id": project_id}
    assert money.owner.patch(f"/tasks/{money.task}", json=task)["task"]["hourly_rate"] == "90.00"
    spent = money.spend()
    for currency, text in (("JPY", "90"), ("KWD", "90.000"), ("EUR", "90.00")):
        billing = money.of_project(currency=currency)
        assert (billing["hourly_rate"], billing["rates"], billing["budget"]["amount"]) == (80, rates, 1000)
        assert money.owner.get(f"/tasks/{money.task}")["task"]["hourly_rate"] == text
        assert money.owner.get(f"/timesheets/{spent['id']}")["timesheet"]["hourly_rate"] == text
        standing = money.owner.get(f"{money.studio.project}/budget")
        assert (standing["used"], standing["left"], standing["budget"]["amount"]) == (90, 910, 1000)
        report = money.owner.get(f"/reports/timesheets?project_id={project_id}")["totals"]
        assert (report["amount"], report["currency"]) == (90, currency)


def test_a_currency_that_would_cut_an_amount_off_is_refused(money: Money) -> None:
    billing = f"{money.studio.project}/billing"
    money.of_project(currency="EUR", hourly_rate=80.5)
    message = (
        "currency: the hourly_rate of the project does not fit JPY, where an amount has no decimals; change the "
        "amount first"
    )
    assert money.refused("PATCH", billing, {"currency": "JPY"}) == {"currency": message}
    assert money.of_project(currency="JPY", hourly_rate=8050)["hourly_rate"] == 8050
    money.of_project(currency="EUR", hourly_rate=None)
    spent = money.spend(billable_rate=0.5)
    assert "the rate of a timesheet" in money.refused("PATCH", billing, {"currency": "JPY"})["currency"]
    money.owner.patch(f"/timesheets/{spent['id']}", json={"billable_rate": 1})
    money.of_project(currency="JPY")
    assert money.owner.get(f"/timesheets/{spent['id']}")["timesheet"]["billable_rate"] == 1


def test_the_currency_of_an_organization_is_that_of_its_projects_that_say_none(money: Money) -> None:
    member = f"/organizations/{money.studio.world.organization}/members/{money.login}"
    money.of_organization(hourly_rate=50)
    money.owner.patch(member, json={"hourly_rate": 60})
    spent = money.spend()
    assert spent["hourly_rate"] == "50.00"
    assert money.of_organization(currency="KWD")["hourly_rate"] == 50
    assert money.owner.get(member)["member"]["hourly_rate"] == 60
    assert money.owner.get(f"/timesheets/{spent['id']}")["timesheet"]["hourly_rate"] == "50.000"
    assert money.owner.patch(member, json={"hourly_rate": 60.125})["member"]["hourly_rate"] == 60.125
    assert "the rate of a member" in money.refused("PATCH", money.organization, {"currency": "EUR"})["currency"]
    assert money.of_organization(hourly_rate=50.125)["hourly_rate"] == 50.125
    assert money.spend()["hourly_rate"] == "50.125"
    money.owner.patch(member, json={"hourly_rate": None})
    assert list(money.refused("PATCH", money.organization, {"currency": "EUR"})) == ["currency"]
    created = money.owner.post("/projects", json={"title": "Next", "organization": money.studio.world.organization})
    other = f"/projects/{created['project']['id']}/billing"
    assert money.owner.patch(other, json={"hourly_rate": 1.125})["billing"]["hourly_rate"] == 1.125


def test_time_comes_onto_an_invoice_in_another_currency_at_the_same_rate(money: Money) -> None:
    money.of_project(currency="EUR")
    spent, odd = money.spend(billable_rate=80), money.spend(billable_rate=80.5)
    draft = money.draft(currency="JPY", timesheet_ids=[spent["id"]])
    assert (draft["invoice_items"][0]["unit_price"], draft["amount"]) == (80, 80)
    refused = money.refused(
        "POST", f"{money.studio.project}/invoices", {"currency": "JPY", "timesheet_ids": [odd["id"]]}
    )
    assert list(refused) == ["timesheet_ids[0]"]
    assert "its rate has more" in refused["timesheet_ids[0]"]


def test_a_draft_keeps_its_amounts_in_another_currency(money: Money) -> None:
    draft = money.draft(invoice_items=[line(80)], discount_amount=5, currency="EUR")
    path = f"/invoices/{draft['id']}"
    for currency in ("JPY", "KWD"):
        after = money.owner.patch(path, json={"currency": currency})["invoice"]
        assert (after["amount"], after["discount_amount"], after["invoice_items"][0]["unit_price"]) == (75, 5, 80)
    money.owner.patch(path, json={"invoice_items": [line(80.125)]})
    refused = money.refused("PATCH", path, {"currency": "EUR"})
    assert "send invoice_items with it" in refused["currency"]
    both = {"currency": "EUR", "invoice_items": [line(80.25)]}
    assert money.owner.patch(path, json=both)["invoice"]["amount"] == 75.25


def test_the_currency_of_a_draft_changes_once_its_time_is_taken_off(money: Money) -> None:
    money.of_project(currency="EUR")
    draft = money.draft(currency="EUR", timesheet_ids=[money.spend(billable_rate=80.5)["id"]])
    path = f"/invoices/{draft['id']}"
    refused = money.refused("PATCH", path, {"currency": "JPY", "invoice_items": [line(80)]})
    assert refused["currency"].endswith("take the time with that rate off first, with timesheet_ids")
    money.owner.patch(path, json={"timesheet_ids": []})
    after = money.owner.patch(path, json={"currency": "JPY", "invoice_items": [line(80)]})["invoice"]
    assert (after["currency"], after["amount"]) == ("JPY", 80)


def test_what_nobody_has_said_has_two_digits_whatever_the_last_invoice_has(money: Money) -> None:
    money.spend(billable_rate=80.5)
    money.draft(currency="JPY", invoice_items=[line(100)])
    totals = money.owner.get("/reports/timesheets")["totals"]
    assert (totals["amount"], totals["currency"]) == (80.5, "USD")
    money.draft(currency="CHF", invoice_items=[line(100)])
    assert money.owner.get("/reports/timesheets")["totals"]["currency"] == "CHF"


def test_tables_have_the_digits_of_the_currency(money: Money) -> None:
    money.of_project(currency="JPY")
    money.spend(billable_rate=8000)
    csv = {"headers": {"Accept": "text/csv"}}
    assert ",8000,8000," in money.owner.call("GET", f"{money.studio.project}/timesheets", **csv).text
    report = money.owner.call("GET", "/reports/timesheets", **csv).text
    assert ",8000,JPY,8000 JPY" in report
