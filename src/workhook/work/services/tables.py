"""What an organization (or a user) sells, and for how much."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.storage.metadata import Millis, metadata

services = sa.Table(
    "services",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("account_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("description", sa.Text),
    sa.Column("active", sa.Boolean, nullable=False),
    sa.Column("addon", sa.Boolean, nullable=False),
    sa.Column("position", sa.BigInteger, nullable=False),
    sa.Column("disable_pause", sa.Boolean, nullable=False),
    sa.Column("disable_quantity", sa.Boolean, nullable=False),
    sa.Column("limit_pausing", sa.BigInteger),
    sa.Column("minimum_months", sa.BigInteger),
    sa.Column("cancel_at_period_end", sa.Boolean, nullable=False),
    sa.Column("require_payment_method", sa.Boolean, nullable=False),
    sa.Column("preview_image", sa.Text),
    # JSON: the prices that can be chosen now, in their order. So that who holds the row's lock has read the last list.
    sa.Column("prices", sa.Text, nullable=False),
    sa.Column("deleted_at", Millis),
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("updated_at", Millis, nullable=False),
    sa.Index("ix_services_account_id", "account_id", "id"),
    sa.Index(
        "ix_services_offered",
        "account_id",
        "active",
        "id",
        sqlite_where=sa.text("deleted_at IS NULL"),
        postgresql_where=sa.text("deleted_at IS NULL"),
    ),
)

# Every price that there ever was; never changed, so that checkouts keep theirs.
service_prices = sa.Table(
    "service_prices",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("service_id", sa.Text, sa.ForeignKey("services.id", ondelete="CASCADE"), nullable=False),
    sa.Column("amount_minor", sa.BigInteger, nullable=False),
    sa.Column("currency", sa.Text, nullable=False),
    sa.Column("interval", sa.Text, nullable=False),
    sa.Column("credits_minor", sa.BigInteger),
    sa.Index("ix_service_prices_service_id", "service_id"),
)
