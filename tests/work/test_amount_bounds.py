"""One bound for amounts in minor units of any currency: whatever can be created can be paid, refunded and credited."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.work.studio import Studio
from workhook.core.money import AMOUNT_MAX_MINOR, TOTAL_MAX_MINOR, to_amount

CURRENCIES = ("EUR", "JPY", "BHD")


def line(qty: float, price: float, **more: Any) -> dict[str, Any]:
    return {"description": "Work", "qty": qty, "unit_price": price, **more}


def sent(studio: Studio, currency: str, *lines: Any, **more: Any) -> Any:
    return studio.invoice("send", invoice_items=list(lines), currency=currency, **more)


def settle(studio: Studio, invoice: Any) -> None:
    """Pay, refund and credit the whole invoice, each in a single amount."""
    path, total = f"/invoices/{invoice['id']}", invoice["total"]
    payment = studio.owner.post(f"{path}/payments", json={"amount": total})["payment"]
    assert studio.owner.get(path)["invoice"]["status"] == "paid"
    studio.owner.post(f"/payments/{payment['id']}/refund", json={"amount": total})
    studio.owner.post(f"{path}/credit_notes", json={"total": total, "reason": "x"})
    assert studio.owner.get(path)["invoice"]["status"] == "credited"


@st.composite
def bodies(draw: st.DrawFn, currency: str) -> dict[str, Any]:
    """Generate lines near both ends of the allowed amounts, with valid taxes and discounts."""
    price = st.one_of(st.integers(0, 10**4), st.integers(AMOUNT_MAX_MINOR - 10, AMOUNT_MAX_MINOR))
    qty = st.sampled_from([1, 0.000001, 0.333333, 3, 1_000_000])
    tax = st.sampled_from([0, 7, 19, 33.3333, 100])
    lines = [line(draw(qty), to_amount(draw(price), currency), tax=draw(tax)) for _ in range(draw(st.integers(1, 3)))]
    discount = draw(st.sampled_from([{}, {"discount": 12.5}, {"discount_amount": to_amount(1, currency)}]))
    return {"invoice_items": lines, "currency": currency, **discount}


@pytest.mark.one_database
@pytest.mark.parametrize("currency", CURRENCIES)
def test_any_invoice_that_can_be_sent_can_be_paid_refunded_and_credited_in_full(studio: Studio, currency: str) -> None:
    @settings(max_examples=8, deadline=None)
    @given(bodies(currency))
    def check(body: dict[str, Any]) -> None:
        answer = studio.owner.call("POST", f"{studio.project}/invoices", json=body)
        if answer.status_code == 422:
            return
        path = f"/invoices/{answer.json()['invoice']['id']}"
        invoice = studio.owner.post(f"{path}/send")["invoice"]
        if invoice["total"]:
            settle(studio, invoice)

    check()


@pytest.mark.parametrize("currency", CURRENCIES)
def test_the_largest_invoice_can_be_settled_and_one_unit_more_is_refused(studio: Studio, currency: str) -> None:
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


@pytest.mark.parametrize(
    ("before", "after", "bound"), [("EUR", "BHD", 10_000_000_000), ("JPY", "EUR", 100_000_000_000)]
)
def test_an_amount_too_large_for_a_new_currency_is_refused_with_its_bound(
    studio: Studio, before: str, after: str, bound: int
) -> None:
    large = to_amount(AMOUNT_MAX_MINOR, before)
    body = {"invoice_items": [line(1, 1), line(0.000001, large)], "currency": before}
    invoice = f"/invoices/{studio.owner.post(f'{studio.project}/invoices', json=body)['invoice']['id']}"
    [fault] = studio.owner.refused(422, "PATCH", invoice, json={"currency": after})["errors"]
    field = "invoice_items[1].unit_price"
    assert fault == {"field": field, "code": "invalid", "message": f"{field}: at most {bound} in {after}"}
    body = {"invoice_items": [line(1, 1), line(0.000001, bound)], "currency": after}
    studio.owner.patch(invoice, json=body)
