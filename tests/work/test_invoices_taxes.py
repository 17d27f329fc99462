"""Discounts and multiple tax rates on one invoice: responses, printing and validation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.work.paper import as_shown, printed, read, text_of
from tests.work.scene import Scene
from tests.work.studio import Studio

Draw = Callable[..., Any]


def line(price: float, **more: Any) -> dict[str, Any]:
    return {"description": f"For {price}", "qty": 1, "unit_price": price, **more}


@pytest.fixture
def draw(studio: Studio) -> Draw:
    return lambda *lines, **more: studio.owner.post(
        f"{studio.project}/invoices", json={"invoice_items": list(lines), "currency": "EUR", **more}
    )["invoice"]


def rows(record: Any) -> list[tuple[Any, ...]]:
    return [(each["percent"], each["category"], each["base"], each["tax"]) for each in record["taxes"]]


def test_each_line_has_its_own_rate_or_that_of_the_invoice(draw: Draw) -> None:
    record = draw(line(100), line(50, tax=10), line(7, tax_category="exempt"), line(3, tax=0), line(1, tax=20), tax=20)
    assert rows(record) == [
        (20, "standard", 101, 20.2),
        (10, "standard", 50, 5),
        (0, "zero", 3, 0),
        (0, "exempt", 7, 0),
    ]
    assert (record["amount"], record["total"]) == (161, 186.2)
    assert record["invoice_items"] == as_shown(
        [line(100), line(50, tax=10), line(7, tax_category="exempt"), line(3, tax=0), line(1, tax=20)]
    )


def test_a_line_discount_is_a_percentage_or_an_amount(draw: Draw) -> None:
    lines = [line(99.99, discount=33.3333), line(10, discount_amount=2.5), line(5, discount=100)]
    record = draw(*lines, tax=19)
    assert record["invoice_items"] == as_shown(lines)
    assert (record["amount"], record["total"]) == (74.16, 88.25)  # 99.99 - 33.33 + 7.5 + 0


def test_the_discount_of_an_invoice_is_split_over_its_rates(draw: Draw) -> None:
    # 10 % of 100.01 is 10.00, split into 6.6666 at 20 % and 3.3333 at 10 %. The larger remainder gets the extra cent.
    record = draw(line(66.67, tax=20), line(33.34, tax=10), discount=10)
    assert rows(record) == [(20, "standard", 60, 12), (10, "standard", 30.01, 3)]
    assert (record["discount"], record["discount_amount"], record["amount"], record["total"]) == (
        10,
        None,
        90.01,
        105.01,
    )
    # In a tie, the higher rate gets it.
    record = draw(line(10, tax=10), line(10, tax=20), discount_amount=0.01)
    assert rows(record) == [(20, "standard", 9.99, 2), (10, "standard", 10, 1)]


def test_a_percentage_and_an_amount_replace_each_other(studio: Studio, draw: Draw) -> None:
    record = draw(line(100), discount=10)
    path = f"/invoices/{record['id']}"
    record = studio.owner.patch(path, json={"discount_amount": 25})["invoice"]
    assert (record["discount"], record["discount_amount"], record["total"]) == (None, 25, 75)
    record = studio.owner.patch(path, json={"discount": 50})["invoice"]
    assert (record["discount"], record["discount_amount"], record["total"]) == (50, None, 50)
    record = studio.owner.patch(path, json={"discount": None})["invoice"]
    assert (record["discount"], record["discount_amount"], record["total"]) == (None, None, 100)
    record = studio.owner.patch(path, json={"tax": 20, "tax_category": "standard"})["invoice"]
    assert rows(record) == [(20, "standard", 100, 20)]
    record = studio.owner.patch(path, json={"tax": None, "tax_category": "exempt"})["invoice"]
    assert (rows(record), record["total"]) == ([(0, "exempt", 100, 0)], 100)


def test_invalid_parameters_are_refused(studio: Studio, draw: Draw) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"discount": 101}, "discount"),
        ({"discount": 10, "discount_amount": 1}, "discount_amount"),
        ({"discount_amount": 100.01}, "discount_amount"),
        ({"discount_amount": -1}, "discount_amount"),
        ({"tax": 10, "tax_category": "zero"}, "tax_category"),
        ({"tax_category": "reverse"}, "tax_category"),
        ({"invoice_items": [line(1, discount_amount=1.01)]}, "invoice_items[0].discount_amount"),
        ({"invoice_items": [line(1), line(1, discount=1, discount_amount=1)]}, "invoice_items[1].discount_amount"),
        ({"invoice_items": [line(1, tax=5, tax_category="exempt")]}, "invoice_items[0].tax_category"),
        ({"invoice_items": [line(1, tax="much")]}, "invoice_items[0].tax"),
    ]
    record = draw(line(100))
    for body, fault in cases:
        whole = {"invoice_items": [line(100)], **body}
        assert set(studio.owner.faults("POST", f"{studio.project}/invoices", json=whole)) == {fault}, body
        assert set(studio.owner.faults("PATCH", f"/invoices/{record['id']}", json=body)) == {fault}, body
        assert studio.owner.get(f"/invoices/{record['id']}")["invoice"] == record, body


def test_a_sent_invoice_keeps_its_discount(studio: Studio, draw: Draw) -> None:
    record = draw(line(100), discount=10)
    path = f"/invoices/{record['id']}"
    studio.owner.post(f"{path}/send")
    for change in ({"discount": 5}, {"discount_amount": 5}, {"tax_category": "exempt"}):
        assert studio.owner.refused(409, "PATCH", path, json=change)["code"] == "invoice_sent"
    assert studio.owner.patch(path, json={"discount": 10})["invoice"]["total"] == 90


def test_a_total_is_credited_in_proportion_to_the_taxes(studio: Studio, draw: Draw) -> None:
    record = draw(line(100, tax=20), line(100, tax=10))
    path = f"/invoices/{record['id']}"
    studio.owner.post(f"{path}/send")
    note = studio.owner.post(f"{path}/credit_notes", json={"total": 23, "reason": "x"})["credit_note"]
    assert rows(note) == [(20, "standard", 10, 2), (10, "standard", 10, 1)]
    lines = [line(50, tax=20, discount=50), line(10, tax=10)]
    note = studio.owner.post(f"{path}/credit_notes", json={"invoice_items": lines, "reason": "x"})["credit_note"]
    assert (rows(note), note["total"]) == ([(20, "standard", 25, 5), (10, "standard", 10, 1)], 41)
    assert note["invoice_items"] == as_shown(lines)


def test_discounts_and_taxes_are_printed(studio: Studio, draw: Draw) -> None:
    record = draw(line(100, tax=20, discount=10), line(50, tax=10), discount_amount=14)
    text = printed(studio, record["id"])
    for shown in (
        "Discount: 10.00", "Subtotal 140.00 EUR", "Discount -14.00 EUR", "Tax 20% of 81.00 EUR 16.20 EUR",
        "Tax 10% of 45.00 EUR 4.50 EUR", "Total 146.70 EUR",
    ):  # fmt: skip
        assert shown in text, text


def test_a_discount_on_a_single_rate_prints_the_net_amount(studio: Studio, draw: Draw) -> None:
    record = draw(line(100, tax=20), discount=10)
    text = printed(studio, record["id"])
    assert "Discount 10% -10.00 EUR Tax 20% of 90.00 EUR 18.00 EUR Total 108.00 EUR" in text, text


# --- currencies ------------------------------------------------------------------------------------------------------
# Amounts have the decimals of their currency in requests, responses, pages and documents (decision 32).


HOUR = 3_600_000
NO_DECIMALS = "an amount in JPY has no decimal places"


class Money:
    """A studio with configurable currencies."""

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
        """Return the messages by field of a request that must fail with `too_many_decimals` only."""
        answer = self.owner.call(method, path, json=body)
        assert answer.status_code == 422, answer.text
        assert {each["code"] for each in answer.json()["errors"]} == {"too_many_decimals"}
        return {each["field"]: each["message"] for each in answer.json()["errors"]}


@pytest.fixture
def money(studio: Studio, scene: Scene) -> Money:
    return Money(studio, scene)


def priced(price: float, **more: Any) -> dict[str, Any]:
    return {"description": "Work", "qty": 1, "unit_price": price, **more}


@pytest.mark.parametrize(
    ("currency", "price", "tax", "printed"),
    [("JPY", 1005, 101, "1,106"), ("EUR", 10.05, 1.01, "11.06"), ("KWD", 1.005, 0.101, "1.106")],
)
def test_an_invoice_is_computed_in_the_minor_unit_of_its_currency(
    money: Money, currency: str, price: float, tax: float, printed: str
) -> None:
    money.of_project(currency=currency)
    draft = money.draft(invoice_items=[priced(price)], tax=10)
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


def test_excess_decimals_are_refused_and_named(money: Money) -> None:
    money.of_project(currency="JPY")
    invoices = f"{money.studio.project}/invoices"
    body = {"invoice_items": [priced(1), priced(1.5, discount_amount=0.1)], "discount_amount": 0.5}
    assert money.refused("POST", invoices, body) == {
        f"{name}": f"{name}: {NO_DECIMALS}"
        for name in ("invoice_items[1].unit_price", "invoice_items[1].discount_amount", "discount_amount")
    }
    sent = money.draft(invoice_items=[priced(100)])["id"]
    money.owner.post(f"/invoices/{sent}/send")
    assert money.refused("POST", f"/invoices/{sent}/payments", {"amount": 0.5}) == {"amount": f"amount: {NO_DECIMALS}"}
    note = {"total": 0.5, "reason": "x"}
    assert money.refused("POST", f"/invoices/{sent}/credit_notes", note) == {"total": f"total: {NO_DECIMALS}"}
    lines = {"invoice_items": [priced(0.5)], "reason": "x"}
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


def test_prices_have_the_decimals_of_their_currency_and_credits_have_two(money: Money) -> None:
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


def test_projects_without_a_currency_use_that_of_the_organization(money: Money) -> None:
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


def test_time_can_be_invoiced_in_another_currency_at_the_same_rate(money: Money) -> None:
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
    draft = money.draft(invoice_items=[priced(80)], discount_amount=5, currency="EUR")
    path = f"/invoices/{draft['id']}"
    for currency in ("JPY", "KWD"):
        after = money.owner.patch(path, json={"currency": currency})["invoice"]
        assert (after["amount"], after["discount_amount"], after["invoice_items"][0]["unit_price"]) == (75, 5, 80)
    money.owner.patch(path, json={"invoice_items": [priced(80.125)]})
    refused = money.refused("PATCH", path, {"currency": "EUR"})
    assert "also send invoice_items" in refused["currency"]
    both = {"currency": "EUR", "invoice_items": [priced(80.25)]}
    assert money.owner.patch(path, json=both)["invoice"]["amount"] == 75.25


@pytest.mark.parametrize("currency", ["JPY", "CHF"])
def test_without_a_currency_reports_tables_and_budgets_use_dollars_whatever_was_invoiced(
    money: Money, currency: str
) -> None:
    money.of_project(budget={"amount": 161})
    money.spend(billable_rate=80.5)
    money.draft(currency=currency, invoice_items=[priced(100)])
    totals = money.owner.get("/reports/timesheets")["totals"]
    assert (totals["amount"], totals["currency"]) == (80.5, "USD")
    csv = {"headers": {"Accept": "text/csv"}}
    assert ",80.50,80.50,USD," in money.owner.call("GET", "/timesheets", **csv).text
    assert ",80.50,USD,80.50 USD" in money.owner.call("GET", "/reports/timesheets", **csv).text
    assert money.owner.get(f"{money.studio.project}/budget")["used"] == 80.5


def test_tables_have_the_decimals_of_the_currency(money: Money) -> None:
    money.of_project(currency="JPY")
    money.spend(billable_rate=8000)
    csv = {"headers": {"Accept": "text/csv"}}
    assert ",8000,8000," in money.owner.call("GET", f"{money.studio.project}/timesheets", **csv).text
    report = money.owner.call("GET", "/reports/timesheets", **csv).text
    assert ",8000,JPY,8000 JPY" in report
