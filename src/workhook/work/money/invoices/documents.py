"""An invoice or a credit note as a PDF and as an e-invoice: `/invoices/{id}/pdf` and `/invoices/{id}/xml`.

PDFs are rendered in a limited process (`render.py`), one at a time per organization, and cached for a while. The same
process finds characters that are missing from all fonts.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
import structlog
from prometheus_client import Counter, Gauge

from workhook.core import json, limited_process
from workhook.core.errors import Conflict, Invalid, Unavailable, say
from workhook.core.fair_queue import FairQueue, QueueFull
from workhook.core.limited_process import Limits
from workhook.core.limited_process import ProcessFailed as RenderFailed
from workhook.http.calls import Call, Response, Services
from workhook.http.endpoints import Routes
from workhook.http.messages import disposition
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.schemas import Actor, Repository
from workhook.storage import Reader, Row
from workhook.storage.blobs import BlobMissing, Blobs
from workhook.work.kernel.access import find_with_access
from workhook.work.kernel.billing_settings import Party
from workhook.work.money.invoices import facturx, printing, queries
from workhook.work.money.invoices.actions import require_issued, visible
from workhook.work.money.invoices.einvoice import XML, EInvoice, einvoice_of
from workhook.work.money.invoices.printing import Printed
from workhook.work.money.invoices.rules import ISSUED, Credit
from workhook.work.money.invoices.schemas import Invoice
from workhook.work.money.invoices.settings import LogoFile, buyer_of_row, find_logo, seller_of_row

CPU_S = 20
MEMORY_BYTES = 1024**3
OUTPUT_MAX_BYTES = 32 * 1024 * 1024
REPORT_MAX_BYTES = 8192

_SCRIPT = Path(__file__).with_name("render.py")
_CODE_POINT = re.compile(r"U\+[0-9A-F]{4,6}")


class Logo(msgspec.Struct, frozen=True):
    """An uploaded image. The extension of `name` matches its type."""

    name: str
    content: bytes


class Report(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line of the output. Its errors contain text of the logo or invoice, so escape them in the log."""

    missing: list[str]
    logo_error: str | None
    xml_error: str | None

    def __post_init__(self) -> None:
        if not all(map(_CODE_POINT.fullmatch, self.missing)):
            raise ValueError("missing: code points")


def _limits(timeout_s: float) -> Limits:
    return Limits(timeout_s, CPU_S, MEMORY_BYTES, OUTPUT_MAX_BYTES)


async def find_missing(characters: str, *, timeout_s: float) -> set[str]:
    """Return the characters that are missing from all fonts on this machine. Raises `RenderFailed`."""
    made = await limited_process.run(_SCRIPT, {"characters": characters}, _limits(timeout_s))
    try:
        return set(msgspec.json.decode(made.output, type=list[str])) & set(characters)
    except msgspec.MsgspecError as error:
        raise RenderFailed("failure", 0, ascii(str(error))) from error


AT_ONCE = 2
WAITING_MAX = 64
WAITING_MAX_EACH = 8
WAIT_S = 30.0
RENDER_S = 30.0
RETRY_AFTER_S = 5
KEPT_MAX_BYTES = 16 * 1024 * 1024
KEPT_S = 24 * 3600
KEPT_INCOMPLETE_S = 300
"""The cache time of a PDF that may be complete the next time: with the logo, after a render was killed and repeated
without it, or with the characters that had no font, once fonts are installed."""
LOGO_MAX_BYTES = 2 * 1024 * 1024

FAILURES = Counter("workhook_invoice_pdf_failures_total", "Invoices that could not be rendered.", ["reason"])

BOXES = Counter("workhook_invoice_pdf_boxes_total", "Invoices rendered with boxes for characters without a font.")

XML_LEFT_OUT = Counter(
    "workhook_invoice_pdf_xml_left_out_total",
    "Invoices rendered without their e-invoice, because characters have no font (`characters`) or rendering "
    "failed (`failure`).",
    ["reason"],
)

LOGOS_LEFT_OUT = Counter(
    "workhook_invoice_pdf_logos_left_out_total",
    "Invoices rendered without their logo, because it is `invalid` or ended the rendering (`timeout`, "
    "`killed`, `failure`).",
    ["reason"],
)

ANSWERS = Counter(
    "workhook_invoice_pdf_answers_total",
    "PDFs served: `rendered` now, `shared` with a rendering in progress, or `kept` from an earlier one.",
    ["source"],
)

WAITING = Gauge("workhook_invoice_pdf_waiting", "Invoices waiting to be rendered.")

