"""An invoice as a file that goes along with a message."""

from __future__ import annotations

import msgspec

from workhook.http.calls import Services
from workhook.identity.schemas import Account, Actor
from workhook.work.access import find_with_access
from workhook.work.invoices import drafting, printing
from workhook.work.invoices.changing import visible
from workhook.work.invoices.documents import attachment_of, make_pdf


class InvoiceFile(msgspec.Struct, frozen=True):
    """A PDF."""

    name: str
    content: bytes


async def print_for(services: Services, user: Account, invoice_id: str, base: str) -> InvoiceFile:
    """As the user sees the invoice now. `base`: the address of this server. Raises `NotFound`, `Unavailable`."""
    actor = Actor(user, 0, "mail", frozenset())
    row, access = await find_with_access(services.database, drafting.by_id, actor, id=invoice_id)
    invoice, repository = visible(row, access), access.repository
    made = await make_pdf(
        services,
        repository,
        invoice.id,
        printing.printed(invoice, repository),
        einvoice=attachment_of(invoice, repository, row),
        logo_id=printing.logo_of(invoice),
        avatar=row["project_avatar"],
        timestamp_s=printing.timestamp_s(invoice),
        bases=(base,),
    )
    return InvoiceFile(printing.file_name(invoice), made.content)
