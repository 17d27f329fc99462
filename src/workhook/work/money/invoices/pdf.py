"""The PDF of an invoice: printed by a process of its own, one at a time for each organization, and kept for a while."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakKeyDictionary

import msgspec
import structlog
from prometheus_client import Counter, Gauge

from workhook.core import json
from workhook.core.errors import Unavailable, say
from workhook.core.fair_queue import FairQueue, QueueFull
from workhook.storage.blobs import BlobMissing, Blobs
from workhook.work.money.invoices import facturx, render_process
from workhook.work.money.invoices.drafting import LogoFile
from workhook.work.money.invoices.einvoice import EInvoice
from workhook.work.money.invoices.printing import Printed
from workhook.work.money.invoices.render_process import Logo, Rendered, RenderFailed

AT_ONCE = 2
WAITING_MAX = 64
WAITING_MAX_EACH = 8
WAIT_S = 30.0
RENDER_S = 30.0
RETRY_AFTER_S = 5
KEPT_MAX_BYTES = 16 * 1024 * 1024
KEPT_S = 24 * 3600
KEPT_WITHOUT_LOGO_S = 300
"""What was printed without its logo because the render was killed: the next attempt may succeed."""
LOGO_MAX_BYTES = 2 * 1024 * 1024

FAILURES = Counter("workhook_invoice_pdf_failures_total", "Invoices that could not be printed.", ["reason"])

BOXES = Counter("workhook_invoice_pdf_boxes_total", "Invoices printed with boxes for characters that no font has.")

XML_LEFT_OUT = Counter(
    "workhook_invoice_pdf_xml_left_out_total",
    "Invoices printed without the e-invoice that they have: no font has some `characters`, or it is a `failure`.",
    ["reason"],
)

LOGOS_LEFT_OUT = Counter(
    "workhook_invoice_pdf_logos_left_out_total",
    "Invoices printed without their logo: it is `invalid`, or ended the render (`timeout`, `killed`, `failure`).",
    ["reason"],
)

ANSWERS = Counter(
    "workhook_invoice_pdf_answers_total",
    "PDFs that were answered: `rendered` now, `shared` with a render that was under way, `kept` from an earlier one.",
    ["source"],
)

WAITING = Gauge("workhook_invoice_pdf_waiting", "Invoices that wait for their turn to be printed.")

_LOGO_NAMES = {"image/png": "logo.png", "image/jpeg": "logo.jpg", "image/svg+xml": "logo.svg"}
_FILE_PATH = re.compile(r"/files/(fil_[0-9a-z]{26})/content(?:[?#].*)?")

ReadLogo = Callable[[LogoFile], Awaitable[Logo | None]]

log = structlog.get_logger(__name__)


class Pdf(msgspec.Struct, frozen=True):
    """`missing`: the first characters that no font of this machine has, such as `U+6F22`; they are boxes."""

    content: bytes
    missing: str | None


class PdfJob(msgspec.Struct, frozen=True):
    """What is printed, for whom. `logo` is a file that `is_logo` accepts. `einvoice` is attached where that can be."""

    account_id: int
    invoice_id: str
    document: Printed
    timestamp_s: int
    logo: LogoFile | None
    einvoice: EInvoice | None = None

    def key(self) -> bytes:
        """The same for the same pages. Organizations share nothing, even if their invoices look alike."""
        return hashlib.sha256(json.encode(self)).digest()


class _SharedRender:
    """A render under way. It is cancelled when nobody waits for it any more."""

    def __init__(self, task: asyncio.Task[Pdf]) -> None:
        self._task = task
        self._waiting = 0

    @property
    def usable(self) -> bool:
        return not self._task.cancelling()

    async def result(self) -> Pdf:
        self._waiting += 1
        try:
            return await asyncio.shield(self._task)
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._task.cancel()


class Printer:
    """Prints invoices for the requests of one event loop."""

    def __init__(self) -> None:
        self._queue = FairQueue(AT_ONCE, WAITING_MAX, WAITING_MAX_EACH)
        self._kept = KeptPdfs(KEPT_MAX_BYTES)
        self._renders: dict[bytes, _SharedRender] = {}

    async def make(self, job: PdfJob, read_logo: ReadLogo) -> Pdf:
        """Raises `Unavailable` if too many wait already, or if it takes too long."""
        key = job.key()
        if (kept := self._kept.get(key, time.monotonic())) is not None:
            ANSWERS.labels("kept").inc()
            return kept
        render = self._renders.get(key)
        shared = render is not None and render.usable
        if render is None or not shared:
            self._renders[key] = render = _SharedRender(asyncio.create_task(self._print(key, job, read_logo)))
        try:
            made = await render.result()
        finally:
            if self._renders.get(key) is render and not shared:
                del self._renders[key]
        ANSWERS.labels("shared" if shared else "rendered").inc()
        return made

    async def _print(self, key: bytes, job: PdfJob, read_logo: ReadLogo) -> Pdf:
        async with self._turn(job.account_id):
            logo = await read_logo(job.logo) if job.logo else None
            made, kept_s = await _render(job, logo)
        self._kept.put(key, made, time.monotonic() + kept_s)
        return made

    @asynccontextmanager
    async def _turn(self, account_id: int) -> AsyncIterator[None]:
        """Raises `Unavailable` where it does not come soon."""
        async with AsyncExitStack() as stack:
            try:
                with WAITING.track_inprogress():
                    async with asyncio.timeout(WAIT_S):
                        await stack.enter_async_context(self._queue.slot(account_id))
            except (QueueFull, TimeoutError):
                FAILURES.labels("busy").inc()
                log.warning("invoice_pdf_busy", waiting=len(self._queue))
                message = say("Too many invoices wait to be printed. Try again in some seconds.")
                raise Unavailable(message, code="pdf_unavailable", retry_after_s=RETRY_AFTER_S) from None
            yield


class KeptPdfs:
    """The PDFs that were asked for last, at most `max_bytes` of them."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes, self._bytes = max_bytes, 0
        self._pdfs: OrderedDict[bytes, tuple[Pdf, float]] = OrderedDict()

    def get(self, key: bytes, now: float) -> Pdf | None:
        pdf, until = self._pdfs.get(key, (None, 0.0))
        if pdf is not None and until <= now:
            self._drop(key)
            return None
        if pdf is not None:
            self._pdfs.move_to_end(key)
        return pdf

    def put(self, key: bytes, pdf: Pdf, until: float) -> None:
        if len(pdf.content) > self._max_bytes // 4:
            return
        if key in self._pdfs:
            self._drop(key)
        self._pdfs[key] = pdf, until
        self._bytes += len(pdf.content)
        while self._bytes > self._max_bytes:
            self._drop(next(iter(self._pdfs)))

    def _drop(self, key: bytes) -> None:
        self._bytes -= len(self._pdfs.pop(key)[0].content)


