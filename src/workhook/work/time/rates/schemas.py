"""The rates of people, in a project and in an organization. Those of the places stand in their billing settings."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.storage.metadata import metadata

project_rates = sa.Table(
    "project_rates",
    metadata,
    sa.Column(
        "repository_id",
        sa.BigInteger,
        sa.ForeignKey("projects.repository_id", ondelete="CASCADE"),
        primary_key=True,
    ),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("hourly_rate_minor", sa.BigInteger, nullable=False),
    sa.Index("ix_project_rates_user", "user_id"),
)

member_rates = sa.Table(
    "member_rates",
    metadata,
    sa.Column("account_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("hourly_rate_minor", sa.BigInteger, nullable=False),
    sa.Index("ix_member_rates_user", "user_id"),
)
