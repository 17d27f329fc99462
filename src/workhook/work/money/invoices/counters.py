"""The counters of invoice numbers: one for each account, and one for each of its years where the format has the year.

Whoever gives a number holds the account's counter until the transaction ends, whatever the format is. What is rolled
back gives its number back, so that numbers have no gap.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from workhook.storage import Transaction
from workhook.storage.dialects import upsert
from workhook.storage.metadata import big, metadata
from workhook.work.kernel.settings import DEFAULT_FORMAT, NumberFormat, account_billing

invoice_numbers = sa.Table(
    "invoice_numbers",
    metadata,
    sa.Column("account_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("last", sa.BigInteger, nullable=False),
)

invoice_year_numbers = sa.Table(
    "invoice_year_numbers",
    metadata,
    sa.Column("account_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("year", sa.BigInteger, primary_key=True),
    sa.Column("last", sa.BigInteger, nullable=False),
)


def counted(numbers: sa.Table, step: sa.ColumnElement[int], **others: Any) -> Any:
    """Locks the account's row in this table, and adds `step`. `others`: the other columns of its key."""
    counter = upsert(numbers).values(account_id=big("account_id"), last=step, **others)
    return counter.on_conflict_do_update(
        index_elements=[*numbers.primary_key.columns], set_={"last": numbers.c.last + step}
    ).returning(numbers.c.last)


ONE: sa.ColumnElement[int] = sa.literal(1, sa.BigInteger)
_format = (
    sa.select(account_billing.c.number_format)
    .where(account_billing.c.account_id == big("account_id"))
    .scalar_subquery()
)
# Numbers with a year have a counter of their own: then this one is only locked.
_one_without_year = sa.case((_format.like("%{year}%"), sa.literal(0, sa.BigInteger)), else_=ONE)
_count = counted(invoice_numbers, _one_without_year).returning(_format.label("number_format"))
_count_in_year = counted(invoice_year_numbers, ONE, year=big("year"))
_hold = counted(invoice_numbers, sa.literal(0, sa.BigInteger))


async def count_one(tx: Transaction, account_id: int, year: int) -> str:
    """The next number of the account. `year`: in which the invoice is issued."""
    row = await tx.fetch_one(_count, {"account_id": account_id})
    assert row is not None, "the statement inserts or updates"
    number_format, number = NumberFormat(row["number_format"] or DEFAULT_FORMAT), row["last"]
    if number_format.is_yearly:
        row = await tx.fetch_one(_count_in_year, {"account_id": account_id, "year": year})
        assert row is not None, "the statement inserts or updates"
        number = row["last"]
    return number_format.number_text(number, year)


async def hold_numbers(tx: Transaction, account_id: int) -> None:
    """Until the transaction ends nobody else chooses or gets a number in the account."""
    await tx.fetch_one(_hold, {"account_id": account_id})
