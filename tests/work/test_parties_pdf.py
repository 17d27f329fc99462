"""Seller and buyer on printed invoices: names, VAT IDs, bank details and the QR code, in the invoice's language."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pypdf import PdfReader

from tests.work.paper import LINE, printed, read, text_of
from tests.work.studio import Studio

pytestmark = pytest.mark.one_database

IBAN = "DE89370400440532013000"
CODE = "SCAN TO PAY"


@pytest.fixture
def parties(studio: Studio) -> str:
    """Set both parties, and return the path of the organization's settings."""
    account = f"/organizations/{studio.world.organization}/billing"
    seller = {"legal_name": "Acme GmbH", "address": "Lindenstr. 1\n10969 Berlin", "vat_id": "DE123456789"}
    studio.owner.patch(account, json={**seller, "email": "b@acme.example", "iban": IBAN, "bic": "COBADEFFXXX"})
    buyer = {"name": "Client AG", "address": "Ring 2\n1010 Wien", "vat_id": "ATU12345678"}
    studio.owner.patch(f"{studio.project}/billing", json={"buyer": buyer})
    return account


def draw(studio: Studio, *steps: str, **more: Any) -> str:
    return str(studio.invoice(*steps, **{"invoice_items": [LINE], **more})["id"])


def test_parties_and_bank_details_are_printed_in_english(studio: Studio, parties: str) -> None:
    text = printed(studio, draw(studio, "send", tax=19))
    for shown in (
        "Acme GmbH Lindenstr. 1 10969 Berlin VAT ID DE123456789 b@acme.example",
        "Client AG Ring 2 1010 Wien VAT ID ATU12345678",
        "BANK DETAILS IBAN DE89 3704 0044 0532 0130 00 BIC COBADEFFXXX", "Tax 19% 370.50 EUR", "Page 1 of 1", CODE,
    ):  # fmt: skip
        assert shown in text, (shown, text)


def test_an_invoice_is_printed_in_german(studio: Studio, parties: str) -> None:
    invoice_id = draw(studio, "send", tax=19, language="de", due="2030-12-24")
    reader: PdfReader = read(studio, invoice_id)
    text = " ".join(text_of(reader).split())
    for shown in (
        "Rechnung INV-00001", "USt-IdNr. DE123456789", "BESCHREIBUNG MENGE EINZELPREIS BETRAG",
        "Design 1,5 1.299,99 1.949,99", "Zwischensumme 1.949,99 EUR", "USt. 19 % 370,50 EUR", "Gesamt 2.320,49 EUR",
        "24.12.2030", "BANKVERBINDUNG", "Seite 1 von 1",
    ):  # fmt: skip
        assert shown in text, (shown, text)
    assert reader.metadata is not None
    assert reader.metadata.title == "Rechnung INV-00001"
    assert str(reader.root_object["/Lang"]) == "de"


def test_a_tax_number_is_printed_after_or_instead_of_the_vat_id(studio: Studio, parties: str) -> None:
    studio.owner.patch(parties, json={"tax_number": "21/815/08150"})
    sent = draw(studio, "send")
    assert "VAT ID DE123456789 Tax number 21/815/08150 b@acme.example" in printed(studio, sent)
    studio.owner.patch(parties, json={"vat_id": None, "tax_number": "21/815/08151"})
    shown = printed(studio, draw(studio, "send", language="de"))
    assert "10969 Berlin Steuernummer 21/815/08151 b@acme.example" in shown
    assert "21/815/08150" in printed(studio, sent)
    note = studio.owner.post(f"/invoices/{sent}/credit_notes", json={"reason": "Late"})["credit_note"]["id"]
    assert "Tax number 21/815/08150" in printed(studio, note, "credit_notes")