_LOGO_NAMES = {"image/png": "logo.png", "image/jpeg": "logo.jpg", "image/svg+xml": "logo.svg"}
_FILE_PATH = re.compile(r"/files/(fil_[0-9a-z]{26})/content(?:[?#].*)?")

log = structlog.get_logger(__name__)


class Pdf(msgspec.Struct, frozen=True):
    """A rendered PDF. `missing` lists the first characters without a font, such as `U+6F22`. They appear as boxes."""

    content: bytes
    missing: str | None


class Document(msgspec.Struct, frozen=True):
    """An invoice or a credit note to print.

    `logo_id` is the seller's logo; without one, the project's `avatar` may be used. `timestamp_s` is the creation date
    in the file, so printing the same document again gives the same bytes. `einvoice` is attached if possible.
    """

    id: str
    page: Printed
    einvoice: EInvoice | None
    logo_id: str | None
    avatar: str | None
    timestamp_s: int
    file_name: str


class PdfJob(msgspec.Struct, frozen=True):
    """A document to print. `logo` has a supported content type and size; its content is unchecked."""

    account_id: int
    document: Document
    logo: LogoFile | None

    def key(self) -> bytes:
        """Return a key that identifies equal pages of one organization."""
        printed = self.document
        parts = [self.account_id, printed.id, printed.page, printed.einvoice, printed.timestamp_s, self.logo]
        return hashlib.sha256(json.encode(parts)).digest()


class _SharedRender:
    """A render in progress. It is canceled when the last waiting request gives up."""

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

    async def make(self, job: PdfJob, blobs: Blobs) -> Pdf:
        """Return the PDF of a job. Raises `Unavailable` if too many requests are waiting, or if it takes too long."""
        key = job.key()
        if (kept := self._kept.get(key, time.monotonic())) is not None:
            ANSWERS.labels("kept").inc()
            return kept
        render = self._renders.get(key)
        shared = render is not None and render.usable
        if render is None or not shared:
            self._renders[key] = render = _SharedRender(asyncio.create_task(self._print(key, job, blobs)))
        try:
            made = await render.result()
        finally:
            if self._renders.get(key) is render and not shared:
                del self._renders[key]
        ANSWERS.labels("shared" if shared else "rendered").inc()
        return made

    async def _print(self, key: bytes, job: PdfJob, blobs: Blobs) -> Pdf:
        async with AsyncExitStack() as stack:
            try:
                with WAITING.track_inprogress():
                    async with asyncio.timeout(WAIT_S):
                        await stack.enter_async_context(self._queue.slot(job.account_id))
            except (QueueFull, TimeoutError):
                FAILURES.labels("busy").inc()
                log.warning("invoice_pdf_busy", waiting=len(self._queue))
                message = say("Too many PDFs are being created. Try again in a few seconds.")
                raise Unavailable(message, code="pdf_unavailable", retry_after_s=RETRY_AFTER_S) from None
            logo = await read_logo(blobs, job.logo) if job.logo else None
            made, kept_s = await _render(job, logo)
        self._kept.put(key, made, time.monotonic() + kept_s)
        return made


class KeptPdfs:
    """A cache of the most recently requested PDFs, limited to `max_bytes`."""

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


def file_id_of(avatar: str | None, bases: tuple[str, ...]) -> str | None:
    """Return the ID of an avatar that is a file below one of this server's `bases`. No other avatar is ever fetched."""
    for base in bases:
        if avatar and avatar.startswith(base) and (found := _FILE_PATH.fullmatch(avatar.removeprefix(base))):
            return found[1]
    return None


def _logo_name(file: LogoFile) -> str | None:
    return _LOGO_NAMES.get(file.content_type.partition(";")[0].strip().lower())


async def read_logo(blobs: Blobs, file: LogoFile) -> Logo | None:
    """Read an image. Returns None if its content no longer exists."""
    name = _logo_name(file)
    assert name is not None, "it is an image"
    try:
        pieces = [each async for each in await blobs.read(file.blob, 0, file.size)]
    except BlobMissing:
        FAILURES.labels("logo_missing").inc()
        log.warning("invoice_logo_missing", blob=file.blob)
        return None
    return Logo(name, b"".join(pieces))


