"""Factur-X: invoice PDFs that are archivable and embed the e-invoice if there is one."""

from __future__ import annotations

import base64
from typing import Any

import facturx
import pytest
from pypdf import PdfReader

from tests.work.archival import facturx_properties, faults, opened
from tests.work.official_rules import complaints
from tests.work.paper import Upload, images_of, metric, png, text_of
from tests.work.studio import Studio
from tests.work.test_einvoices import Bills, line
from workhook.work.money.invoices.documents import attachment
from workhook.work.money.invoices.einvoice import EInvoice

pytestmark = pytest.mark.one_database

NO_CHARACTER = "\ufdd0"
"""A noncharacter, which no font will ever have a glyph for."""
CMYK = base64.b64decode(
    "/9j/7gAOQWRvYmUAZAAAAAAA/9sAQwD/////////////////////////////////////////////////////////////////////////////////"
    "/////8AAFAgACAAIBEMRAE0RAFkRAEsRAP/EABUAAQEAAAAAAAAAAAAAAAAAAAID/8QAFBABAAAAAAAAAAAAAAAAAAAAAP/aAA4EQwBNAFkASwAA"
    "PwCgio//2Q=="
)
"""A JPEG in CMYK colors."""
SVG_OF_LETTERS = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="60" height="18"><rect width="9" height="9" fill="red"/>'
    f'<text y="12">A{NO_CHARACTER}</text></svg>'
).encode()


@pytest.fixture
def bills(studio: Studio) -> Bills:
    return Bills(studio)


def pdf_of(bills: Bills, invoice_id: str, kind: str = "invoices") -> bytes:
    answer = bills.owner.call("GET", f"/{kind}/{invoice_id}/pdf")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/pdf")
    return answer.content


def attached(pdf: bytes) -> dict[str, bytes]:
    """Return the attached files by name."""
    return {name: content for name, (content,) in opened(pdf).attachments.items()}


def require_embedded(bills: Bills, document_id: str, kind: str = "invoices") -> PdfReader:
    """Check that the PDF is archivable and embeds the e-invoice unchanged."""
    pdf, xml = pdf_of(bills, document_id, kind), bills.document(document_id, kind)
    assert facturx.get_xml_from_pdf(pdf, check_xsd=True) == ("factur-x.xml", xml)
    assert attached(pdf) == {"factur-x.xml": xml}
    assert complaints(xml) == []
    assert faults(pdf) == []
    reader = opened(pdf)
    assert facturx_properties(reader) == {
        "DocumentType": "INVOICE",
        "DocumentFileName": "factur-x.xml",
        "Version": "1.0",
        "ConformanceLevel": "EN 16931",
    }
    return reader


def left_out(bills: Bills, reason: str) -> float:
    return metric(bills.studio, "workhook_invoice_pdf_xml_left_out_total", reason=reason)


def test_an_invoice_embeds_its_e_invoice(bills: Bills) -> None:
    bills.settle(payment_days=14)
    sent = bills.send(line(100, discount=10), line(50, tax=7, qty=2.5), tax=19, payment_terms="<b> & ]]> \u201cx\u201d")
    reader = require_embedded(bills, sent)
    assert "INV-" in text_of(reader)
    root: Any = reader.root_object
    [file] = [each.get_object() for each in root["/AF"]]
    assert file["/AFRelationship"] == "/Alternative"
    assert (file["/F"], file["/UF"]) == ("factur-x.xml", "factur-x.xml")
    assert file["/EF"]["/F"].get_object()["/Subtype"] == "/text/xml"
    assert reader.metadata is not None
    issued = bills.owner.get(f"/invoices/{sent}")["invoice"]["issued"]
    assert reader.metadata.creation_date is not None
    assert f"{reader.metadata.creation_date:%Y-%m-%dT%H:%M:%S}" == issued[:19]
    # After a payment, both the page and the e-invoice show the new amount due.
    bills.owner.post(f"/invoices/{sent}/payments", json={"amount": 20})
    assert "Paid 20.00 EUR" in text_of(require_embedded(bills, sent))
    bills.owner.post(f"/invoices/{sent}/pay")
    require_embedded(bills, sent)


