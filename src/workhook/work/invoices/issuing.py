"""Invoices that Workhook draws up by itself, for service checkouts."""

from __future__ import annotations

from collections.abc import Sequence

from workhook.core.ids import new_id
from workhook.identity.context import Write
from workhook.identity.schemas import Repository
from workhook.work.announce import announce
from workhook.work.invoices import queries, rules
from workhook.work.invoices.rules import Item
from workhook.work.invoices.schemas import invoice_shape
from workhook.work.people import person_values


async def issue(
    write: Write, repository: Repository, *, service_checkout_id: str, items: Sequence[Item], currency: str
) -> str:
    """A sent invoice with `items` as its recurring ones; its id. Announces `invoice created`, and nothing else.

    From here to the end of the transaction nobody else in the account gets a number.
    """
    user, amount = write.caller.user if write.caller else None, rules.amount_minor(items)
    values: dict[str, object] = {
        **dict.fromkeys(("bill_from", "bill_to", "address", "tax_millionths", "due", "paid_at")),
        **dict.fromkeys(("payment_method", "payment_terms", "credit_type")),
        "id": new_id("inv"),
        "repository_id": repository.id,
        "account_id": repository.owner.id,
        "user_id": user.id if user else None,
        "service_checkout_id": service_checkout_id,
        "invoice_number": await queries.next_number(write.tx, repository.owner.id),
        "status": "sent",
        "amount_minor": amount,
        "total_minor": amount,
        "currency": currency,
        "issued": write.now,
        "items": queries.items_text(()),
        "recurring_items": queries.items_text(items),
        "created_at": write.now,
        "updated_at": write.now,
    }
    await queries.insert_invoice(write.tx, values)
    record = invoice_shape({**values, **person_values(user)}, write.now)
    await announce(write, repository, "invoice", "created", record)
    return record.id