async def _render(job: PdfJob, logo: Logo | None) -> tuple[Pdf, float]:
    """Return the PDF, and how long to cache it, in seconds.

    A render that dies is repeated without the logo and, if it still dies, without the e-invoice. Raises `Unavailable`.
    """
    xml = await _xml_of(job)
    tries = [(logo, xml), (None, xml if logo else None)]
    if logo and xml:
        tries.append((None, None))
    reason, kept_s = "", KEPT_S
    for with_logo, with_xml in tries:
        try:
            made = await _run(job.document, with_logo, with_xml)
            return made, KEPT_INCOMPLETE_S if made.missing else kept_s
        except RenderFailed as failed:
            reason, kept_s = failed.reason, KEPT_INCOMPLETE_S
            log.warning("invoice_pdf_failed", invoice_id=job.document.id, error=str(failed), stderr=failed.stderr)
        if with_logo is not None:
            LOGOS_LEFT_OUT.labels(reason).inc()
        elif reason == "timeout":
            FAILURES.labels("timeout").inc()
            message = say("Creating the PDF took too long. Try again, or split the invoice.")
            raise Unavailable(message, code="pdf_unavailable", retry_after_s=RETRY_AFTER_S)
        elif with_xml is not None:
            XML_LEFT_OUT.labels("failure").inc()
    FAILURES.labels(reason).inc()
    log.error("invoice_pdf_failed", invoice_id=job.document.id, reason=reason)
    message = say("The PDF could not be created. The reason is in the server log.")
    raise Unavailable(message, code="pdf_unavailable", retry_after_s=RETRY_AFTER_S)


async def _xml_of(job: PdfJob) -> bytes | None:
    """Return the e-invoice, if there is one. A failure is logged, and the PDF is printed without it."""
    einvoice = job.document.einvoice
    if einvoice is None:
        return None
    try:
        return await asyncio.to_thread(xml_of, einvoice)  # takes a tenth of a second for a thousand lines
    except Exception:
        XML_LEFT_OUT.labels("failure").inc()
        log.exception("invoice_xml_failed", invoice_id=job.document.id)
        return None


def xml_of(document: EInvoice) -> bytes:
    from workhook.work.money.invoices import cii  # imports an XML library that most servers never use

    return cii.to_xml(document)


async def _run(document: Document, logo: Logo | None, xml: bytes | None) -> Pdf:
    """Render a document, with `xml` as the attached e-invoice, and report what was left out. Raises `RenderFailed`."""
    job = {
        "invoice": document.page,
        "timestamp_s": document.timestamp_s,
        "xml": xml.decode() if xml is not None else None,
        "logo": base64.b64encode(logo.content).decode() if logo else None,
        "logo_name": logo.name if logo else None,
    }
    made = await limited_process.run(_SCRIPT, job, _limits(RENDER_S))
    line, _, content = made.output.partition(b"\n")
    try:
        report = msgspec.json.decode(line[:REPORT_MAX_BYTES], type=Report)
    except msgspec.MsgspecError as error:
        raise RenderFailed("failure", 0, ascii(str(error))) from error
    missing = " ".join(report.missing) or None
    if missing is not None:
        BOXES.inc()
    if report.logo_error is not None:
        LOGOS_LEFT_OUT.labels("invalid").inc()
    if report.xml_error is not None:
        XML_LEFT_OUT.labels("characters" if missing else "failure").inc()
    if missing or report.logo_error or report.xml_error or made.stderr:
        reported = {"logo_error": report.logo_error, "xml_error": report.xml_error}
        errors = {name: None if each is None else ascii(each) for name, each in reported.items()}
        log.warning("invoice_pdf_warnings", invoice_id=document.id, missing=missing, stderr=made.stderr, **errors)
    if xml is not None and report.xml_error is None:
        try:
            return Pdf(facturx.with_metadata(content), missing)
        except facturx.UnknownForm as unknown:  # the PDF still contains the e-invoice
            log.error("invoice_pdf_metadata_failed", invoice_id=document.id, error=str(unknown))
    return Pdf(content, missing)


PDF = "application/pdf"
BINARY: Mapping[int, Any] = {200: {"type": "string", "format": "binary"}}
"""The responses of an operation that returns a file."""

routes = Routes(WORK_API, "Invoices")


def parties_now(row: Row) -> tuple[Party, Party]:
    """Return the seller and the buyer in the current settings. `row` is one of `queries.by_id`."""
    return seller_of_row(row), buyer_of_row(row) or Party()