_printers: WeakKeyDictionary[asyncio.AbstractEventLoop, Printer] = WeakKeyDictionary()


def printer() -> Printer:
    """The one of this event loop."""
    return _printers.setdefault(asyncio.get_running_loop(), Printer())


def file_id_of(avatar: str | None, bases: tuple[str, ...]) -> str | None:
    """Which file of this server (`bases`: what its addresses start with) an avatar is. Nothing else is ever fetched."""
    for base in bases:
        if avatar and avatar.startswith(base) and (found := _FILE_PATH.fullmatch(avatar.removeprefix(base))):
            return found[1]
    return None


def _logo_name(file: LogoFile) -> str | None:
    return _LOGO_NAMES.get(file.content_type.partition(";")[0].strip().lower())


def is_logo(file: LogoFile | None) -> bool:
    """It claims to be an image, and is of a sensible size."""
    return file is not None and _logo_name(file) is not None and 0 < file.size <= LOGO_MAX_BYTES


async def read_logo(blobs: Blobs, file: LogoFile) -> Logo | None:
    """None if its content is gone. `file` is one that `is_logo` accepts."""
    name = _logo_name(file)
    assert name is not None, "is_logo accepted it"
    try:
        pieces = [each async for each in await blobs.read(file.blob, 0, file.size)]
    except BlobMissing:
        FAILURES.labels("logo_missing").inc()
        log.warning("invoice_logo_missing", blob=file.blob)
        return None
    return Logo(name, b"".join(pieces))