@pytest.mark.parametrize("total", [5, None])
def test_a_credit_note_embeds_its_own_e_invoice(bills: Bills, total: int | None) -> None:
    bills.settle(language="de")
    sent = bills.send(line(100), line(50, tax=7), tax=19)
    what = {"total": total} if total else {"invoice_items": [line(10), line(5, tax=7, discount=50)]}
    made = bills.owner.post(f"/invoices/{sent}/credit_notes", json={**what, "reason": "Late"})["credit_note"]
    require_embedded(bills, made["id"], "credit_notes")
    require_embedded(bills, sent)


def test_rendering_is_reproducible(bills: Bills) -> None:
    bills.settle()
    where = f"/invoices/{bills.send(line(100), tax=19)}/pdf"
    first = bills.owner.call("GET", where)
    bills.owner.patch(bills.studio.project, json={"title": "Other"})
    assert bills.owner.call("GET", where).content != first.content
    bills.owner.patch(bills.studio.project, json={"title": "Website"})
    again = bills.owner.call("GET", where, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_a_long_invoice_embeds_a_long_e_invoice(bills: Bills) -> None:
    bills.settle()
    require_embedded(bills, bills.send(*[line(1, description=f"Line {number}") for number in range(400)], tax=19))


@pytest.mark.parametrize(
    ("content", "name", "media_type"),
    [
        (png(), "logo.png", "image/png"),
        (CMYK, "logo.jpg", "image/jpeg"),
        (SVG_OF_LETTERS, "logo.svg", "image/svg+xml"),
    ],
    ids=["png", "cmyk", "text without a font"],
)
def test_logos_unsuitable_for_archives_are_converted(
    bills: Bills, upload: Upload, content: bytes, name: str, media_type: str
) -> None:
    bills.settle()
    upload(content, name, media_type)
    assert images_of(require_embedded(bills, bills.send(line(100), tax=19))) == 1


def test_an_invalid_logo_does_not_prevent_the_document(bills: Bills, upload: Upload) -> None:
    bills.settle()
    upload(b"no image", "logo.png", "image/png")
    assert images_of(require_embedded(bills, bills.send(line(100), tax=19))) == 0


# --- without an e-invoice ----------------------------------------------------------------------------------------


def require_plain(pdf: bytes) -> None:
    """Check that the PDF has neither an attachment nor archive metadata."""
    reader = opened(pdf)
    assert reader.attachments == {}
    assert "/AF" not in reader.root_object
    assert b"pdfaid" not in pdf
    assert reader.metadata is not None
    assert reader.metadata.creation_date is None


def test_an_invoice_that_does_not_qualify_is_printed_without_an_e_invoice(bills: Bills) -> None:
    sent = bills.send(line(100), tax=19)
    require_plain(pdf_of(bills, sent))
    note = bills.owner.post(f"/invoices/{sent}/credit_notes", json={"total": 5, "reason": "x"})["credit_note"]["id"]
    require_plain(pdf_of(bills, note, "credit_notes"))
    bills.settle()
    require_plain(pdf_of(bills, sent))  # its VAT ID stays missing
    body = {"invoice_items": [line(100)]}
    draft = bills.owner.post(f"{bills.studio.project}/invoices", json=body)["invoice"]["id"]
    require_plain(pdf_of(bills, draft))
    void = bills.send(line(100), tax=19)
    require_embedded(bills, void)
    bills.owner.post(f"/invoices/{void}/void")
    require_plain(pdf_of(bills, void))
    require_plain(pdf_of(bills, bills.send(line(1.125), currency="KWD")))


def test_a_country_added_later_suffices(bills: Bills) -> None:
    bills.settle()
    bills.owner.patch(bills.account, json={"country": None})
    sent = bills.send(line(100), tax=19)
    require_plain(pdf_of(bills, sent))
    bills.owner.patch(bills.account, json={"country": "DE"})
    require_embedded(bills, sent)


def test_a_page_with_missing_glyphs_is_not_archivable(bills: Bills) -> None:
    bills.settle()
    before = left_out(bills, "characters")
    sent = bills.send(line(100, description=f"a{NO_CHARACTER}b"), tax=19)
    answer = bills.owner.call("GET", f"/invoices/{sent}/pdf")
    assert answer.headers["x-missing-characters"] == "U+FDD0"
    require_plain(answer.content)
    assert left_out(bills, "characters") == before + 1
    assert NO_CHARACTER.encode() in bills.document(sent)


def test_a_failing_e_invoice_does_not_fail_the_page() -> None:
    def broken() -> Any:
        raise ArithmeticError

    made: EInvoice | None = attachment(broken, "inv_1")
    assert made is None
