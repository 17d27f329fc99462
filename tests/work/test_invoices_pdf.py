"""Printed invoices: page contents for any input, and protection against injected contents."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import httpx
import psutil
import pytest
from pypdf import PdfReader

from tests.harness.waiting import until
from tests.work.paper import LINE, Draw, images_of, png, read, renders, text_of
from tests.work.studio import Studio

pytestmark = pytest.mark.one_database


def test_a_page_shows_the_data_of_the_invoice(studio: Studio, draw: Draw) -> None:
    invoice_id = draw(
        "send",
        bill_to="Łódź Kreatywna\nЯщик · Ελλάδα",
        address="Hafenstraße 12",
        bill_from="Acme Studio",
        tax=19,
        due="2030-12-24",
        payment_terms="Within 14 days",
        payment_method="IBAN DE02 1203 0000\nBIC BYLADEM1001",
    )
    response = studio.owner.call("GET", f"/invoices/{invoice_id}/pdf")
    assert response.headers["content-disposition"] == 'inline; filename="Invoice-INV-00001.pdf"'
    reader = PdfReader(io.BytesIO(response.content))
    text = text_of(reader)
    for wanted in (
        "INV-00001",
        "Łódź Kreatywna",
        "Ящик · Ελλάδα",
        "Hafenstraße 12",
        "Acme Studio",
        "Website",
        "24 Dec 2030",
        "Design 1.5 1,299.99 1,949.99",
        "Subtotal 1,949.99 EUR",
        "Tax 19% 370.50 EUR",
        "2,320.49 EUR",
        "Within 14 days",
        "IBAN DE02 1203 0000",
        "BIC BYLADEM1001",
        "Page 1 of 1",
    ):
        assert wanted in text, (wanted, text)
    assert "DRAFT" not in text
    assert "Paid" not in text.title().split()
    assert reader.metadata is not None
    assert reader.metadata.title == "Invoice INV-00001"


def test_a_paid_invoice_shows_the_date_of_payment(studio: Studio, draw: Draw) -> None:
    paid = draw("send", "pay", due="2030-12-24")
    assert re.search(r"PAID\s+\d+ \w{3} \d{4}", text_of(read(studio, paid)))


@pytest.mark.parametrize(
    ("typed", "printed"),
    [
        ("Bakery 🥐 & Café", "Bakery & Café"),
        ("🎉 Party", "Party"),
        ("Done ✅", "Done"),
        ("a😀b", "ab"),
        ("Family 👨\u200d👩\u200d👧, flag 🇩🇪.", "Family, flag."),
        ("Heart ❤\ufe0f, tick ✓ and → stay", "Heart ❤, tick ✓ and → stay"),
    ],
)
def test_emoji_are_removed_cleanly(studio: Studio, draw: Draw, typed: str, printed: str) -> None:
    lines = [{**LINE, "description": typed}]
    answer = studio.owner.call("GET", f"/invoices/{draw(bill_to=typed, payment_method=typed, invoice_items=lines)}/pdf")
    assert "x-missing-characters" not in answer.headers
    text = text_of(PdfReader(io.BytesIO(answer.content)))
    assert text.count(printed) == 3, text


def test_drafts_and_void_invoices_are_marked(studio: Studio, draw: Draw) -> None:
    draft = studio.owner.call("GET", f"/invoices/{draw()}/pdf")
    assert draft.headers["content-disposition"] == 'inline; filename="Draft-invoice.pdf"'
    assert "DRAFT" in text_of(PdfReader(io.BytesIO(draft.content)))
    assert "VOID" in text_of(read(studio, draw("send", "void")))


def test_a_long_table_repeats_its_header_on_every_page(studio: Studio, draw: Draw) -> None:
    lines = [{**LINE, "description": f"Line {number:03d}"} for number in range(300)]
    reader = read(studio, draw("send", invoice_items=lines))
    pages = [page.extract_text() for page in reader.pages]
    assert 7 <= len(pages) <= 12
    assert all(f"Page {number} of {len(pages)}" in page for number, page in enumerate(pages, 1))
    assert all("DESCRIPTION QUANTITY UNIT PRICE AMOUNT" in page for page in pages if "Line " in page)
    found = re.findall(r"Line (\d{3}) 1\.5 1,299\.99 1,949\.99", "\n".join(pages))
    assert found == [f"{number:03d}" for number in range(300)]
    assert "584,997.00 EUR" in pages[-1]  # 300 times the rounded line amount


@pytest.mark.parametrize(
    "hostile",
    [
        '#read("/etc/passwd")',
        '#include "main.typ"',
        "#panic() \\ ] [ ) ( } {",
        "*a* _b_ $c$ `d` <e> @f",
        "// = - + / a: b ~ -- '\"",
        "#import sys: inputs",
    ],
)
def test_markup_is_printed_as_text(studio: Studio, draw: Draw, hostile: str) -> None:
    everywhere = dict.fromkeys(("bill_to", "bill_from", "address", "payment_terms", "invoice_number"), hostile)
    text = text_of(read(studio, draw(invoice_items=[{**LINE, "description": hostile}], **everywhere)))
    assert text.count(hostile) >= 6
    assert "root:" not in text


def test_any_script_and_length_is_printed(studio: Studio, draw: Draw) -> None:
    lines = [
        {**LINE, "description": each}
        for each in ("你好世界", "سلام", "שלום", "😀👩‍👩‍👧", "a" * 4000, "a\u0007b\u202ec\r\nd", "\ue000")
    ]
    text = text_of(read(studio, draw(invoice_items=lines, bill_to="字" * 20_000, payment_terms="word " * 2_000)))
    assert text.count("a" * 20) == 200
    assert text.count("1,949.99") == len(lines)


# --- logos -------------------------------------------------------------------------------------------------------


def test_the_avatar_of_the_project_is_the_logo(studio: Studio, draw: Draw, upload: Callable[..., str]) -> None:
    invoice_id = draw("send")
    assert images_of(read(studio, invoice_id)) == 0
    upload(png(), "logo.png", "image/png")
    reader = read(studio, invoice_id)
    assert (images_of(reader), "INV-00001" in text_of(reader)) == (1, True)


@pytest.mark.parametrize(
    ("content", "name", "media_type", "more"),
    [
        (b"no image", "logo.png", "image/png", {}),
        (png(), "logo.gif", "image/gif", {}),
        (png(), "logo.png", "image/png", {"private": "true"}),
        (b"", "logo.png", "image/png", {}),
        (png()[:50], "logo.png", "image/png", {}),
        (
            b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><image href="/etc/logo.png"/></svg>',
            "logo.svg",
            "image/svg+xml",
            {},
        ),
    ],
    ids=["text", "gif", "private", "empty", "truncated", "svg that reads files"],
)
def test_an_invalid_logo_is_omitted(
    studio: Studio, draw: Draw, upload: Callable[..., str], content: bytes, name: str, media_type: str, more: Any
) -> None:
    upload(content, name, media_type, **more)
    reader = read(studio, draw("send"))
    assert (images_of(reader), "INV-00001" in text_of(reader)) == (0, True)


def test_logos_are_never_fetched_nor_taken_from_other_projects(
    studio: Studio, draw: Draw, upload: Callable[..., str]
) -> None:
    invoice_id, link = draw("send"), upload(png(), "logo.png", "image/png")
    other = studio.owner.post("/projects", json={"title": "Other"})["project"]
    studio.owner.patch(f"/projects/{other['id']}", json={"avatar": link})
    theirs = studio.owner.post(f"/projects/{other['id']}/invoices")["invoice"]
    assert images_of(read(studio, theirs["id"])) == 0
    # The port is closed, so fetching would hang or fail.
    for avatar in (link.replace("127.0.0.1", "127.0.0.9"), link.replace("/files/", "/else/"), None):
        studio.owner.patch(studio.project, json={"avatar": avatar})
        assert images_of(read(studio, invoice_id)) == 0


# --- load and missing glyphs -------------------------------------------------------------------------------------


@pytest.mark.whole
def test_printing_does_not_block_other_requests(studio: Studio, draw: Draw) -> None:
    lines = [{**LINE, "description": f"Line {number}"} for number in range(900)]

    def ask() -> Future[httpx.Response]:
        return pool.submit(studio.owner.call, "GET", f"/invoices/{draw('send', invoice_items=lines)}/pdf")

    with ThreadPoolExecutor(5) as pool:
        prints = [ask() for _ in range(4)]

        def stopped() -> psutil.Process | None:
            """Return a suspended rendering process, or None if there is none yet."""
            if all(each.done() for each in prints):
                prints.append(ask())
            for each in renders(studio):
                with suppress(psutil.Error):
                    each.suspend()
                    return each
            return None

        printing = until(stopped)
        assert printing is not None
        try:
            for _ in range(10):
                studio.owner.get(studio.project)
            assert not all(each.done() for each in prints), "no one waited for it"
        finally:
            printing.resume()
    assert {each.result().status_code for each in prints} == {200}


def _missing_glyphs(studio: Studio) -> float:
    found = re.search("^workhook_invoice_pdf_boxes_total ([0-9.]+)", studio.nobody.http.get("/metrics").text, re.M)
    assert found is not None
    return float(found[1])


def test_missing_glyphs_are_reported(studio: Studio, draw: Draw) -> None:
    """U+FDD0 is a noncharacter, which no font has a glyph for. The bundled fonts cover the other texts."""
    before, invoice_id = _missing_glyphs(studio), draw(bill_to="Ada \ufdd0 Lovelace")
    boxes = studio.owner.call("GET", f"/invoices/{invoice_id}/pdf")
    assert (boxes.status_code, boxes.headers["x-missing-characters"]) == (200, "U+FDD0")
    assert "Lovelace" in text_of(PdfReader(io.BytesIO(boxes.content)))
    assert _missing_glyphs(studio) == before + 1
    lines = studio.server.log
    until(lambda: any("invoice_pdf_warnings" in each and invoice_id in each for each in lines().splitlines()))
    for name in ("Åse Ünal", "Ωμέγα", "Жанна", "“quoted”: 5 €", "→ ✓"):
        whole = studio.owner.call("GET", f"/invoices/{draw(bill_to=name)}/pdf")
        assert (whole.status_code, whole.headers.get("x-missing-characters")) == (200, None), name
