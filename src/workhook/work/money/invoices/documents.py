"""A document of an invoice as a PDF: the invoice itself, or a credit note."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import structlog

from workhook.core.errors import Invalid
from workhook.http.calls import Answer, Call, Services
from workhook.http.messages import disposition
from workhook.identity.schemas import Repository
from workhook.storage import Row
from workhook.work.kernel.settings.parties import Party
from workhook.work.money.invoices import drafting, pdf
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
