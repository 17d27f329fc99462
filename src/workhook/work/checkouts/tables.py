"""Subscriptions, and the periods that were billed."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.storage.metadata import Millis, in_project, metadata

service_checkouts = sa.Table(
    "service_checkouts",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    in_project(),
    sa.Column("service_id", sa.Text, sa.ForeignKey("services.id"), nullable=False),
    sa.Column("service_price_id", sa.Text, sa.ForeignKey("service_prices.id")),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id"), nullable=False),
    sa.Column("qty", sa.BigInteger, nullable=False),
    sa.Column("completed_at", Millis),
    sa.Column("pauses", sa.BigInteger, nullable=False),
    sa.Column("pause_date", Millis),
    sa.Column("cancel_date", Millis),
    sa.Column("period_end", Millis),
    # Periods that began; those up to `anchor_periods` ended by `anchor`, from where the ends of the others are counted.
    sa.Column("periods", sa.BigInteger, nullable=False),
    sa.Column("anchor", Millis),
    sa.Column("anchor_periods", sa.BigInteger, nullable=False),
    # When the next period begins; null while none will.
    sa.Column("due_at", Millis),
    sa.Column("unsubscribe_reason", sa.Text),
    sa.Column("unsubscribed_feedback", sa.Text),
    sa.Column("deleted_at", Millis),
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("updated_at", Millis, nullable=False),
    sa.Index("ix_service_checkouts_repository_id", "repository_id", "id"),
    sa.Index("ix_service_checkouts_due_at", "due_at", "id"),
)

# One row for each period that began: its key is what makes a period billed once, whoever is at it.
service_checkout_periods = sa.Table(
    "service_checkout_periods",
    metadata,
    sa.Column(
        "service_checkout_id", sa.Text, sa.ForeignKey("service_checkouts.id", ondelete="CASCADE"), primary_key=True
    ),
    sa.Column("number", sa.BigInteger, primary_key=True),
    sa.Column("started_at", Millis, nullable=False),
    sa.Column("invoice_id", sa.Text),
    sa.Column("credit_id", sa.Text),
)
