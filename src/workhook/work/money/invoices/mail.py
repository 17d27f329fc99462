"""Invoices in e-mail: what a message shows, and the recipients to whom an invoice was sent.

Sent messages are kept for a week (`delivery.mail.queue`), so the recipients of older invoices are unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec
import sqlalchemy as sa

from workhook.core.clock import DAY_MS
from workhook.http.calls import Services
from workhook.identity.mail import recipients
from workhook.identity.mail.recipients import Undelivered, can_be_mailed, explain, mail_address
from workhook.identity.schemas import Account, Actor
from workhook.identity.tables import ATTEMPTS_MAX, accounts, mail_messages, memberships
from workhook.storage import Reader, Row
from workhook.storage.metadata import bigint_param
from workhook.work.kernel.access import Access, find_with_access
from workhook.work.kernel.tables import clients
from workhook.work.money.invoices import queries
from workhook.work.money.invoices.actions import visible
from workhook.work.money.invoices.documents import create_pdf, document_of
from workhook.work.money.invoices.rules import ISSUED
from workhook.work.money.invoices.schemas import Invoice


class InvoiceFile(NamedTuple):
    name: str
    content: bytes


async def find_mailed_invoice(
    services: Services, user: Account, invoice_id: str, base: str, *, prints: bool
) -> tuple[Invoice, list[InvoiceFile]]:
    """Find the invoice as the user sees it, and its PDF if `prints`. Raises `NotFound` or `Unavailable`."""
    actor = Actor(user, 0, "mail", frozenset())
    row, access = await find_with_access(services.database, queries.by_id, actor, id=invoice_id)
    invoice = visible(row, access)
    if not prints:
        return invoice, []
    document = document_of(invoice, access.repository, row)
    made = await create_pdf(services, access.repository, document, (base,))
    return invoice, [InvoiceFile(document.file_name, made.content)]


KNOWN_MS = 6 * DAY_MS
"""The time after an invoice's issue during which all its messages are certain to be kept."""
_ROWS_MAX = 100

Outcome = Literal["sent", "waiting", "put_off", "refused", "given_up"]
"""`put_off` will be retried; `given_up` means that the last attempt failed."""
Reason = Literal["no_server", "no_clients", "no_address", "not_wanted"]
"""Why an invoice was not e-mailed.

The server sends no e-mail, the project has no clients, none of them has a confirmed address that accepts e-mail, or
they had none at the time or have opted out.
"""


class MailedTo(msgspec.Struct, frozen=True):
    """One message of an invoice.

    `address` is set only if it is the one the client was invited with; others remain private. `sent_at` is in
    milliseconds since the epoch. `why` explains a failure, without the mail server's response, which may contain
    addresses.
    """

    name: str
    address: str | None
    outcome: Outcome
    sent_at: int | None
    why: Undelivered | None = None


class Mailed(msgspec.Struct, frozen=True):
    """The messages of an invoice or, if there are none, the `reason`."""

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
    .where(sa.not_(_is_owner))  # leaves out the owners of the selling account
    .order_by(_m.id)
    .limit(_ROWS_MAX)
)
_of_project = clients.c.repository_id == bigint_param("repository_id")
_clients = sa.select(
    sa.exists().where(_of_project).label("has_some"),
    sa.exists()
    .where(_of_project, accounts.c.id == clients.c.user_id, can_be_mailed)
    .correlate(None)
    .label("can_mail_one"),
)


async def find_mailed(reader: Reader, access: Access, invoice: Invoice, now: int) -> Mailed | None:
    """Return the e-mails sent when the invoice was issued, or why there were none.

    Returns None if this is no longer known, or if the caller may not issue the invoice.
    """
    if access.is_client or not access.may_write or invoice.status not in ISSUED or invoice.issued is None:
        return None
    if now - invoice.issued > KNOWN_MS:
        return None
    rows = await reader.fetch_all(_messages, {"invoice_id": invoice.id})
    if rows:
        return Mailed([_mailed_to(row) for row in rows])
    if not recipients.sends_mail():
        return Mailed(reason="no_server")
    row = await reader.fetch_one(_clients, {"repository_id": access.repository.id})
    if row is None or not row["has_some"]:
        return Mailed(reason="no_clients")
    return Mailed(reason="not_wanted" if row["can_mail_one"] else "no_address")


def _mailed_to(row: Row) -> MailedTo:
    outcome: Outcome = "waiting" if row["failure"] is None else "put_off"
    why = None
    if row["sent_at"] is not None:
        outcome = "sent"
    elif row["failed_at"] is not None:
        outcome = "refused" if row["attempts"] < ATTEMPTS_MAX else "given_up"
        why = explain(row["failure"] or "", was_tried=outcome == "given_up")
    return MailedTo(row["name"], row["address"], outcome, row["sent_at"], why)
