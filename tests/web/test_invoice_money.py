"""The money of an invoice on its page: payments, refunds and credit notes, each booked exactly once."""

from __future__ import annotations

import pytest

from tests.harness.server import Server
from tests.web.browser import forms
from tests.web.studio import HOSTILE, Studio, open_studio, page_of, send, text_of, undo
from tests.work.paper import as_shown

pytestmark = pytest.mark.one_database


@pytest.fixture
def path(studio: Studio) -> str:
    """Return the path of the page of an issued invoice of 120 EUR."""
    items = [{"description": "Design", "qty": 1, "unit_price": 100}]
    body = {"currency": "EUR", "tax": 20, "invoice_items": items}
    invoice = studio.call("POST", f"{studio.project}/invoices", **body)["invoice"]["id"]
    studio.call("POST", f"/invoices/{invoice}/send")
    return f"{studio.base}/billing/{invoice}"


def payments(studio: Studio, path: str) -> list[str]:
    invoice = path.rpartition("/")[2]
    return [each["id"] for each in studio.call("GET", f"/invoices/{invoice}/payments")["payments"]]


def test_an_invoice_is_partly_paid_refunded_and_credited(studio: Studio, path: str) -> None:
    page = page_of(studio.member, path)
    assert 'name="amount" value="120.00"' in page, "the form contains the amount due"
    paid = send(
        studio.member, f"{path}/payments", was="0/0", amount="20.50", paid_at="2026-11-20", method=HOSTILE,
        reference=HOSTILE,
    )  # fmt: skip
    assert (paid.status_code, paid.headers["location"]) == (303, f"{path}#money")
    page = page_of(studio.client, path)
    assert "<img" not in page[page.index("<main") :]
    text = text_of(page)
    for shown in ("Partially paid", HOSTILE, "20.50 EUR", "Amount due: 99.50 EUR"):
        assert shown in text
    [payment] = payments(studio, path)
    given = send(studio.member, f"{path}/payments/{payment}/refund", was="2050/0", amount="0.50")
    assert given.status_code == 303
    assert "Amount due: 100.00 EUR" in text_of(page_of(studio.member, path))
    noted = send(studio.member, f"{path}/credit_notes", was="2000/0", total="110", reason=HOSTILE)
    assert noted.status_code == 303
    text = text_of(page_of(studio.client, path))
    for shown in ("CN-00001", HOSTILE, "Credited: 110.00 EUR", "Refund due: 10.00 EUR"):
        assert shown in text
    note = studio.call("GET", f"/invoices/{path.rpartition('/')[2]}/credit_notes")["credit_notes"][0]["id"]
    assert studio.client.get(f"{path}/credit_notes/{note}/pdf").content.startswith(b"%PDF")


def test_a_form_sent_twice_books_once(studio: Studio, path: str) -> None:
    for status in (303, 409):
        assert send(studio.member, f"{path}/payments", was="0/0", amount="10").status_code == status
    assert len(payments(studio, path)) == 1
    for status in (303, 409):
        assert send(studio.member, f"{path}/credit_notes", was="1000/0", total="10", reason="x").status_code == status
    assert "Credited: 10.00 EUR" in text_of(page_of(studio.member, path))


@pytest.mark.parametrize(
    ("form", "fields", "said"),
    [
        ("payments", {"amount": "120.01"}, "Enter at most the amount due, 120 EUR."),
        ("payments", {"amount": "much"}, "is not an amount"),
        ("payments", {"amount": "1", "paid_at": "2999-01-01"}, "more than a day in the future"),
        ("credit_notes", {"total": "200", "reason": "x"}, "Only 120 EUR is left to credit."),
        ("credit_notes", {"total": "1", "reason": ""}, "Reason"),
    ],
)
def test_a_refused_form_keeps_its_input(
    studio: Studio, path: str, form: str, fields: dict[str, str], said: str
) -> None:
    answer = send(studio.member, f"{path}/{form}", was="0/0", **fields)
    assert answer.status_code == 422
    assert said in text_of(answer.text)
    for value in filter(None, fields.values()):
        assert f'value="{value}"' in answer.text
    assert answer.text.count(" open><summary") == 1, "only the form that was sent is open"
    assert payments(studio, path) == []


def test_payments_of_another_invoice_are_not_found(studio: Studio, path: str) -> None:
    send(studio.member, f"{path}/payments", was="0/0", amount="10")
    [payment] = payments(studio, path)
    items = [{"description": "Else", "qty": 1, "unit_price": 50}]
    other = studio.call("POST", f"{studio.project}/invoices", invoice_items=items)["invoice"]["id"]
    studio.call("POST", f"/invoices/{other}/send")
    there = f"{studio.base}/billing/{other}/payments/{payment}/refund"
    assert send(studio.member, there, was="0/0").status_code == 404


