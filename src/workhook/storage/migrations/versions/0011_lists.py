"""Indexes for every filter of the histories, and many deliveries asked for again in batches.

PostgreSQL builds them while others go on. What is interrupted begins again: each step leaves alone what is there.
"""

import sqlalchemy as sa
from alembic import op

from workhook.storage.online import add_column, create_index, create_table, drop_index

revision = "0011"
down_revision = "0010"

_SUCCEEDED = sa.text("((status_code / 100) = 2)")


def upgrade() -> None:
    add_column("deliveries", sa.Column("recorded_at", sa.BigInteger(), nullable=True))
    create_table(
        "redeliveries",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("hook_id", sa.Integer(), nullable=False),
        sa.Column("filters", sa.Text(), nullable=False),
        sa.Column("from_id", sa.BigInteger(), nullable=False),
        sa.Column("after_id", sa.BigInteger(), nullable=False),
        sa.Column("upto_id", sa.BigInteger(), nullable=False),
        sa.Column("queued", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["hook_id"], ["hooks.id"], name=op.f("fk_redeliveries_hook_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_redeliveries")),
        sqlite_autoincrement=True,
    )
    create_index("ix_redeliveries_hook_id", "redeliveries", ["hook_id", "id"])
    create_index("ix_redeliveries_running", "redeliveries", ["hook_id"], unique=True, where="finished_at IS NULL")
    create_index("ix_deliveries_event", "deliveries", ["hook_id", "event", _SUCCEEDED, "redelivery", "id"])
    create_index(
        "ix_deliveries_action",
        "deliveries",
        ["hook_id", "action", "event", _SUCCEEDED, "redelivery", "id"],
        where="action IS NOT NULL",
    )
    create_index("ix_deliveries_recorded_at", "deliveries", ["hook_id", "id"], where="recorded_at IS NOT NULL")
    create_index("ix_events_name", "events", ["repository_id", "name", "listed", "id"])
    drop_index("ix_events_repository_id_name", "events")
    create_index("ix_events_actor", "events", ["repository_id", "actor_id", "name", "id"], where="listed")
    create_index("ix_projects_name", "projects", ["account_id", sa.text("lower(name)")])
    create_index("ix_audit_log_action", "audit_log", ["account_id", "action", "id"])
    create_index("ix_audit_log_actor", "audit_log", ["account_id", "actor_id", "action", "id"])
    create_index("ix_audit_log_repository", "audit_log", ["account_id", "repository_id", "action", "id"])
