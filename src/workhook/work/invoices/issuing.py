"""Invoices that Workhook draws up by itself, for service checkouts."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from workhook.identity.context import Write
from workhook.identity.schemas import Repository
from workhook.work.invoices import queries, rules
from workhook.work.invoices.rules import Item
from workhook.work.invoices.schemas import blank_invoice, invoice_to_response
from workhook.work.record_events import publish_event


async def issue(
    write: Write, repository: Repository, *, service_checkout_id: str, items: Sequence[Item], currency: str
) -> str:
    """A sent invoice with `items` as its recurring ones; its id. Announces `invoice created`, and nothing else.

    From here to the end of the transaction nobody else in the account gets a number.
    """
    amount = rules.amount_minor(items)
    invoice = msgspec.structs.replace(
        blank_invoice(currency, write.caller.user if write.caller else None, write.now),
        invoice_number=await queries.next_number(write.tx, repository.owner.id),
        status="sent",
        amount_minor=amount,
        total_minor=amount,
        issued=write.now,
        recurring_items=rules.items_text(items),
        service_checkout_id=service_checkout_id,
    )
    await queries.insert_invoice(write.tx, repository, invoice)
    record = invoice_to_response(invoice, write.now)
    await publish_event(write, repository, "invoice", "created", record)
    return invoice.id
