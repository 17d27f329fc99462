"""One bound for amounts, in minor units of every currency: whatever can be made can be paid, refunded and credited."""

from __future__ import annotations

from typing import Any

import pytest

from tests.work.studio import Studio
from workhook.core.iso4217 import digits_of
from workhook.http.money import AMOUNT_MAX_MINOR, TOTAL_MAX_MINOR, to_amount

CURRENCIES = ("EUR", "JPY", "BHD")


def line(qty: float, price: float, **more: Any) -> dict[str, Any]:
    return {"description": "Work", "qty": qty, "unit_price": price, **more}


def sent(studio: Studio, currency: str, *lines: Any, **more: Any) -> Any:
    body = {"invoice_items": list(lines), "currency": currency, **more}
    invoice = studio.owner.post(f"{studio.project}/invoices", json=body)["invoice"]
    return studio.owner.post(f"/invoices/{invoice['id']}/send")["invoice"]


def settle(studio: Studio, invoice: Any) -> None:
    """Pay all of it, refund all of it and credit all of it, each in one amount."""
    path, total = f"/invoices/{invoice['id']}", invoice["total"]
    payment = studio.owner.post(f"{path}/payments", json={"amount": total})["payment"]
    assert studio.owner.get(path)["invoice"]["status"] == "paid"
    studio.owner.post(f"/payments/{payment['id']}/refund", json={"amount": total})
    studio.owner.post(f"{path}/credit_notes", json={"total": total, "reason": "x"})
    assert studio.owner.get(path)["invoice"]["status"] == "credited"


def test_a_million_times_two_hundred_thousand_yen_are_paid(studio: Studio) -> None:
    settle(studio, sent(studio, "JPY", line(1_000_000, 200_000)))


@pytest.mark.parametrize("currency", CURRENCIES)
def test_the_largest_invoice_is_settled_and_one_unit_more_is_refused(studio: Studio, currency: str) -> None:
    most, unit = to_amount(AMOUNT_MAX_MINOR, currency), to_amount(1, currency)
    settle(studio, sent(studio, currency, line(1, most)))
    settle(studio, sent(studio, currency, line(1, most), tax=100))
    body = {"invoice_items": [line(1, most), line(1, unit)], "currency": currency}
    assert studio.owner.faults("POST", f"{studio.project}/invoices", json=body) == {"invoice_items": "invalid"}


@pytest.mark.parametrize("currency", CURRENCIES)
def test_an_amount_above_the_bound_of_its_currency_is_refused(studio: Studio, currency: str) -> None:
    above, too_much = to_amount(AMOUNT_MAX_MINOR + 1, currency), to_amount(TOTAL_MAX_MINOR + 1, currency)
    lines = {"invoice_items": [line(0.000001, above)], "currency": currency}
    fault = {"invoice_items[0].unit_price": "invalid"}
    assert studio.owner.faults("POST", f"{studio.project}/invoices", json=lines) == fault
    invoice = sent(studio, currency, line(1, 1))
    path = f"/invoices/{invoice['id']}"
    assert set(studio.owner.faults("POST", f"{path}/payments", json={"amount": too_much})) == {"amount"}
    assert set(studio.owner.faults("POST", f"{path}/credit_notes", json={"total": too_much, "reason": "x"})) == {
        "total"
    }
    studio.owner.patch(f"{studio.project}/billing", json={"currency": currency})
    for body, field in (({"budget": {"amount": above}}, "budget.amount"), ({"hourly_rate": above}, "hourly_rate")):
        assert set(studio.owner.faults("PATCH", f"{studio.project}/billing", json=body)) == {field}


@pytest.mark.parametrize("currency", CURRENCIES)
def test_a_subscription_that_can_be_bought_can_be_paid(studio: Studio, currency: str) -> None:
    most = to_amount(AMOUNT_MAX_MINOR, currency)
    studio.owner.patch(f"/organizations/{studio.world.organization}/billing", json={"tax": 100})

    def service(amount: float) -> dict[str, Any]:
        price = {"amount": amount, "currency": currency, "interval": "one_time", "credits": 1}
        return {"title": "Hosting", "organization": studio.world.organization, "service_prices": [price]}

    above = to_amount(AMOUNT_MAX_MINOR + 1, currency)
    faults = studio.owner.faults("POST", "/services", json=service(above))
    assert set(faults) == {"service_prices[0].amount"}
    made = studio.owner.post("/services", json=service(most))["service"]
    checkouts = f"{studio.project}/service_checkouts"
    body = {"service_id": made["id"], "qty": 2}
    assert set(studio.owner.faults("POST", checkouts, json=body)) == {"qty"}
    checkout = studio.owner.post(checkouts, json={**body, "qty": 1})["service_checkout"]["id"]
    studio.owner.post(f"/service_checkouts/{checkout}/complete")
    [invoice] = studio.owner.get(f"{studio.project}/invoices")["invoices"]
    assert invoice["total"] == to_amount(TOTAL_MAX_MINOR, currency)
    settle(studio, invoice)


def test_a_draft_in_another_currency_keeps_within_the_bound(studio: Studio) -> None:
    body = {"invoice_items": [line(0.000001, to_amount(AMOUNT_MAX_MINOR, "EUR"))], "currency": "EUR"}
    invoice = studio.owner.post(f"{studio.project}/invoices", json=body)["invoice"]["id"]
    assert digits_of("BHD") > digits_of("EUR")
    assert set(studio.owner.faults("PATCH", f"/invoices/{invoice}", json={"currency": "BHD"})) == {"currency"}
