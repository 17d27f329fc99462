"""A document of an invoice as a PDF: the invoice itself, or a credit note."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import structlog

from workhook.core.errors import Invalid
from workhook.http.calls import Answer, Call, Services
from workhook.http.messages import disposition
from workhook.identity.authenticator import actor_of
from workhook.identity.schemas import Repository
from workhook.storage import Row
from workhook.work.kernel.access import find_with_access
from workhook.work.kernel.settings import Party
from workhook.work.money.invoices import drafting, pdf, printing
from workhook.work.money.invoices.changing import require_issued, visible
from workhook.work.money.invoices.drafting import LogoFile
from workhook.work.money.invoices.einvoice import XML, EInvoice, einvoice_of
from workhook.work.money.invoices.pdf import Pdf
from workhook.work.money.invoices.printing import Printed
from workhook.work.money.invoices.rules import ISSUED
from workhook.work.money.invoices.schemas import Invoice
from workhook.work.money.invoices.settings import buyer_of_row, find_logo, seller_of_row

PDF = "application/pdf"

log = structlog.get_logger(__name__)


def parties_now(row: Row) -> tuple[Party, Party]:
    """Who bills and who pays, as the settings say now. `row`: of `drafting.by_id`."""
    return seller_of_row(row), buyer_of_row(row) or Party()


def attachment_of(invoice: Invoice, repository: Repository, row: Row) -> EInvoice | None:
    """The e-invoice that the invoice's PDF carries, if there is one. `row`: of `drafting.by_id`."""
    if invoice.status not in ISSUED:
        return None
    return attachment(lambda: einvoice_of(invoice, repository, parties_now(row)), invoice.id)


def attachment(make: Callable[[], EInvoice], document_id: str) -> EInvoice | None:
    """The e-invoice; None if something is missing for it. A document is printed whatever becomes of that."""
    try:
        return make()
    except Invalid:
        return None
    except Exception:
        pdf.XML_LEFT_OUT.labels("failure").inc()
        log.exception("invoice_xml_failed", invoice_id=document_id)
        return None


def xml_answer(document: EInvoice, file_name: str) -> Answer:
    """An e-invoice, to be stored."""
    return Answer(pdf.xml_of(document), headers=disposition(file_name), media_type=XML)


async def pdf_answer(
    call: Call,
    repository: Repository,
    document_id: str,
    document: Printed,
    *,
    einvoice: EInvoice | None,
    logo_id: str | None,
    avatar: str | None,
    timestamp_s: int,
    file_name: str,
) -> Answer:
    """`logo_id`: of the seller; without one, `avatar` of the project may be the logo. Raises `Unavailable`."""
    made = await make_pdf(
        call.services,
        repository,
        document_id,
        document,
        einvoice=einvoice,
        logo_id=logo_id,
        avatar=avatar,
        timestamp_s=timestamp_s,
        bases=(call.base, call.base_for_others),
    )
    headers = disposition(file_name, "inline")
    if made.missing is not None:
        headers["X-Missing-Characters"] = made.missing
    return Answer(made.content, headers=headers, media_type=PDF)


async def make_pdf(
    services: Services,
    repository: Repository,
    document_id: str,
    document: Printed,
    *,
    einvoice: EInvoice | None,
    logo_id: str | None,
    avatar: str | None,
    timestamp_s: int,
    bases: tuple[str, ...],
) -> Pdf:
    """As `pdf_answer`. `bases`: what the address of a file of this server may begin with."""
    file: LogoFile | None = None
    if logo_id is not None and (found := await find_logo(services.database, repository.owner.id, logo_id)):
        file = LogoFile(found.content_type, found.size, found.blob)
    elif file_id := pdf.file_id_of(avatar, bases):
        file = await drafting.find_logo(services.database, repository.id, file_id)
    job = pdf.PdfJob(
        account_id=repository.owner.id,
        invoice_id=document_id,
        document=document,
        timestamp_s=timestamp_s,
        logo=file if pdf.is_logo(file) else None,
        einvoice=einvoice,
    )
    return await pdf.printer().make(job, partial(pdf.read_logo, services.blobs))


async def get_invoice_pdf(call: Call, invoice_id: str) -> Answer:
    """Get an invoice as a PDF.

    A draft is marked as one. The logo is that of the billing settings, or else the project's `avatar` if that is a
    PNG, JPEG or SVG among the project's files. It must not be private, and must be drawn within two seconds. Otherwise
    the initials of the account that bills stand in its place. An organization's invoices are printed one after the
    other; 503 `pdf_unavailable`: too many wait already, or it took too long. Emoji are left out. If no font of the
    server has some characters, they are printed as boxes. `X-Missing-Characters` then names the first of them, such as
    `U+6F22`.

    If the invoice has an e-invoice (`/xml`), the PDF carries it, as Factur-X (ZUGFeRD) of the profile EN 16931: it is
    PDF/A-3 with the file `factur-x.xml`. One with boxes carries none.
    """
    row, access = await find_with_access(call.database, drafting.by_id, actor_of(call), id=invoice_id)
    invoice, repository = visible(row, access), access.repository
    return await pdf_answer(
        call,
        repository,
        invoice.id,
        printing.printed(invoice, repository),
        einvoice=attachment_of(invoice, repository, row),
        logo_id=printing.logo_of(invoice),
        avatar=row["project_avatar"],
        timestamp_s=printing.timestamp_s(invoice),
        file_name=printing.file_name(invoice),
    )


async def get_invoice_xml(call: Call, invoice_id: str) -> Answer:
    """Get an invoice as an e-invoice: EN 16931, in the syntax of UN/CEFACT (CII).

    Of an invoice that was sent. It needs the country and the name of the buyer, and the country of the seller with a
    VAT id or a tax number: 422 names what is missing, and where to write it. A draft is 409 `invoice_draft`, a void one
    409 `invoice_void`.
    """
    row, access = await find_with_access(call.database, drafting.by_id, actor_of(call), id=invoice_id)
    invoice = visible(row, access)
    require_issued(invoice)
    document = einvoice_of(invoice, access.repository, parties_now(row))
    return xml_answer(document, printing.file_name(invoice, "xml"))