def test_clients_and_strangers_cannot_book(server: Server, studio: Studio, path: str) -> None:
    assert send(studio.client, f"{path}/payments", was="0/0", amount="10").status_code == 403
    with open_studio(server) as other:
        for form in ("payments", "credit_notes"):
            assert send(other.owner, f"{path}/{form}", was="0/0", reason="x").status_code == 404
    assert payments(studio, path) == []


def test_a_draft_has_discounts_and_several_taxes(studio: Studio) -> None:
    invoice = studio.call("POST", f"{studio.project}/invoices", currency="EUR", tax=20)["invoice"]["id"]
    path = f"{studio.base}/billing/{invoice}"
    line = {"description": "Design", "qty": "2", "unit_price": "50.00"}
    assert send(studio.member, f"{path}/lines", **line, discount="10", tax="").status_code == 303
    assert send(studio.member, f"{path}/lines", **line, discount="", tax="10").status_code == 303
    form = studio.member.form(f"{path}/edit").fields
    assert send(studio.member, f"{path}/edit", **{**form, "discount": "50"}).status_code == 303
    text = text_of(page_of(studio.member, path))
    for shown in (
        "discount 10.00 EUR", "tax 10%", "Subtotal : 190.00 EUR", "95.00 EUR",
        "Tax 20% of 45.00 EUR : 9.00 EUR", "Tax 10% of 50.00 EUR : 5.00 EUR", "Total: 109.00 EUR",
    ):  # fmt: skip
        assert shown.replace(" :", ":") in text.replace(" :", ":"), text
    assert 'name="discount" value="50"' in page_of(studio.member, f"{path}/edit")
    assert 'name="discount" value="10"' in page_of(studio.member, f"{path}/lines/1")
    wrong = send(studio.member, f"{path}/lines", **line, discount="101", tax="much")
    assert wrong.status_code == 422
    assert "Line item discount and tax" in text_of(wrong.text)
    assert 'id="tax-fault"' in wrong.text
    wrong = send(studio.member, f"{path}/lines/1", **line, discount="101", was="")
    assert 'id="discount-fault"' in wrong.text


def test_line_details_missing_from_the_form_are_kept(studio: Studio) -> None:
    items = [
        {"description": "Design", "qty": 1, "unit_price": 100, "discount_amount": 5, "tax_category": "exempt"},
        {"description": "Print", "qty": 1, "unit_price": 10, "tax": 7},
    ]
    body = {"invoice_items": items, "discount_amount": 3, "tax": 20}
    invoice = studio.call("POST", f"{studio.project}/invoices", **body)["invoice"]["id"]
    path = f"{studio.base}/billing/{invoice}"

    def lines() -> list[dict[str, object]]:
        found: list[dict[str, object]] = studio.call("GET", f"/invoices/{invoice}")["invoice"]["invoice_items"]
        return found

    form = studio.member.form(f"{path}/lines/1").fields
    saved = send(studio.member, f"{path}/lines/1", **{**form, "description": "Design", "unit_price": "90.00"})
    assert saved.status_code == 303, text_of(saved.text)[:700]
    assert lines() == as_shown([{**items[0], "unit_price": 90}, items[1]])
    form = studio.member.form(f"{path}/edit").fields
    assert send(studio.member, f"{path}/edit", **{**form, "bill_to": "Client"}).status_code == 303
    assert studio.call("GET", f"/invoices/{invoice}")["invoice"]["discount_amount"] == 3
    form = next(each.fields for each in forms(studio.member.get(path)) if each.action == f"{path}/lines/1/remove")
    removed = send(studio.member, f"{path}/lines/1/remove", **form)
    undo(studio.member, removed)
    assert lines() == as_shown([{**items[0], "unit_price": 90}, items[1]])


def test_a_line_with_cleared_tax_uses_the_tax_of_the_invoice(studio: Studio) -> None:
    line = {"description": "Design", "qty": 1, "unit_price": 100, "tax": 0, "tax_category": "exempt"}
    body = {"invoice_items": [line], "tax": 20}
    invoice = studio.call("POST", f"{studio.project}/invoices", **body)["invoice"]["id"]
    path = f"{studio.base}/billing/{invoice}/lines/1"
    form = {**studio.member.form(path).fields, "description": "Design"}
    assert send(studio.member, path, **form).status_code == 303
    assert studio.call("GET", f"/invoices/{invoice}")["invoice"]["taxes"][0]["category"] == "exempt"
    form = {**studio.member.form(path).fields, "description": "Design", "tax": ""}
    assert send(studio.member, path, **form).status_code == 303
    assert studio.call("GET", f"/invoices/{invoice}")["invoice"]["total"] == 120


