"""Payments, refunds and credit notes: resulting amounts due, validation and events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.work.paper import as_shown
from tests.work.studio import Studio, without_addresses

WORK = {"description": "Design", "qty": 1, "unit_price": 100}
SUMS = ("total", "amount_paid", "amount_credited", "amount_due", "to_refund")
Draw = Callable[..., Any]


@pytest.fixture
def draw(studio: Studio) -> Draw:
    """Return a function that creates a sent invoice, of 100 plus tax by default."""

    def make(**body: Any) -> Any:
        sent = studio.invoice("send", **body)
        studio.happened()
        return sent

    return make


def now(studio: Studio, record: Any) -> Any:
    return studio.owner.get(f"/invoices/{record['id']}")["invoice"]


def sums(studio: Studio, record: Any) -> tuple[Any, ...]:
    """Return the status and the sums, checking that they are consistent."""
    found = now(studio, record)
    total, paid, credited, due, to_refund = (found[name] for name in SUMS)
    assert round(total + to_refund - paid - credited - due, 2) == 0
    assert min(due, to_refund) == 0
    return found["status"], paid, credited, due, to_refund


def pay(studio: Studio, record: Any, **body: Any) -> Any:
    return studio.owner.post(f"/invoices/{record['id']}/payments", json=body)["payment"]


def credit(studio: Studio, record: Any, **body: Any) -> Any:
    return studio.owner.post(f"/invoices/{record['id']}/credit_notes", json={"reason": "Late", **body})["credit_note"]


def refund(studio: Studio, payment: Any, **body: Any) -> Any:
    return studio.owner.post(f"/payments/{payment['id']}/refund", json=body)["payment"]


# --- payments ---------------------------------------------------------------------------------------------------------


def test_an_invoice_can_be_paid_in_two_parts(studio: Studio, draw: Draw) -> None:
    record = draw(tax=20)
    assert sums(studio, record) == ("sent", 0, 0, 120, 0)
    first = pay(studio, record, amount=50.5, paid_at="2026-11-20", method="Transfer", reference="RF 18")
    assert {**first, "id": "", "user": "", "created_at": ""} == {
        "id": "",
        "kind": "payment",
        "amount": 50.5,
        "currency": "EUR",
        "paid_at": "2026-11-20T00:00:00.000Z",
        "method": "Transfer",
        "reference": "RF 18",
        "refund_of": None,
        "invoice": {"id": record["id"], "invoice_number": record["invoice_number"]},
        "user": "",
        "created_at": "",
    }
    assert first["id"].startswith("pay_")
    assert first["user"]["username"] == studio.world.owner
    assert sums(studio, record) == ("partially_paid", 50.5, 0, 69.5, 0)
    partly = now(studio, record)
    assert partly["paid_at"] is None
    second = pay(studio, record)
    assert (second["amount"], second["method"]) == (69.5, None)
    assert sums(studio, record) == ("paid", 120, 0, 0, 0)
    paid = now(studio, record)
    assert paid["paid_at"] == second["paid_at"]
    assert paid["payments"] == [
        {"id": each["id"], "amount": each["amount"], "date": each["paid_at"]} for each in (first, second)
    ]
    path = f"/invoices/{record['id']}/payments"
    assert studio.owner.get(path) == {"success": True, "payments": [first, second]}
    assert studio.owner.get(f"{path}?per_page=1")["payments"] == [first]
    assert studio.owner.get(f"/payments/{second['id']}") == {"success": True, "payment": second}
    events = studio.happened()
    assert [(each.name, each.action, each.record) for each in events] == [
        ("invoice", "partially_paid", partly),
        ("invoice", "paid", paid),
    ]
    assert [each.payload["payment"] for each in events] == [without_addresses(first), without_addresses(second)]
    assert events[0].changes["amount_due"] == {"from": 120, "to": 69.5}


def test_pay_books_the_amount_due_once(studio: Studio, draw: Draw) -> None:
    record = draw()
    pay(studio, record, amount=40)
    path = f"/invoices/{record['id']}/pay"
    paid = studio.owner.post(path, json={"method": "Card", "paid_at": "2026-11-20T10:00:00Z"})["invoice"]
    assert (paid["status"], paid["amount_paid"], len(paid["payments"])) == ("paid", 100, 2)
    assert paid["paid_at"] == "2026-11-20T10:00:00.000Z"
    assert studio.owner.post(path)["invoice"] == paid
    assert studio.owner.get(f"/payments/{paid['payments'][1]['id']}")["payment"]["method"] == "Card"
    assert [each.action for each in studio.happened()] == ["partially_paid", "paid"]


def test_overpayment_is_refused(studio: Studio, draw: Draw) -> None:
    record = draw()
    path = f"/invoices/{record['id']}/payments"
    refused = studio.owner.refused(422, "POST", path, json={"amount": 100.01})
    assert [(each["field"], each["code"]) for each in refused["errors"]] == [("amount", "more_than_due")]
    assert "100 EUR is due" in refused["errors"][0]["message"]
    pay(studio, record)
    assert studio.owner.refused(409, "POST", path)["code"] == "nothing_due"
    refused = studio.owner.refused(422, "POST", path, json={"amount": 0.01})
    assert refused["errors"][0]["code"] == "more_than_due"


def test_invalid_payments_are_refused(studio: Studio, draw: Draw) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"amount": 0}, "amount"),
        ({"amount": -1}, "amount"),
        ({"amount": 1.001}, "amount"),
        ({"amount": True}, "amount"),
        ({"paid_at": "soon"}, "paid_at"),
        ({"paid_at": "2999-01-01"}, "paid_at"),
        ({"method": " "}, "method"),
        ({"reference": "x" * 256}, "reference"),
        ({"kind": "refund"}, "kind"),
    ]
    record = draw()
    for body, field in cases:
        assert set(studio.owner.faults("POST", f"/invoices/{record['id']}/payments", json=body)) == {field}, body
        assert now(studio, record) == record, body


def test_drafts_and_void_invoices_cannot_be_paid(studio: Studio, draw: Draw) -> None:
    draft = studio.owner.post(f"{studio.project}/invoices", json={"invoice_items": [WORK]})["invoice"]
    assert sums(studio, draft)[3] == 100
    void = draw()
    studio.owner.post(f"/invoices/{void['id']}/void")
    found = now(studio, void)
    assert [found[name] for name in SUMS[1:]] == [0, 0, 0, 0]
    for record, code in ((draft, "invoice_draft"), (void, "invoice_void")):
        for path, body in (("payments", {}), ("payments", {"amount": 1}), ("credit_notes", {"reason": "x"})):
            refused = studio.owner.refused(409, "POST", f"/invoices/{record['id']}/{path}", json=body)
            assert refused["code"] == code


def test_a_zero_invoice_is_paid_when_it_is_sent(studio: Studio, draw: Draw) -> None:
    record = draw(invoice_items=[{**WORK, "unit_price": 0}])
    assert sums(studio, record) == ("paid", 0, 0, 0, 0)
    assert record["paid_at"] == record["issued"]
    assert record["payments"] == []


# --- refunds ----------------------------------------------------------------------------------------------------------


def test_a_refunded_amount_is_due_again(studio: Studio, draw: Draw) -> None:
    record = draw()
    payment = pay(studio, record, method="Card")
    studio.happened()
    given = refund(studio, payment, amount=30, reference="complaint")
    assert (given["kind"], given["amount"], given["refund_of"]) == ("refund", -30, payment["id"])
    assert (given["method"], given["reference"]) == ("Card", "complaint")
    assert sums(studio, record) == ("partially_paid", 70, 0, 30, 0)
    assert now(studio, record)["paid_at"] is None
    [event] = studio.happened()
    assert (event.action, event.record) == ("refunded", now(studio, record))
    assert event.payload["payment"] == without_addresses(given)
    rest = refund(studio, payment)
    assert rest["amount"] == -70
    assert sums(studio, record) == ("sent", 0, 0, 100, 0)
    path = f"/payments/{payment['id']}/refund"
    assert studio.owner.refused(409, "POST", path)["code"] == "nothing_left"
    refused = studio.owner.refused(422, "POST", path, json={"amount": 1})
    assert refused["errors"][0]["code"] == "more_than_left"
    assert studio.owner.refused(409, "POST", f"/payments/{given['id']}/refund")["code"] == "not_a_payment"


# --- credit notes -----------------------------------------------------------------------------------------------------


def test_a_part_can_be_credited(studio: Studio, draw: Draw) -> None:
    record = draw(tax=20)
    note = credit(studio, record, total=30)
    assert {**note, "id": "", "user": "", "issued": ""} == {
        "id": "",
        "credit_note_number": "CN-00001",
        "invoice": {"id": record["id"], "invoice_number": record["invoice_number"]},
        "amount": 25,
        "taxes": [{"percent": 20, "category": "standard", "base": 25, "tax": 5}],
        "total": 30,
        "currency": "EUR",
        "reason": "Late",
        "issued": "",
        "invoice_items": [],
        "buyer": None,
        "seller": record["seller"],
        "language": "en",
        "user": "",
    }
    assert sums(studio, record) == ("sent", 0, 30, 90, 0)
    [event] = studio.happened()
    assert (event.action, event.record) == ("credited", now(studio, record))
    assert event.payload["credit_note"] == without_addresses(note)
    path = f"/invoices/{record['id']}/credit_notes"
    assert studio.owner.get(path) == {"success": True, "credit_notes": [note]}
    assert studio.owner.get(f"/credit_notes/{note['id']}") == {"success": True, "credit_note": note}
    assert studio.owner.refused(409, "POST", f"/invoices/{record['id']}/void")["code"] == "has_credit_notes"


def test_lines_are_credited_before_tax(studio: Studio, draw: Draw) -> None:
    record = draw(tax=19)
    lines = [{"description": "Half of it", "qty": 0.5, "unit_price": 99.99}]
    note = credit(studio, record, invoice_items=lines)
    assert (note["amount"], note["total"], note["invoice_items"]) == (50, 59.5, as_shown(lines))
    assert sums(studio, record) == ("sent", 0, 59.5, 59.5, 0)
    refused = studio.owner.refused(
        422, "POST", f"/invoices/{record['id']}/credit_notes", json={"reason": "x", "invoice_items": [WORK]}
    )
    assert [(each["field"], each["code"]) for each in refused["errors"]] == [("invoice_items", "more_than_due")]


def test_an_overpaid_amount_after_a_credit_is_to_be_refunded(studio: Studio, draw: Draw) -> None:
    record = draw()
    payment = pay(studio, record)
    credit(studio, record, total=40)
    assert sums(studio, record) == ("paid", 100, 40, 0, 40)
    refund(studio, payment, amount=40)
    assert sums(studio, record) == ("paid", 60, 40, 0, 0)
    credit(studio, record)
    assert sums(studio, record) == ("credited", 60, 100, 0, 60)
    path = f"/invoices/{record['id']}"
    assert studio.owner.refused(409, "POST", f"{path}/payments")["code"] == "nothing_due"
    assert studio.owner.refused(409, "POST", f"{path}/pay")["code"] == "nothing_due"
    assert studio.owner.refused(409, "POST", f"{path}/credit_notes", json={"reason": "x"})["code"] == "nothing_due"
    assert studio.owner.refused(409, "POST", f"{path}/void")["code"] == "has_credit_notes"
    refund(studio, payment)
    assert sums(studio, record) == ("credited", 0, 100, 0, 0)


def test_a_credit_alone_is_not_a_payment(studio: Studio, draw: Draw) -> None:
    record = draw()
    credit(studio, record)
    assert sums(studio, record) == ("credited", 0, 100, 0, 0)
    assert now(studio, record)["paid_at"] is None
    other = draw()
    pay(studio, other, amount=60)
    note = credit(studio, other)
    assert sums(studio, other) == ("credited", 60, 100, 0, 60)
    assert now(studio, other)["paid_at"] == note["issued"]


def test_invalid_credit_notes_are_refused(studio: Studio, draw: Draw) -> None:
    cases: list[tuple[dict[str, Any], set[str]]] = [
        ({}, {"reason"}),
        ({"reason": " "}, {"reason"}),
        ({"reason": "x", "total": 0}, {"total"}),
        ({"reason": "x", "total": 100.01}, {"total"}),
        ({"reason": "x", "total": 1, "invoice_items": [WORK]}, {"total"}),
        ({"reason": "x", "invoice_items": []}, {"invoice_items"}),
        ({"reason": "x", "invoice_items": [{**WORK, "unit_price": 0}]}, {"invoice_items"}),
        ({"reason": "x", "invoice_items": [{**WORK, "qty": 10**8, "unit_price": 10**8}]}, {"invoice_items"}),
    ]
    record = draw()
    for body, fields in cases:
        assert set(studio.owner.faults("POST", f"/invoices/{record['id']}/credit_notes", json=body)) == fields, body
        assert now(studio, record) == record, body
