"""The cache time of a rendered PDF."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from workhook.storage.blobs import Blobs
from workhook.work.money.invoices import documents
from workhook.work.money.invoices.documents import Pdf, PdfJob, Printer


async def test_a_pdf_with_boxes_is_rendered_again_once_fonts_can_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A complete PDF is kept for hours."""
    now, missing = [0.0], ["U+6F22"]

    async def run(*_: object) -> Pdf:
        return Pdf(b"%PDF", " ".join(missing) or None)

    monkeypatch.setattr(documents, "_run", run)
    monkeypatch.setattr(documents, "time", SimpleNamespace(monotonic=lambda: now[0]))
    document = SimpleNamespace(id="inv_1", einvoice=None)
    job = cast(PdfJob, SimpleNamespace(account_id=1, document=document, logo=None, key=lambda: b"key"))
    printer = Printer()

    async def missing_in_pdf() -> Any:
        return (await printer.make(job, cast(Blobs, None))).missing

    assert await missing_in_pdf() == "U+6F22"
    missing.clear()
    now[0] = 299
    assert await missing_in_pdf() == "U+6F22"
    now[0] = 301
    assert await missing_in_pdf() is None
    missing.append("U+6F22")
    now[0] = 12 * 3600
    assert await missing_in_pdf() is None