def document_of(invoice: Invoice, repository: Repository, row: Row, credit: Credit | None = None) -> Document:
    """Return the printable invoice, or one of its credit notes. `row` is one of `queries.by_id`."""
    document_id, einvoice = credit.id if credit else invoice.id, None
    if credit:
        page = printing.print_credit_note(invoice, repository, credit)
    else:
        page = printing.print_invoice(invoice, repository)
    if credit or invoice.status in ISSUED:
        einvoice = attachment(lambda: einvoice_of(invoice, repository, parties_now(row), credit), document_id)
    made_at = credit.issued if credit else invoice.issued or invoice.created_at
    name = printing.file_name(invoice, credit=credit)
    logo_id, avatar = invoice.who_bills.logo, row["project_avatar"]
    return Document(document_id, page, einvoice, logo_id, avatar, made_at // 1000, name)


def attachment(make: Callable[[], EInvoice], document_id: str) -> EInvoice | None:
    """Return the e-invoice, or None if required data is missing or it fails. The document is printed either way."""
    try:
        return make()
    except Invalid:
        return None
    except Exception:
        XML_LEFT_OUT.labels("failure").inc()
        log.exception("invoice_xml_failed", invoice_id=document_id)
        return None


def xml_answer(document: EInvoice, file_name: str) -> Response:
    return Response(xml_of(document), headers=disposition(file_name), media_type=XML)


async def pdf_answer(call: Call, repository: Repository, document: Document) -> Response:
    """Respond with the PDF of a document. Raises `Unavailable`."""
    made = await create_pdf(call.services, repository, document, (call.base, call.public_base))
    headers = disposition(document.file_name, "inline")
    if made.missing is not None:
        headers["X-Missing-Characters"] = made.missing
    return Response(made.content, headers=headers, media_type=PDF)


async def create_pdf(services: Services, repository: Repository, document: Document, bases: tuple[str, ...]) -> Pdf:
    """Print a document. `bases` are the base URLs of this server's files. Raises `Unavailable`."""
    file: LogoFile | None = None
    if document.logo_id is not None:
        file = await find_logo(services.database, repository.owner.id, document.logo_id)
    if file is None and (file_id := file_id_of(document.avatar, bases)):
        file = await queries.find_logo(services.database, repository.id, file_id)
    if file and not (_logo_name(file) and 0 < file.size <= LOGO_MAX_BYTES):
        file = None
    job = PdfJob(repository.owner.id, document, file)
    printer = _printers.setdefault(asyncio.get_running_loop(), Printer())
    return await printer.make(job, services.blobs)


@routes.get("/invoices/{invoice_id}/pdf", answers=BINARY, media_type=PDF)
async def get_invoice_pdf(call: Call, invoice_id: str) -> Response:
    """Get an invoice as a PDF.

    A draft is marked as such. The logo is the one in the billing settings; without one, it is the project's `avatar` if
    that is a PNG, JPEG or SVG among the project's files that is not private and can be drawn within two seconds.
    Otherwise, the initials of the billing account are shown. The invoices of an organization are printed one after
    another; 503 `pdf_unavailable` means that too many are waiting, or that printing took too long. Emoji are left out.
    Characters that are missing from all fonts on the server are printed as boxes, and the `X-Missing-Characters` header
    then lists the first of them, such as `U+6F22`.

    If an e-invoice is available (`/xml`), it is embedded as Factur-X (ZUGFeRD) with the profile EN 16931; the PDF is
    then PDF/A-3 with the file `factur-x.xml`. A PDF with boxes never contains one.
    """
    row, access = await find_with_access(call.database, queries.by_id, actor_of(call), id=invoice_id)
    document = document_of(visible(row, access), access.repository, row)
    return await pdf_answer(call, access.repository, document)


async def _find_einvoice(reader: Reader, actor: Actor, invoice_id: str) -> tuple[Invoice, EInvoice]:
    row, access = await find_with_access(reader, queries.by_id, actor, id=invoice_id)
    invoice = visible(row, access)
    require_issued(invoice)
    return invoice, einvoice_of(invoice, access.repository, parties_now(row))


async def can_be_einvoice(reader: Reader, actor: Actor, invoice_id: str) -> bool:
    """Return whether the invoice is issued and contains all data of an e-invoice. Raises `NotFound`."""
    try:
        await _find_einvoice(reader, actor, invoice_id)
    except (Conflict, Invalid):
        return False
    return True


@routes.get("/invoices/{invoice_id}/xml", answers=BINARY, problems=(409, 422), media_type=XML)
async def get_invoice_xml(call: Call, invoice_id: str) -> Response:
    """Get an invoice as an e-invoice according to EN 16931, in the UN/CEFACT CII syntax.

    Available for sent invoices. It requires the country and name of the buyer, and the country of the seller with a VAT
    ID or tax number; otherwise the request fails with 422, stating what is missing and where to enter it. A draft fails
    with 409 `invoice_draft`, and a void invoice with 409 `invoice_void`.
    """
    invoice, document = await _find_einvoice(call.database, actor_of(call), invoice_id)
    return xml_answer(document, printing.file_name(invoice, "xml"))
