"""The answer that has a document of an invoice as a PDF: the invoice itself, or a credit note."""

from __future__ import annotations

from functools import partial

from workhook.http.calls import Answer, Call
from workhook.identity.schemas import Repository
from workhook.work.invoices import drafting, pdf
from workhook.work.invoices.printing import Printed

PDF = "application/pdf"


async def pdf_answer(
    call: Call,
    repository: Repository,
    document_id: str,
    document: Printed,
    *,
    avatar: str | None,
    timestamp_s: int,
    file_name: str,
) -> Answer:
    """`avatar`: of the project. Raises `Unavailable`."""
    file = None
    if file_id := pdf.file_id_of(avatar, (call.base, call.base_for_others)):
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