def test_texts_of_the_invoice_override_the_settings(studio: Studio, parties: str) -> None:
    text = printed(studio, draw(studio, bill_from="Acme Berlin", bill_to="Somebody", address="Street 3"))
    assert "Acme Berlin VAT ID DE123456789" in text
    assert "Somebody Street 3 VAT ID ATU12345678" in text
    assert "Client AG" not in text


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("en", "Reverse charge: the recipient of the service owes the tax."),
        ("de", "Steuerschuldnerschaft des Leistungsempfängers"),
    ],
)
def test_reverse_charge_prints_the_notice_required_by_law(
    studio: Studio, parties: str, language: str, words: str
) -> None:
    invoice_id = draw(studio, "send", tax_category="reverse_charge", language=language)
    text = printed(studio, invoice_id)
    assert words in text
    assert re.search(r"(Tax 0|USt\. 0 )% 0[.,]00 EUR", text)
    note = studio.owner.post(f"/invoices/{invoice_id}/credit_notes", json={"reason": "Late", "total": 10})
    response = studio.owner.call("GET", f"/credit_notes/{note['credit_note']['id']}/pdf")
    assert response.status_code == 200


def test_the_status_is_printed(studio: Studio, parties: str) -> None:
    invoice_id = draw(studio, language="de")
    assert "ENTWURF" in printed(studio, invoice_id)
    studio.owner.post(f"/invoices/{invoice_id}/send")
    studio.owner.post(f"/invoices/{invoice_id}/payments", json={"amount": 100})
    text = printed(studio, invoice_id)
    assert "STATUS Teilweise bezahlt" in text
    assert "Bezahlt 100,00 EUR Offener Betrag 1.849,99 EUR" in text
    studio.owner.post(f"/invoices/{invoice_id}/pay")
    assert "STATUS Bezahlt" in printed(studio, invoice_id)
    assert "STORNIERT" in printed(studio, draw(studio, "send", "void", language="de"))


def test_the_qr_code_is_printed_only_if_a_transfer_is_possible(studio: Studio, parties: str) -> None:
    sent = draw(studio, "send")
    assert CODE in printed(studio, sent)
    studio.owner.post(f"/invoices/{sent}/pay")
    assert CODE not in printed(studio, sent)
    assert CODE not in printed(studio, draw(studio))
    assert CODE not in printed(studio, draw(studio, "send", currency="USD"))
    studio.owner.patch(parties, json={"iban": None})
    assert CODE not in printed(studio, draw(studio, "send"))


def test_a_credit_note_has_the_parties_and_language_of_its_invoice(studio: Studio, parties: str) -> None:
    invoice_id = draw(studio, "send", tax=19, language="de")
    studio.owner.patch(parties, json={"legal_name": "Acme SE"})
    body = {"reason": "Zu spät", "total": 119}
    note = studio.owner.post(f"/invoices/{invoice_id}/credit_notes", json=body)["credit_note"]["id"]
    text = printed(studio, note, "credit_notes")
    for shown in (
        "Rechnungskorrektur CN-00001", "Acme GmbH", "Client AG", "Korrektur zur Rechnung INV-00001 1 100,00 100,00",
        "USt. 19 % 19,00 EUR", "GRUND Zu spät",
    ):  # fmt: skip
        assert shown in text, (shown, text)
    assert CODE not in text
    assert "Korrigiert 119,00 EUR" in printed(studio, invoice_id)


def test_time_is_printed_in_hours_and_minutes(studio: Studio, parties: str) -> None:
    task = studio.owner.post(f"{studio.project}/columns", json={"title": "To do"})["column"]["id"]
    task_id = studio.owner.post(f"/columns/{task}/tasks", json={"title": "Logo"})["task"]["id"]
    time = {"task_id": task_id, "duration": "1:30", "billable": True, "billable_rate": 80}
    sheet = studio.owner.post(f"{studio.project}/timesheets", json=time)["timesheet"]["id"]
    text = printed(studio, draw(studio, invoice_items=[], timesheet_ids=[sheet]))
    assert "1:30 80.00 120.00" in text