def test_the_page_gives_the_reason_for_zero_tax(studio: Studio) -> None:
    line = {"description": "Design", "qty": 1, "unit_price": 100}
    items = [line, {**line, "tax": 0, "tax_category": "exempt"}, {**line, "tax": 0, "tax_category": "zero"}]
    several = studio.call("POST", f"{studio.project}/invoices", invoice_items=items, tax=20)["invoice"]["id"]
    text = text_of(page_of(studio.member, f"{studio.base}/billing/{several}"))
    assert "tax 0% (exempt from tax)" in text
    assert text.count("(exempt from tax)") == 2
    body = {"invoice_items": [line], "tax_category": "exempt"}
    alone = studio.call("POST", f"{studio.project}/invoices", **body)["invoice"]["id"]
    assert "Tax 0% (exempt from tax)" in text_of(page_of(studio.member, f"{studio.base}/billing/{alone}"))


@pytest.fixture
def mixed(studio: Studio) -> str:
    """Return the path of the page of an issued invoice: 100 EUR at 19 % and 50 EUR at 7 %, less 10 %."""
    items = [
        {"description": "Design", "qty": 1, "unit_price": 100, "tax": 19},
        {"description": HOSTILE, "qty": 2, "unit_price": 25, "tax": 7},
    ]
    body = {"currency": "EUR", "discount": 10, "invoice_items": items}
    invoice = studio.call("POST", f"{studio.project}/invoices", **body)["invoice"]["id"]
    studio.call("POST", f"/invoices/{invoice}/send")
    return f"{studio.base}/billing/{invoice}"


def credited(studio: Studio, path: str) -> list[list[tuple[object, ...]]]:
    notes = studio.call("GET", f"/invoices/{path.rpartition('/')[2]}/credit_notes")["credit_notes"]
    return [[(each["percent"], each["base"], each["tax"]) for each in note["taxes"]] for note in notes]


def test_a_single_tax_rate_is_credited(studio: Studio, mixed: str) -> None:
    page = page_of(studio.member, mixed)
    assert "7% (48.15 EUR)" in page
    wrong = send(studio.member, f"{mixed}/credit_notes", was="0/0", rate="1", total="48.16", reason="x")
    assert (wrong.status_code, "At 7 %, only 48.15 EUR is left to credit" in text_of(wrong.text)) == (422, True)
    assert '<option value="1" selected>' in wrong.text
    sent = send(studio.member, f"{mixed}/credit_notes", was="0/0", rate="1", total="10.70", reason="x")
    assert sent.status_code == 303
    assert send(studio.member, f"{mixed}/credit_notes", was="0/1070", rate="1", total="", reason="x").status_code == 303
    assert credited(studio, mixed) == [[(7, 10, 0.7)], [(7, 35, 2.45)]]
    assert "7% (" not in page_of(studio.member, mixed)
    assert send(studio.member, f"{mixed}/credit_notes", was="0/4815", rate="9", reason="x").status_code == 422


def test_a_line_is_credited_with_its_share_of_the_discount(studio: Studio, mixed: str) -> None:
    page = page_of(studio.member, mixed)
    assert "1. Design · 90.00 EUR · 19%" in page
    fields = {"was": "0/0", "line": "1", "reason": "x"}
    wrong = send(studio.member, f"{mixed}/credit_notes", **fields, unit_price="45.01")
    assert (wrong.status_code, wrong.text.count(" open><summary")) == (422, 1)
    assert "At 7 %, only 45 EUR before tax is left to credit" in text_of(wrong.text)
    assert send(studio.member, f"{mixed}/credit_notes", **fields, unit_price="5").status_code == 303
    assert send(studio.member, f"{mixed}/credit_notes", **{**fields, "was": "0/535"}).status_code == 303
    assert credited(studio, mixed) == [[(7, 5, 0.35)], [(7, 40, 2.8)]]
    assert send(studio.member, f"{mixed}/credit_notes", **{**fields, "was": "0/4815", "line": "7"}).status_code == 422


def test_a_credited_line_is_not_offered_again(studio: Studio) -> None:
    items = [{"description": each, "qty": 1, "unit_price": 100} for each in ("Design", "Print")]
    invoice = studio.call("POST", f"{studio.project}/invoices", invoice_items=items, tax=19)["invoice"]["id"]
    studio.call("POST", f"/invoices/{invoice}/send")
    path = f"{studio.base}/billing/{invoice}"
    first = {"line": "0", "reason": "x"}
    assert send(studio.member, f"{path}/credit_notes", **first, was="0/0").status_code == 303
    page = page_of(studio.member, path)
    assert ("1. Design" in page, "2. Print" in page) == (False, True)
    assert send(studio.member, f"{path}/credit_notes", **first, was="0/11900").status_code == 422
    assert send(studio.member, f"{path}/credit_notes", **{**first, "line": "1"}, was="0/11900").status_code == 303
    assert studio.call("GET", f"/invoices/{invoice}")["invoice"]["status"] == "credited"


def test_lists_show_the_amount_due_of_a_partly_credited_invoice(studio: Studio, path: str) -> None:
    send(studio.member, f"{path}/credit_notes", was="0/0", total="20", reason="x")
    for where in (f"{studio.base}/billing", "/invoices"):
        assert "100.00 EUR due" in text_of(page_of(studio.member, where))
