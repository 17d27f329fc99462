"""An invoice as it goes along with a message, and who got it by e-mail, as far as the messages that are kept tell.

A message that was sent is kept for a week (`delivery.mail.queue`). So of an invoice that was issued earlier nothing is
known, and nothing is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Literal

import msgspec
import sqlalchemy as sa

from workhook.core.clock import DAY_MS
from workhook.http.calls import Services
from workhook.identity.mail import recipients
from workhook.identity.mail.recipients import Undelivered, can_be_mailed, explain, mail_address
from workhook.identity.schemas import Account, Actor
from workhook.identity.tables import ATTEMPTS_MAX, accounts, mail_messages, memberships
from workhook.storage import Reader, Row
from workhook.storage.metadata import big
from workhook.work.kernel.access import Access, find_with_access
from workhook.work.kernel.settings import Language
from workhook.work.kernel.tables import clients
from workhook.work.money.invoices import queries
from workhook.work.money.invoices.actions import visible
from workhook.work.money.invoices.documents import document_of, make_pdf
from workhook.work.money.invoices.rules import ISSUED, OPEN
from workhook.work.money.invoices.schemas import Invoice


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
        return self.invoice.language

    @property
    def amount_due_minor(self) -> int | None:
        """None where nothing is due any more."""
        return self.invoice.books.due if self.invoice.status in OPEN else None

    @property
    def due(self) -> date | None:
        return self.invoice.days.due


async def find_mailed_invoice(services: Services, user: Account, invoice_id: str) -> MailedInvoice:
    """As the user sees it now. Raises `NotFound`."""
    actor = Actor(user, 0, "mail", frozenset())
    row, access = await find_with_access(services.database, queries.by_id, actor, id=invoice_id)
    return MailedInvoice(visible(row, access), access, row)


async def print_for(services: Services, mailed: MailedInvoice, base: str) -> InvoiceFile:
    """`base`: the address of this server. Raises `Unavailable`."""
    document = document_of(mailed.invoice, mailed.access.repository, mailed.row)
    made = await make_pdf(services, mailed.access.repository, document, (base,))
    return InvoiceFile(document.file_name, made.content)


KNOWN_MS = 6 * DAY_MS
"""How long after it was issued all of its messages are there: less than they are kept."""
_ROWS_MAX = 100

Outcome = Literal["sent", "waiting", "put_off", "refused", "given_up"]
"""`put_off`: it could not be sent yet, and is tried again. `given_up`: nor at the last attempt."""
Reason = Literal["no_server", "no_clients", "no_address", "not_wanted"]
"""Why nobody got it: this server sends no e-mail; the project has no clients; none of them has an address that is
confirmed and takes e-mail; or they had none then, or do not want such e-mail."""


class MailedTo(msgspec.Struct, frozen=True):
    """One message. `address`: where it is the one to which the client was invited; others are nobody's business.

    `why`: it is tried no more; what the mail server said is not here: it names such addresses, and itself. `sent_at`:
    milliseconds since the epoch.
    """

    name: str
    address: str | None
    outcome: Outcome
    sent_at: int | None
    why: Undelivered | None = None


class Mailed(msgspec.Struct, frozen=True):
    """`reason`: why nobody got it, where there are no messages."""

    messages: Sequence[MailedTo] = ()
    reason: Reason | None = None


_m = mail_messages.c
_is_owner = sa.or_(
    _m.user_id == _m.account_id,
    sa.exists().where(
        memberships.c.organization_id == _m.account_id,
        memberships.c.user_id == _m.user_id,
        memberships.c.role == "owner",
    ),
)
_messages = (
    sa.select(
        sa.func.coalesce(accounts.c.name, accounts.c.login).label("name"),
        sa.case((sa.func.lower(clients.c.email) == sa.func.lower(mail_address), clients.c.email)).label("address"),
        _m.sent_at,
        _m.failed_at,
        _m.attempts,
        _m.failure,
    )
    .join_from(mail_messages, accounts, accounts.c.id == _m.user_id)
    .outerjoin(clients, sa.and_(clients.c.repository_id == _m.repository_id, clients.c.user_id == _m.user_id))
    .where(_m.invoice_id == sa.bindparam("invoice_id", type_=sa.Text), _m.kind == "invoice", _m.detail == "sent")
    .where(sa.not_(_is_owner))  # the studio itself
    .order_by(_m.id)
    .limit(_ROWS_MAX)
)
_of_project = clients.c.repository_id == big("repository_id")
_clients = sa.select(
    sa.exists().where(_of_project).label("has_some"),
    sa.exists()
    .where(_of_project, accounts.c.id == clients.c.user_id, can_be_mailed)
    .correlate(None)
    .label("can_mail_one"),
)


async def find_mailed(reader: Reader, access: Access, invoice: Invoice, now: int) -> Mailed | None:
    """To whom the invoice was mailed when it was issued. None where that is not known any more, or not the business
    of the caller: of those who cannot issue it."""
    if access.is_client or not access.may_write or invoice.status not in ISSUED or invoice.issued is None:
        return None
    if now - invoice.issued > KNOWN_MS:
        return None
    rows = await reader.fetch_all(_messages, {"invoice_id": invoice.id})
    if rows:
        return Mailed([_mailed_to(row) for row in rows])
    return Mailed(reason=await _reason(reader, access))


async def _reason(reader: Reader, access: Access) -> Reason:
    if not recipients.sends_mail():
        return "no_server"
    row = await reader.fetch_one(_clients, {"repository_id": access.repository.id})
    if row is None or not row["has_some"]:
        return "no_clients"
    return "not_wanted" if row["can_mail_one"] else "no_address"


def _mailed_to(row: Row) -> MailedTo:
    outcome = _outcome(row)
    is_over = outcome in ("refused", "given_up")
    why = explain(row["failure"] or "", was_tried=outcome == "given_up") if is_over else None
    return MailedTo(row["name"], row["address"], outcome, row["sent_at"], why)


def _outcome(row: Row) -> Outcome:
    if row["sent_at"] is not None:
        return "sent"
    if row["failed_at"] is not None:
        return "refused" if row["attempts"] < ATTEMPTS_MAX else "given_up"
    return "put_off" if row["failure"] is not None else "waiting"
