"""Invoices that Workhook draws up by itself, for service checkouts."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from workhook.identity.schemas import Actor, Repository
from workhook.storage import Transaction
from workhook.work.announce import announce
from workhook.work.invoices import queries, rules
from workhook.work.invoices.rules import Item
from workhook.work.invoices.schemas import blank_invoice, invoice_to_response


async def issue(
    tx: Transaction,
    repository: Repository,
    *,
    actor: Actor | None,
    service_checkout_id: str,
    items: Sequence[Item],
    currency: str,
    now: int,
    base: str,
) -> str:
    """A sent invoice with `items` as its recurring ones; its id. Announces `invoice created`, and nothing else.

    From here to the end of the transaction nobody else in the account gets a number.
    """
    amount = rules.amount_minor(items)
    invoice = msgspec.structs.replace(
        blank_invoice(currency, actor.user if actor else None, now),
        invoice_number=await queries.next_number(tx, repository.owner.id),
        status="sent",
        amount_minor=amount,
        total_minor=amount,
        issued=now,
        recurring_items=rules.items_text(items),
        service_checkout_id=service_checkout_id,
    )
    await queries.insert_invoice(tx, repository, invoice)
    record = invoice_to_response(invoice, now)
    await announce(tx, actor, repository, "invoice", "created", record, base=base)
    return invoice.id
