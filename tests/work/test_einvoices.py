"""E-invoices: validity under the official EN 16931 schema and rules, and missing data."""

from __future__ import annotations

import random
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.harness.depth import DEEP, deep
from tests.work.official_rules import complaints
from tests.work.scene import Scene
from tests.work.studio import Studio

_RAM = "{urn:un:unece:uncefact:data:standard:ReusableAggregateBusinessInformationEntity:100}"
BUYER = {
    "name": "Büro Ö & Co",
    "address": "Ring 2\nStiege 3\nTür 4\n1010 Wien",
    "vat_id": "ATU12345678",
    "country": "AT",
}


class Bills:
    """A studio with the data an e-invoice requires."""

    def __init__(self, studio: Studio) -> None:
        self.studio, self.owner = studio, studio.owner
        self.account = f"/organizations/{studio.world.organization}/billing"
        self.settings = f"{studio.project}/billing"

    def settle(self, **more: Any) -> None:
        seller = {"legal_name": "Acme GmbH", "address": "Lindenstr. 1\n10969 Berlin", "vat_id": "DE123456789"}
        bank = {"iban": "DE89 3704 0044 0532 0130 00", "bic": "COBADEFFXXX", "email": "books@acme.example"}
        self.owner.patch(self.account, json={**seller, **bank, "country": "de", **more})
        self.owner.patch(self.settings, json={"buyer": BUYER})

    def send(self, *lines: Any, **more: Any) -> str:
        return str(self.studio.invoice("send", invoice_items=list(lines), **more)["id"])

    def document(self, invoice_id: str, kind: str = "invoices") -> bytes:
        """Return the document after validating it against the official rules."""
        answer = self.owner.call("GET", f"/{kind}/{invoice_id}/xml")
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "application/xml"
        assert complaints(answer.content) == []
        return answer.content


@pytest.fixture
def bills(studio: Studio) -> Bills:
    return Bills(studio)


def line(price: float, **more: Any) -> dict[str, Any]:
    return {"description": "Design\nof all pages", "qty": 1, "unit_price": price, **more}


def texts(document: bytes, name: str) -> list[str]:
    return [each.text or "" for each in ET.fromstring(document).iter(f"{_RAM}{name}")]  # produced by this project


def test_an_e_invoice_contains_the_data_of_its_invoice(bills: Bills) -> None:
    bills.settle(payment_days=14)
    lines = [line(100, discount=10), line(50, tax=7, qty=2.5), line(7, tax_category="exempt")]
    sent = bills.send(*lines, tax=19, discount=10, payment_method="Transfer \u0007 please")
    bills.owner.post(f"/invoices/{sent}/payments", json={"amount": 20})
    document, record = bills.document(sent), bills.owner.get(f"/invoices/{sent}")["invoice"]
    assert bills.owner.get(f"/invoices/{sent}")["invoice"]["seller"]["country"] == "DE"
    assert texts(document, "TypeCode")[0] == "380"
    assert texts(document, "CountryID") == ["DE", "AT"]
    assert texts(document, "Name") == ["Design", "Design", "Design", "Acme GmbH", "Büro Ö & Co"]
    assert texts(document, "LineThree") == ["Tür 4, 1010 Wien"]
    assert texts(document, "LineTotalAmount") == ["90.00", "125.00", "7.00", "222.00"]
    assert texts(document, "AllowanceTotalAmount") == ["22.20"]
    assert sum(map(float, texts(document, "TaxTotalAmount"))) == pytest.approx(record["total"] - record["amount"])
    for name, value in (
        ("TaxBasisTotalAmount", record["amount"]),
        ("GrandTotalAmount", record["total"]),
        ("TotalPrepaidAmount", 20),
        ("DuePayableAmount", record["amount_due"]),
    ):
        assert texts(document, name) == [f"{value:.2f}"]
    assert (texts(document, "IBANID"), texts(document, "BICID")) == (["DE89370400440532013000"], ["COBADEFFXXX"])


