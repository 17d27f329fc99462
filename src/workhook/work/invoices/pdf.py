"""The PDF of an invoice, made by a process of its own (`render`): few at a time, each within a time."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import sys
from collections.abc import Mapping
from weakref import WeakKeyDictionary

import msgspec
import structlog
from prometheus_client import Counter

from workhook.core import json
from workhook.core.errors import Unavailable
from workhook.storage.blobs import BlobMissing, Blobs
from workhook.work.invoices.printing import Printed
from workhook.work.invoices.queries import LogoFile
from workhook.work.invoices.render_signs import NO_FONT

AT_ONCE = 2
TIMEOUT_S = 30.0
LOGO_MAX_BYTES = 2 * 1024 * 1024

FAILURES = Counter("workhook_invoice_pdf_failures_total", "Invoices that could not be printed.", ["reason"])

BOXES = Counter("workhook_invoice_pdf_boxes_total", "Invoices printed with boxes for characters that no font has.")

_LOGO_NAMES = {"image/png": "logo.png", "image/jpeg": "logo.jpg", "image/svg+xml": "logo.svg"}
_FILE_PATH = re.compile(r"/files/(fil_[0-9a-z]{26})/content(?:[?#].*)?")

_slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

log = structlog.get_logger(__name__)


class Pdf(msgspec.Struct, frozen=True):
    """`missing`: the first characters that no font of this machine has, such as `U+6F22`; they are boxes."""

    content: bytes
    missing: str | None


class Logo(msgspec.Struct, frozen=True):
    """An image that was uploaded. `name` ends like its kind."""

    name: str
    content: bytes


def file_id_of(avatar: str | None, bases: tuple[str, ...]) -> str | None:
    """Which file of this server (`bases`: what its addresses start with) an avatar is. Nothing else is ever fetched."""
    for base in bases:
        if avatar and avatar.startswith(base) and (found := _FILE_PATH.fullmatch(avatar.removeprefix(base))):
            return found[1]
    return None


async def read_logo(blobs: Blobs, file: LogoFile | None) -> Logo | None:
    """None unless it is an image of a sensible size."""
    name = _LOGO_NAMES.get(file.content_type.partition(";")[0].strip().lower()) if file else None
    if file is None or name is None or not 0 < file.size <= LOGO_MAX_BYTES:
        return None
    try:
        pieces = [each async for each in await blobs.read(file.blob, 0, file.size)]
    except BlobMissing:
        FAILURES.labels("logo_missing").inc()
        log.warning("invoice_logo_missing", blob=file.blob)
        return None
    return Logo(name, b"".join(pieces))


async def make_pdf(invoice: Printed, logo: Logo | None, timestamp_s: int) -> Pdf:
    """Raises `Unavailable` if the machine is too busy for it."""
    job = {
        "invoice": invoice,
        "timestamp_s": timestamp_s,
        "logo": base64.b64encode(logo.content).decode() if logo else None,
        "logo_name": logo.name if logo else None,
    }
    slots = _slots.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(AT_ONCE))
    try:
        async with asyncio.timeout(TIMEOUT_S), slots:
            return await _run(json.encode(job))
    except TimeoutError:
        FAILURES.labels("timeout").inc()
        log.warning("invoice_pdf_timeout", after_s=TIMEOUT_S)
        raise Unavailable("The invoice cannot be printed right now.", code="pdf_unavailable") from None


async def _run(job: bytes) -> Pdf:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "workhook.work.invoices.render",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=_without_settings(os.environ),
    )
    try:
        output, errors = await process.communicate(job)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    said = errors.decode(errors="replace")
    if said:
        log.warning("invoice_pdf_complaint", said=said[-2000:])
    if process.returncode != 0:
        FAILURES.labels("failure").inc()
        raise RuntimeError(f"the invoice was not printed; the process ended with {process.returncode}")
    missing = next((line.removeprefix(NO_FONT) for line in said.splitlines() if line.startswith(NO_FONT)), None)
    if missing is not None:
        BOXES.inc()
    return Pdf(output, missing)


def _without_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Secrets may be among them."""
    return {name: value for name, value in environment.items() if not name.upper().startswith("WORKHOOK_")}
