"""The SQL of invoices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

import sqlalchemy as sa

from workhook.core import json
from workhook.storage import Transaction
from workhook.storage.dialects import upsert
from workhook.storage.metadata import big, insert_into
from workhook.work.invoices.rules import Item, number_text
from workhook.work.invoices.tables import invoice_numbers, invoices

_insert = insert_into(invoices, *(each.name for each in invoices.c))
_count = (
    upsert(invoice_numbers)
    .values(account_id=big("account_id"), last=sa.literal(1, sa.BigInteger))
    .on_conflict_do_update(
        index_elements=[invoice_numbers.c.account_id], set_={"last": invoice_numbers.c.last + sa.literal(1)}
    )
    .returning(invoice_numbers.c.last)
)
_numbered = sa.select(invoices.c.id).where(
    invoices.c.account_id == big("account_id"), invoices.c.invoice_number == sa.bindparam("invoice_number")
)


async def insert_invoice(tx: Transaction, values: Mapping[str, object]) -> None:
    await tx.execute(_insert, values)


async def next_number(tx: Transaction, account_id: int) -> str:
    """The next of the account's sequence that no caller chose before. Until the transaction ends nobody else gets one,
    so that the numbers have no gap: what is rolled back gives its number back."""
    while True:
        row = await tx.fetch_one(_count, {"account_id": account_id})
        assert row is not None, "the statement inserts or updates"
        number = number_text(row["last"])
        if not await is_taken(tx, account_id, number):
            return number


async def is_taken(tx: Transaction, account_id: int, number: str) -> bool:
    return await tx.fetch_one(_numbered, {"account_id": account_id, "invoice_number": number}) is not None


def items_text(items: Iterable[Item]) -> str:
    """As the columns hold them."""
    return json.encode_text([(e.description, f"{e.qty:f}", e.unit_price_minor, e.timesheet_id) for e in items])


def items_of(text: str) -> tuple[Item, ...]:
    return tuple(Item(each[0], Decimal(each[1]), each[2], each[3]) for each in json.decode(text))
