"""Invoices with their items, and the counter that numbers them."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.storage.metadata import in_project, metadata
from workhook.storage.record_rows import table_columns
from workhook.work.invoices.schemas import Invoice

# `items` and `recurring_items` are JSON: `[[description, quantity in decimal, unit price in minor units, the timesheet
# that the item was made from, its time in milliseconds], …]`, the last two null for others. `credit_type` is `true` or
# `false`.
invoices = sa.Table(
    "invoices",
    metadata,
    in_project(),
    sa.Column("account_id", sa.BigInteger, sa.ForeignKey("accounts.id"), nullable=False),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id")),
    *table_columns(Invoice),
    sa.UniqueConstraint("account_id", "invoice_number"),
    sa.Index("ix_invoices_repository_id", "repository_id", "id"),
    sa.Index("ix_invoices_status", "repository_id", "status", "id"),
)

invoice_numbers = sa.Table(
    "invoice_numbers",
    metadata,
    sa.Column("account_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("last", sa.BigInteger, nullable=False),
)
