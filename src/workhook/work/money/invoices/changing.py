"""An invoice is found, locked and changed, with its event, by whatever has to do with it: the invoice itself, its
payments, and its credit notes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from workhook.core.errors import Conflict, NotFound
from workhook.identity.context import Write
from workhook.identity.notifications import telling
from workhook.identity.schemas import Actor, Repository
from workhook.identity.tables import accounts, memberships, projects
from workhook.storage import Reader, Row, Transaction
from workhook.storage.metadata import big
from workhook.work.kernel.access import Access, find_with_access
from workhook.work.kernel.record_events import Changes, differences, publish_event, told_in
from workhook.work.kernel.tables import clients
from workhook.work.money.invoices import drafting
from workhook.work.money.invoices.days import overdue_at
from workhook.work.money.invoices.rules import ISSUED
from workhook.work.money.invoices.schemas import Invoice, invoice_to_response

# An invoice is the business of who owns the project, and of who is to pay it.
_concerned = sa.select(accounts).where(
    accounts.c.id.in_(
        sa.union_all(
            sa.select(big("account_id")),
            sa.select(memberships.c.user_id).where(
                memberships.c.organization_id == big("account_id"), memberships.c.role == "owner"
            ),
            sa.select(clients.c.user_id).where(clients.c.repository_id == big("repository_id")),
        )
    )
)
_invoice_id = sa.bindparam("invoice_id", type_=sa.Text)
_of_invoice = telling("invoice", _concerned, {"invoice_id": _invoice_id})
_of_payment = telling(
    "payment", _concerned, {"invoice_id": _invoice_id, "payment_id": sa.bindparam("payment_id", type_=sa.Text)}
)
TOLD_ACTIONS = frozenset({"sent", "voided", "credited"})
"""What is done with an invoice that people are told of, beside its payments."""


def tell_of_invoice(write: Write, repository: Repository, invoice_id: str, action: str) -> None:
    """That an invoice was `sent`, `voided` or `credited`."""
    _of_invoice.defer(write.tx, {**told_in(write, repository), "invoice_id": invoice_id, "detail": action})


def tell_of_payment(write: Write, repository: Repository, invoice_id: str, payment_id: str) -> None:
    """That a payment or a refund was booked."""
    params = {"invoice_id": invoice_id, "payment_id": payment_id}
    _of_payment.defer(write.tx, {**told_in(write, repository), **params})


_DOING = "change invoices"


async def find_invoice(reader: Reader, actor: Actor, invoice_id: str) -> tuple[Access, Invoice]:
    """The invoice, with what the actor may do in its project. Raises `NotFound`."""
    row, access = await find_with_access(reader, drafting.by_id, actor, id=invoice_id)
    return access, visible(row, access)


def visible(row: Row, access: Access) -> Invoice:
    """Raises `NotFound`: drafts do not exist for clients."""
    invoice = drafting.invoice_of(row)
    access.require_sight(invoice.status == "draft")
    return invoice


async def lock_invoice(write: Write, invoice_id: str) -> tuple[Access, Invoice]:
    """For a change: nobody else changes the invoice until the transaction ends. Raises `NotFound`, `Forbidden`,
    `Conflict` if the project is archived."""
    row, access = await find_with_access(write.tx, drafting.locked, write.actor, id=invoice_id)
    invoice = visible(row, access)
    access.require_writable()
    access.require_member(_DOING)
    return access, invoice


def require_issued(invoice: Invoice) -> None:
    """Before money is booked on it. Raises `Conflict` for a draft and for a void invoice."""
    if invoice.status not in ISSUED:
        remedy = "send it first" if invoice.status == "draft" else "it owes nothing any more"
        raise Conflict(f"The invoice is {invoice.status}; {remedy}.", code=f"invoice_{invoice.status}")


async def change_invoice(
    write: Write,
    access: Access,
    before: Invoice,
    action: str,
    values: Mapping[str, object],
    *,
    more_changes: Changes | None = None,
    beside: Mapping[str, msgspec.Struct] | None = None,
) -> Invoice:
    """The invoice with these values, written and told of. One that is sent without a number gets the next one.

    `beside`: other records that the event has, by their names there.
    """
    after = replace(before, **values, updated_at=max(write.now, before.updated_at + 1))
    after = replace(after, overdue_at=overdue_at(after))
    if action == "sent" and before.invoice_number is None:
        after = await drafting.update_and_number(write.tx, after, access.repository.owner.id)
    else:
        await drafting.update_invoice(write.tx, after)
    record = invoice_to_response(after, write.now)
    changes = {**differences(invoice_to_response(before, write.now), record), **(more_changes or {})}
    await publish_event(write, access.repository, "invoice", action, record, changes=changes, beside=beside)
    if action in TOLD_ACTIONS:
        tell_of_invoice(write, access.repository, after.id, action)
    return after


_lock_project = (
    sa.select(projects.c.repository_id)
    .where(projects.c.repository_id == big("repository_id"), projects.c.deleted_at.is_(None))
    .with_for_update(read=True)
)


async def lock_project(tx: Transaction, repository_id: int) -> None:
    """Before an invoice of the project is issued: nobody deletes the project until the transaction ends.

    Raises `NotFound` for a project that was deleted.
    """
    if await tx.fetch_one(_lock_project, {"repository_id": repository_id}) is None:
        raise NotFound()
