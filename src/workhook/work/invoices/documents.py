"""The answer that has a document of an invoice as a PDF: the invoice itself, or a credit note."""

from __future__ import annotations

from functools import partial

from workhook.http.calls import Answer, Call
from workhook.identity.schemas import Repository
from workhook.work.billing.logos import find_logo
from workhook.work.invoices import drafting, pdf
from workhook.work.invoices.drafting import LogoFile
from workhook.work.invoices.printing import Printed

PDF = "application/pdf"


async def pdf_answer(
    call: Call,
    repository: Repository,
    document_id: str,
    document: Printed,
    *,
    logo_id: str | None,
    avatar: str | None,
    timestamp_s: int,
    file_name: str,
) -> Answer:
    """`logo_id`: of the seller; without one, `avatar` of the project may be the logo. Raises `Unavailable`."""
    file: LogoFile | None = None
    if logo_id is not None and (found := await find_logo(call.database, repository.owner.id, logo_id)):
        file = LogoFile(found.content_type, found.size, found.blob)
    elif file_id := pdf.file_id_of(avatar, (call.base, call.base_for_others)):
        file = await drafting.find_logo(call.database, repository.id, file_id)
    job = pdf.PdfJob(
        account_id=repository.owner.id,
        invoice_id=document_id,
        document=document,
        timestamp_s=timestamp_s,
        logo=file if pdf.is_logo(file) else None,
    )
    made = await pdf.printer().make(job, partial(pdf.read_logo, call.services.blobs))
    headers = {"Content-Disposition": f'inline; filename="{file_name}"'}
    if made.missing is not None:
        headers["X-Missing-Characters"] = made.missing
    return Answer(made.content, headers=headers, media_type=PDF)
