"""Invoices and payments by e-mail. The client gets the PDF."""

from __future__ import annotations

import io

import facturx
from pypdf import PdfReader

from tests.mail.server import MailServer
from tests.work.paper import LINE
from tests.work.studio import Studio
from tests.work.test_einvoices import Bills


def send_invoice(studio: Studio) -> str:
    body = {"invoice_items": [LINE], "currency": "EUR", "bill_to": "Büro Ö"}
    invoice_id: str = studio.owner.post(f"{studio.project}/invoices", json=body)["invoice"]["id"]
    studio.owner.post(f"/invoices/{invoice_id}/send")
    return invoice_id


def test_the_client_gets_the_invoice_with_its_pdf(studio: Studio, mail: MailServer) -> None:
    address = str(studio.client.me["email"])
    invoice_id = send_invoice(studio)
    [got] = mail.wait_for(address)
    number = studio.owner.get(f"/invoices/{invoice_id}")["invoice"]["invoice_number"]
    assert got["Subject"] == f"Octo issued invoice {number}"
    assert "The invoice is attached as a PDF." in got.text
    [(name, content)] = got.files.items()
    assert name == f"Invoice-{number}.pdf"
    assert number in PdfReader(io.BytesIO(content)).pages[0].extract_text()
    assert f"/{studio.world.full_name}/billing/{invoice_id}" in got.text
    assert mail.to(str(studio.member.me["email"])) == []  # members are not notified of invoices


def test_the_mail_about_an_invoice_uses_its_language_and_shows_amount_and_due_date(
    studio: Studio, mail: MailServer
) -> None:
    address = str(studio.client.me["email"])
    body = {"invoice_items": [LINE], "currency": "EUR", "language": "de", "tax": 19, "due": "2030-12-24"}
    invoice_id = studio.owner.post(f"{studio.project}/invoices", json=body)["invoice"]["id"]
    studio.owner.post(f"/invoices/{invoice_id}/send")
    [got] = mail.wait_for(address)
    number = studio.owner.get(f"/invoices/{invoice_id}")["invoice"]["invoice_number"]
    assert number in got["Subject"]
    assert "Rechnung" in got["Subject"]
    for shown in ("Offener Betrag: 2.320,49 EUR", "Fällig am: 24.12.2030", "Die Rechnung ist als PDF angehängt."):
        assert shown in got.text
    assert list(got.files) == [f"Rechnung-{number}.pdf"]
    studio.owner.post(f"/invoices/{invoice_id}/pay")
    _, second = mail.wait_for(address, 2)
    assert "Offener Betrag" not in second.text
    assert "Rechnung" in second["Subject"]


def test_the_attached_pdf_contains_the_e_invoice(studio: Studio, mail: MailServer) -> None:
    address = str(studio.client.me["email"])
    Bills(studio).settle()
    invoice_id = send_invoice(studio)
    [got] = mail.wait_for(address)
    [content] = got.files.values()
    assert content == studio.owner.call("GET", f"/invoices/{invoice_id}/pdf").content
    xml = studio.owner.call("GET", f"/invoices/{invoice_id}/xml").content
    assert facturx.get_xml_from_pdf(content, check_xsd=True) == ("factur-x.xml", xml)


def test_a_payment_notification_is_in_the_same_thread(studio: Studio, mail: MailServer) -> None:
    address = str(studio.client.me["email"])
    invoice_id = send_invoice(studio)
    mail.wait_for(address)
    studio.owner.post(f"/invoices/{invoice_id}/pay")
    first, second = mail.wait_for(address, 2)
    assert "A payment of" in second["Subject"]
    assert second.files == {}
    assert first["References"] == second["References"] == f"<invoice.{invoice_id}@studio.example>"
