"""Credit notes by total, by rate and by line, which never exceed the amounts billed at a rate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.work.paper import printed
from tests.work.scene import Scene
from tests.work.studio import Studio

Draw = Callable[..., Any]
DESIGN = {"description": "Design", "qty": 1, "unit_price": 100, "tax": 19}
BOOK = {"description": "Book", "qty": 1, "unit_price": 50, "tax": 7}
PRINT = {"description": "Print", "qty": 1, "unit_price": 10, "tax_category": "exempt"}


@pytest.fixture
def draw(studio: Studio) -> Draw:
    """Return a function that sends an invoice, by default of 100 at 19 % and 50 at 7 %, and returns its path."""

    return lambda *lines, **more: (
        f"/invoices/{studio.invoice('send', invoice_items=lines or [DESIGN, BOOK], **more)['id']}"
    )


def credit(studio: Studio, path: str, **body: Any) -> Any:
    return studio.owner.post(f"{path}/credit_notes", json={"reason": "Late", **body})["credit_note"]


def refused(studio: Studio, path: str, **body: Any) -> list[tuple[str, str, str]]:
    found = studio.owner.refused(422, "POST", f"{path}/credit_notes", json={"reason": "Late", **body})
    return [(each["field"], each["code"], each["message"].partition(": ")[2]) for each in found["errors"]]


def rows(record: Any) -> list[tuple[Any, ...]]:
    return [(each["percent"], each["base"], each["tax"]) for each in record["taxes"]]


def test_the_credit_at_a_rate_is_limited_to_the_billed_amount(studio: Studio, draw: Draw) -> None:
    path = draw()
    left = "at the tax rate 7 %, at most 50 EUR before tax can still be credited"
    wanted = [{**BOOK, "qty": 2}]
    assert refused(studio, path, invoice_items=wanted) == [("invoice_items", "more_than_due", left)]
    left = "at the tax rate 7 %, at most 53.5 EUR can still be credited"
    assert refused(studio, path, total=53.51, tax=7) == [("total", "more_than_due", left)]
    credit(studio, path, total=53.5, tax=7)
    [(field, code, _)] = refused(studio, path, total=0.01, tax=7)
    assert (field, code) == ("total", "more_than_due")
    body = {"reason": "x", "tax": 7}
    assert studio.owner.refused(409, "POST", f"{path}/credit_notes", json=body)["code"] == "nothing_due"
    assert refused(studio, path, total=119.01)[0][:2] == ("total", "more_than_due")
    assert rows(credit(studio, path, total=119)) == [(19, 100, 19)]


def test_a_rate_not_on_the_invoice_is_refused(studio: Studio, draw: Draw) -> None:
    path = draw()
    has = "the invoice has no lines at this rate; its rates are 19 %, 7 %"
    assert refused(studio, path, total=1, tax=20) == [("tax", "not_on_invoice", has)]
    assert refused(studio, path, total=1, tax_category="exempt") == [("tax_category", "not_on_invoice", has)]
    lines = [{**BOOK, "tax": 19}, {**BOOK, "tax": 20}, {**BOOK, "tax": 0}]
    assert refused(studio, path, invoice_items=lines) == [
        ("invoice_items[1].tax", "not_on_invoice", has),
        ("invoice_items[2].tax", "not_on_invoice", has),
    ]


def test_a_line_without_a_rate_requires_an_unambiguous_one(studio: Studio, draw: Draw) -> None:
    plain = {"description": "Something", "qty": 1, "unit_price": 10}
    wanted = "specify the tax rate to credit; the invoice's rates are 19 %, 7 %"
    assert refused(studio, draw(), invoice_items=[plain]) == [("invoice_items[0].tax", "missing", wanted)]
    only = draw(DESIGN)
    note = credit(studio, only, invoice_items=[plain])
    assert (rows(note), note["invoice_items"][0]["tax"]) == ([(19, 10, 1.9)], 19)
    own = draw({**DESIGN, "tax": None}, BOOK, tax=19)
    note = credit(studio, own, invoice_items=[plain])
    assert (rows(note), "tax" in note["invoice_items"][0]) == ([(19, 10, 1.9)], False)
    two = draw(PRINT, {**PRINT, "tax_category": "zero"})
    wanted = "specify the tax rate to credit; the invoice's rates are 0 % (zero), 0 % (exempt)"
    assert refused(studio, two, total=1, tax=0) == [("tax_category", "missing", wanted)]
    assert [each["category"] for each in credit(studio, two, total=1, tax_category="exempt")["taxes"]] == ["exempt"]


def test_a_rate_can_be_credited_in_part_and_in_full(studio: Studio, draw: Draw) -> None:
    path = draw()
    assert rows(credit(studio, path, total=10.7, tax=7)) == [(7, 10, 0.7)]
    assert rows(credit(studio, path, tax=7)) == [(7, 40, 2.8)]
    assert studio.owner.get(path)["invoice"]["amount_credited"] == 53.5
    lines = [{**DESIGN, "unit_price": 20}]
    for name, value in (("total", 1), ("tax", 19), ("tax_category", "standard")):
        [(field, _, said)] = refused(studio, path, **{name: value}, invoice_items=lines)
        assert (field, "omit one or the other" in said) == (name, True)


def test_a_credit_by_rate_is_printed_with_that_rate_only(studio: Studio, draw: Draw) -> None:
    note = credit(studio, draw(), tax=7)
    shown = printed(studio, note["id"], "credit_notes")
    assert "53.50" in shown
    assert "119" not in shown


def test_crediting_an_invoice_in_full_releases_its_time(studio: Studio, scene: Scene) -> None:
    timesheet = scene.timesheet(billable_rate=100)

    def bill() -> str:
        body = {"timesheet_ids": [timesheet], "currency": "EUR", "tax": 19}
        invoice = studio.owner.post(f"{studio.project}/invoices", json=body)["invoice"]["id"]
        studio.owner.post(f"/invoices/{invoice}/send")
        return f"/invoices/{invoice}"

    first = bill()
    credit(studio, first, total=1)
    body = {"timesheet_ids": [timesheet]}
    assert studio.owner.refused(422, "POST", f"{studio.project}/invoices", json=body)
    credit(studio, first)
    assert studio.owner.get(f"{studio.project}/timesheets", params={"invoiced": "true"})["timesheets"] == []
    assert len(studio.owner.get(first)["invoice"]["invoice_items"]) == 1, "what was billed stays on paper"
    bill()
    assert len(studio.owner.get(f"{studio.project}/timesheets", params={"invoiced": "true"})["timesheets"]) == 1


def test_voiding_a_zero_invoice_releases_its_time(studio: Studio, scene: Scene) -> None:
    timesheet = scene.timesheet(billable_rate=0)
    body = {"timesheet_ids": [timesheet]}
    invoice = studio.owner.post(f"{studio.project}/invoices", json=body)["invoice"]["id"]
    assert studio.owner.post(f"/invoices/{invoice}/send")["invoice"]["status"] == "paid"
    assert studio.owner.post(f"/invoices/{invoice}/void")["invoice"]["status"] == "void"
    assert studio.owner.post(f"{studio.project}/invoices", json=body)