async def _render(job: PdfJob, logo: Logo | None) -> tuple[Pdf, float]:
    """The PDF, and for how long it is good. A render that dies is repeated without the logo, and one without a logo
    without the e-invoice.

    Raises `Unavailable`.
    """
    xml = await _xml_of(job)
    tries = [(logo, xml), (None, xml if logo else None)]
    if logo and xml:
        tries.append((None, None))
    reason, kept_s = "", KEPT_S
    for with_logo, with_xml in tries:
        try:
            rendered = await render_process.run(
                job.document, with_logo, job.timestamp_s, timeout_s=RENDER_S, xml=with_xml
            )
            return _made(job, rendered, with_xml), kept_s
        except RenderFailed as failed:
            reason, kept_s = failed.reason, KEPT_WITHOUT_LOGO_S
            log.warning("invoice_pdf_failed", invoice_id=job.invoice_id, reason=str(failed), stderr=failed.stderr)
        if with_logo is not None:
            LOGOS_LEFT_OUT.labels(reason).inc()
        elif reason == "timeout":
            raise _too_slow()
        elif with_xml is not None:
            XML_LEFT_OUT.labels("failure").inc()
    FAILURES.labels(reason).inc()
    log.error("invoice_pdf_failed", invoice_id=job.invoice_id, reason=reason)
    message = say("The invoice cannot be printed. The server's log says why.")
    raise Unavailable(message, code="pdf_unavailable", retry_after_s=RETRY_AFTER_S)


async def _xml_of(job: PdfJob) -> bytes | None:
    """The e-invoice, if there is one. The page does not fail because of it."""
    if job.einvoice is None:
        return None
    try:
        return await asyncio.to_thread(xml_of, job.einvoice)  # a tenth of a second for a thousand lines
    except Exception:
        XML_LEFT_OUT.labels("failure").inc()
        log.exception("invoice_xml_failed", invoice_id=job.invoice_id)
        return None


def xml_of(document: EInvoice) -> bytes:
    """The document in the syntax that `cii` writes, in UTF-8."""
    from workhook.work.money.invoices import cii  # with a library of XML, of which most servers have no use

    return cii.written(document)


def _too_slow() -> Unavailable:
    FAILURES.labels("timeout").inc()
    message = "Printing the invoice took too long. Try again; an invoice of fewer lines is printed faster."
    return Unavailable(message, code="pdf_unavailable", retry_after_s=RETRY_AFTER_S)


def _made(job: PdfJob, rendered: Rendered, xml: bytes | None) -> Pdf:
    """`xml`: what was to be attached."""
    report = rendered.report
    missing = " ".join(report.missing) or None
    if missing is not None:
        BOXES.inc()
    if report.logo_error is not None:
        LOGOS_LEFT_OUT.labels("invalid").inc()
    if report.xml_error is not None:
        XML_LEFT_OUT.labels("characters" if missing else "failure").inc()
    if missing or report.logo_error or report.xml_error or rendered.stderr:
        said = {"logo_error": report.logo_error, "xml_error": report.xml_error}
        errors = {name: None if each is None else ascii(each) for name, each in said.items()}
        log.warning("invoice_pdf_complaint", missing=missing, stderr=rendered.stderr, **errors)
    content = rendered.content
    if xml is not None and report.xml_error is None:
        try:
            content = facturx.with_metadata(content)
        except facturx.UnknownForm as unknown:  # it carries the e-invoice all the same
            log.error("invoice_pdf_metadata_failed", invoice_id=job.invoice_id, reason=str(unknown))
    return Pdf(content, missing)
