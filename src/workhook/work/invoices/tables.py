"""Invoices with their items, and the counter that numbers them."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.storage.metadata import Millis, in_project, metadata

# `items` and `recurring_items` are JSON: `[[description, quantity in decimal, unit price in minor units, the timesheet
# that the item was made from, its time in milliseconds], …]`, the last two null for others. `credit_type` is `true` or
# `false`.
invoices = sa.Table(
    "invoices",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    in_project(),
    sa.Column("account_id", sa.BigInteger, sa.ForeignKey("accounts.id"), nullable=False),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id")),
    sa.Column("service_checkout_id", sa.Text),
    sa.Column("invoice_number", sa.Text),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("bill_from", sa.Text),
    sa.Column("bill_to", sa.Text),
    sa.Column("address", sa.Text),
    sa.Column("tax_millionths", sa.BigInteger),
    sa.Column("amount_minor", sa.BigInteger, nullable=False),
    sa.Column("total_minor", sa.BigInteger, nullable=False),
    sa.Column("currency", sa.Text, nullable=False),
    sa.Column("issued", Millis),
    sa.Column("due", Millis),
    sa.Column("paid_at", Millis),
    sa.Column("payment_method", sa.Text),
    sa.Column("payment_terms", sa.Text),
    sa.Column("credit_type", sa.Text),
    sa.Column("items", sa.Text, nullable=False),
    sa.Column("recurring_items", sa.Text, nullable=False),
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("updated_at", Millis, nullable=False),
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
