"""What changes of invoices tell people. Each is one statement that the commit takes along."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.identity.context import Write
from workhook.identity.notifications.telling import telling
from workhook.identity.schemas import Repository
from workhook.identity.tables import accounts, memberships
from workhook.storage.metadata import big
from workhook.work.kernel.clients import clients
from workhook.work.kernel.record_events import told_in

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
