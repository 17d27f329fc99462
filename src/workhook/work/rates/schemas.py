"""The tables of rates: what an organization, a project and a person there take for an hour."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa

from workhook.storage.metadata import metadata

RateSource = Literal["timesheet", "task", "project_member", "project", "member", "organization", "none"]
"""Where the rate of an hour is from: the nearest that says one."""

RoundMode = Literal["up", "nearest"]
ROUND_MINUTES = (0, 1, 5, 6, 10, 15, 30)
"""What the time of an entry can be rounded to on an invoice; 0: not at all."""

BudgetMark = Literal[0, 80, 100]
"""The percentage of a budget that was told last."""


def _terms() -> list[sa.Column[object]]:
    """What a project says, and the organization where it says nothing (null)."""
    return [
        sa.Column("hourly_rate_minor", sa.BigInteger),
        sa.Column("billable", sa.Boolean),
        sa.Column("round_minutes", sa.BigInteger),
        sa.Column("round_mode", sa.Text),
    ]


account_terms = sa.Table(
    "account_terms",
    metadata,
    sa.Column(
        "account_id",
        sa.BigInteger,
        sa.ForeignKey("accounts.id", ondelete="CASCADE"),
        primary_key=True,
        autoincrement=False,
    ),
    *_terms(),
)

project_terms = sa.Table(
    "project_terms",
    metadata,
    sa.Column(
        "repository_id",
        sa.BigInteger,
        sa.ForeignKey("projects.repository_id", ondelete="CASCADE"),
        primary_key=True,
        autoincrement=False,
    ),
    *_terms(),
    # A budget is of time or of money.
    sa.Column("budget_ms", sa.BigInteger),
    sa.Column("budget_minor", sa.BigInteger),
    sa.Column("budget_mark", sa.BigInteger, nullable=False),
)

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
