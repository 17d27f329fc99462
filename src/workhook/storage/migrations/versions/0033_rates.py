"""Rates of hours: what an organization, a project and a person there take, and whose rate a timesheet has.

A timesheet of before has a rate of its own or none, and keeps it: its `rate_source` stays null.
"""

import sqlalchemy as sa

from workhook.storage.online import add_column, create_index, create_table
from workhook.storage.table_text import make_table

revision = "0033"
down_revision = "0032"

_TERMS = (
    ("hourly_rate_minor", sa.BigInteger),
    ("billable", sa.Boolean),
    ("round_minutes", sa.BigInteger),
    ("round_mode", sa.Text),
)
_BUDGET = ("budget_ms", "budget_minor", "budget_mark")


def upgrade() -> None:
    add_column("timesheets", sa.Column("rate_source", sa.Text))
    create_index(
        "ix_timesheets_paused", "timesheets", ["repository_id"], where="NOT finished AND NOT is_active AND billable"
    )
    for table in ("account_billing", "project_billing"):
        for name, kind in _TERMS:
            add_column(table, sa.Column(name, kind))
    for name in _BUDGET:
        add_column("project_billing", sa.Column(name, sa.BigInteger))
    make_table(
        "project_rates",
        "repository_id bigint, user_id bigint, hourly_rate_minor bigint",
        key="repository_id, user_id",
        foreign=["repository_id > projects.repository_id CASCADE", "user_id > accounts.id CASCADE"],
        create=create_table,
    )
    create_index("ix_project_rates_user", "project_rates", ["user_id"])
    make_table(
        "member_rates",
        "account_id bigint, user_id bigint, hourly_rate_minor bigint",
        key="account_id, user_id",
        foreign=["account_id > accounts.id CASCADE", "user_id > accounts.id CASCADE"],
        create=create_table,
    )
    create_index("ix_member_rates_user", "member_rates", ["user_id"])
