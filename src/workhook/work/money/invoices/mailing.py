"""An invoice as it goes along with a message: what the message states of it, and its PDF."""

from __future__ import annotations

from datetime import date

import msgspec

from workhook.http.calls import Services
from workhook.identity.schemas import Account, Actor
from workhook.storage import Row
from workhook.work.kernel.access import Access, find_with_access
from workhook.work.kernel.settings import Language
from workhook.work.money.invoices import drafting, printing
from workhook.work.money.invoices.changing import visible
from workhook.work.money.invoices.days import days_of
from workhook.work.money.invoices.documents import attachment_of, make_pdf
from workhook.work.money.invoices.rules import OPEN
from workhook.work.money.invoices.schemas import Invoice, language_of


class InvoiceFile(msgspec.Struct, frozen=True):
    """A PDF."""

    name: str
    content: bytes


class MailedInvoice(msgspec.Struct, frozen=True):
    """An invoice as its recipient sees it now."""

    invoice: Invoice
    access: Access
    row: Row

    @property
    def language(self) -> Language:
        return language_of(self.invoice)

    @property
    def amount_due_minor(self) -> int | None:
        """None where nothing is due any more."""
        return self.invoice.books.due if self.invoice.status in OPEN else None

    @property
    def due(self) -> date | None:
        return days_of(self.invoice).due


async def find_mailed_invoice(services: Services, user: Account, invoice_id: str) -> MailedInvoice:
    """As the user sees it now. Raises `NotFound`."""
    actor = Actor(user, 0, "mail", frozenset())
    row, access = await find_with_access(services.database, drafting.by_id, actor, id=invoice_id)
    return MailedInvoice(visible(row, access), access, row)


async def print_for(services: Services, mailed: MailedInvoice, base: str) -> InvoiceFile:
    """`base`: the address of this server. Raises `Unavailable`."""
    invoice, repository, row = mailed.invoice, mailed.access.repository, mailed.row
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
