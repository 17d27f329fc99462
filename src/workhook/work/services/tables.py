"""What an organization (or a user) sells, and for how much."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.storage.metadata import Millis, metadata
from workhook.storage.record_rows import table_columns
from workhook.work.services.rules import ServicePrice
from workhook.work.services.schemas import Service

services = sa.Table(
    "services",
    metadata,
    sa.Column("account_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False),
    *table_columns(Service),
    # JSON: the prices that can be chosen now, in their order. So that who holds the row's lock has read the last list.
    sa.Column("prices", sa.Text, nullable=False),
    sa.Column("deleted_at", Millis),
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
    sa.Column("service_id", sa.Text, sa.ForeignKey("services.id", ondelete="CASCADE"), nullable=False),
    *table_columns(ServicePrice),
    sa.Index("ix_service_prices_service_id", "service_id"),
)
