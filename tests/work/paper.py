"""Helpers for tests of printed invoices: images and PDF contents."""

from __future__ import annotations

import functools
import io
import struct
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import psutil
from prometheus_client.parser import text_string_to_metric_families
from pypdf import PdfReader

from tests.work.studio import Studio

Draw = Callable[..., Any]
Upload = Callable[..., str]
LINE = {"description": "Design", "qty": 1.5, "unit_price": 1299.99}


@functools.cache
def png(width: int = 4, height: int = 4) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    packer = zlib.compressobj()
    rows = [packer.compress(b"\0" + b"\xc0\x20\x20" * width) for _ in range(height)]
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = chunk(b"IDAT", b"".join(rows) + packer.flush())
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + data + chunk(b"IEND", b"")


def read(studio: Studio, invoice_id: str, kind: str = "invoices") -> PdfReader:
    response = studio.owner.call("GET", f"/{kind}/{invoice_id}/pdf")
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/pdf"
    return PdfReader(io.BytesIO(response.content))


def text_of(reader: PdfReader) -> str:
    return "\n".join(page.extract_text() for page in reader.pages)


def printed(studio: Studio, invoice_id: str, kind: str = "invoices") -> str:
    """Return the text of a document on one line."""
    return " ".join(text_of(read(studio, invoice_id, kind)).split())


def images_of(reader: PdfReader) -> int:
    return sum(len(page.images) for page in reader.pages)


def metric(studio: Studio, name: str, **labels: str) -> float:
    """Return the value of a metric, or 0 if it has no sample."""
    families = text_string_to_metric_families(studio.nobody.http.get("/metrics").text)
    samples = [each for family in families for each in family.samples]
    return sum(each.value for each in samples if each.name == name and labels.items() <= each.labels.items())


def renders(studio: Studio) -> list[psutil.Process]:
    """Return the server's PDF rendering processes."""
    assert studio.server.process is not None
    found = []
    for each in psutil.Process(studio.server.process.pid).children():
        with suppress(psutil.Error):
            if any("invoices" in part and "render" in part for part in each.cmdline()):
                found.append(each)
    return found


def as_shown(lines: Iterable[dict[str, Any]], *, kind: str = "item") -> list[dict[str, Any]]:
    """Return lines in the form that responses show, given the lines of the request."""
    return [{"kind": kind, **each, "timesheet_ids": []} for each in lines]