def test_time_is_billed_in_hours(bills: Bills, scene: Scene) -> None:
    bills.settle()
    given = {"task_id": scene.task(), "duration": 4_000_000, "billable": True, "billable_rate": 80}
    spent = bills.owner.post(f"{bills.studio.project}/timesheets", json=given)["timesheet"]
    document = bills.document(bills.send(timesheet_ids=[spent["id"]], tax=20))
    assert b'unitCode="HUR">1.111111<' in document


def test_characters_invalid_in_xml_are_removed(bills: Bills) -> None:
    bills.settle()
    document = bills.document(bills.send(line(5, description="\u0001"), line(1, description="a\u000bb & <c>\n\u0001")))
    assert texts(document, "Name")[:2] == ["-", "ab & <c>"]


def test_reverse_charge_states_its_exemption_reason(bills: Bills) -> None:
    bills.settle()
    document = bills.document(bills.send(line(100), tax_category="reverse_charge"))
    assert texts(document, "ExemptionReasonCode") == ["VATEX-EU-AE"]
    assert "AE" in texts(document, "CategoryCode")


@pytest.mark.parametrize("total", [5, None])
def test_a_credit_note_references_its_invoice(bills: Bills, total: int | None) -> None:
    bills.settle()
    sent = bills.send(line(100), line(50, tax=7), tax=19, discount=10)
    what = {"total": total} if total else {"invoice_items": [line(10), line(5, tax=7, discount=50)]}
    made = bills.owner.post(f"/invoices/{sent}/credit_notes", json={**what, "reason": "Late"})["credit_note"]
    document = bills.document(made["id"], "credit_notes")
    assert texts(document, "TypeCode")[0] == "381"
    assert texts(document, "GrandTotalAmount") == [f"{made['total']:.2f}"]
    number = bills.owner.get(f"/invoices/{sent}")["invoice"]["invoice_number"]
    assert texts(document, "IssuerAssignedID") == [number]
    bills.document(sent)


def test_errors_name_the_missing_data_and_where_to_enter_it(bills: Bills) -> None:
    sent = bills.send(line(100), tax=19)
    answer = bills.owner.call("GET", f"/invoices/{sent}/xml")
    assert answer.status_code == 422
    found = {each["field"]: each["message"] for each in answer.json()["errors"]}
    assert list(found) == ["seller.country", "seller.vat_id", "buyer.country", "buyer.name"]
    assert bills.account in found["seller.country"]
    assert bills.settings in found["buyer.country"]
    others = bills.studio.client.call("GET", f"/invoices/{sent}/xml").json()["errors"]
    assert [each["field"] for each in others] == list(found)
    ends = {each["message"].partition("; ")[2] for each in others}
    assert ends == {"the seller must complete its billing settings"}
    # A country may be added later; printed data stays as it was when the invoice was sent.
    bills.settle()
    again = bills.owner.call("GET", f"/invoices/{sent}/xml")
    assert [each["field"] for each in again.json()["errors"]] == ["seller.vat_id", "buyer.name"]
    assert bills.document(bills.send(line(100), tax=19))


def _tax_registrations(document: bytes) -> dict[str | None, str | None]:
    """Return the seller's tax registrations by scheme, with the seller's identifier under None."""
    [seller] = ET.fromstring(document).iter(f"{_RAM}SellerTradeParty")  # produced by this project
    found = [*seller.findall(f"{_RAM}ID"), *seller.findall(f"{_RAM}SpecifiedTaxRegistration/{_RAM}ID")]
    return {each.get("schemeID"): each.text for each in found}


@pytest.mark.parametrize("rate", [{"tax": 19}, {"tax_category": "zero"}, {"tax_category": "exempt"}, {}])
def test_a_tax_number_suffices_without_a_vat_id(bills: Bills, rate: dict[str, Any]) -> None:
    bills.settle(vat_id=None, tax_number="21/815/08150")
    sent = bills.send(line(100), line(5, **rate))
    only = {None: "21/815/08150", "FC": "21/815/08150"}
    assert _tax_registrations(bills.document(sent)) == only
    body = {"total": 5, "reason": "Late"}
    note = bills.owner.post(f"/invoices/{sent}/credit_notes", json=body)["credit_note"]["id"]
    assert _tax_registrations(bills.document(note, "credit_notes")) == only
    # A sent invoice keeps the data it was sent with.
    bills.owner.patch(bills.account, json={"vat_id": "DE123456789", "tax_number": "1"})
    assert _tax_registrations(bills.document(sent)) == only
    assert _tax_registrations(bills.document(bills.send(line(1)))) == {"VA": "DE123456789", "FC": "1"}


def test_reverse_charge_requires_a_vat_id(bills: Bills) -> None:
    bills.settle(vat_id=None, tax_number="21/815/08150")
    body = {"invoice_items": [line(100)], "tax_category": "reverse_charge"}
    draft = bills.owner.post(f"{bills.studio.project}/invoices", json=body)["invoice"]["id"]
    assert bills.owner.faults("POST", f"/invoices/{draft}/send") == {"seller.vat_id": "missing"}


def test_drafts_and_void_invoices_have_no_document(bills: Bills) -> None:
    bills.settle()
    body = {"invoice_items": [line(100)]}
    draft = bills.owner.post(f"{bills.studio.project}/invoices", json=body)["invoice"]["id"]
    assert bills.owner.refused(409, "GET", f"/invoices/{draft}/xml")
    sent = bills.send(line(100))
    bills.owner.post(f"/invoices/{sent}/void")
    assert bills.owner.refused(409, "GET", f"/invoices/{sent}/xml")


def test_amounts_with_three_decimals_are_refused(bills: Bills) -> None:
    bills.settle()
    answer = bills.owner.call("GET", f"/invoices/{bills.send(line(1.125), currency='KWD')}/xml")
    assert answer.status_code == 422
    assert [each["field"] for each in answer.json()["errors"]] == ["currency"]
    bills.document(bills.send(line(1.25), currency="KWD"))
    bills.document(bills.send(line(1005), currency="JPY", tax=10))


def test_an_invalid_country_is_refused(bills: Bills) -> None:
    for country in ("XX", "D", "DEU", "Österreich", ""):
        faults = bills.owner.faults("PATCH", bills.account, json={"country": country})
        assert faults == {"country": "invalid"}, country
        faults = bills.owner.faults("PATCH", bills.settings, json={"buyer": {"country": country}})
        assert faults == {"buyer.country": "invalid"}, country


_RATES: list[dict[str, Any]] = [
    {"tax": 19}, {"tax": 7.7}, {"tax": 8.1234}, {"tax": 0, "tax_category": "standard"}, {"tax_category": "zero"},
    {"tax_category": "exempt"}, {"tax_category": "reverse_charge"}, {},
]  # fmt: skip


@pytest.mark.parametrize("seed", range(deep(2, 20)))
def test_random_invoices_are_valid(bills: Bills, seed: int) -> None:
    chance = random.Random(random.SystemRandom().getrandbits(32) if DEEP else seed)
    bills.settle(tax_number=chance.choice((None, "21/815/08150")))

    def some_line() -> dict[str, Any]:
        off = chance.choice(({}, {}, {"discount": chance.randint(0, 100)}))
        qty = chance.choice((1, 0.333333, 12.5, 3))
        return line(chance.randint(0, 100_000) / 100, qty=qty, **chance.choice(_RATES), **off)

    for _ in range(8):
        off = chance.choice(({}, {"discount": 10}, {"discount": 33.3333}, {"discount": 100}))
        currency = chance.choice(("EUR", "EUR", "JPY", "CHF"))
        lines = [some_line() for _ in range(chance.randint(1, 6))]
        if currency == "JPY":
            lines = [{**each, "unit_price": int(each["unit_price"])} for each in lines]
        sent = bills.send(*lines, **chance.choice(_RATES), **off, currency=currency)
        bills.document(sent)
        record = bills.owner.get(f"/invoices/{sent}")["invoice"]
        if record["amount_due"] >= 4:
            bills.owner.post(f"/invoices/{sent}/payments", json={"amount": int(record["amount_due"] / 2)})
            body = {"total": int(record["amount_due"] / 4), "reason": "x"}
            note = bills.owner.post(f"/invoices/{sent}/credit_notes", json=body)["credit_note"]
            bills.document(note["id"], "credit_notes")
            bills.document(sent)
