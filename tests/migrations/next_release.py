"""The migration of a future release, with every step that `storage.online` provides.

The tests of upgrades add it after the newest migration.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from workhook.storage.online import (
    add_column,
    add_reference,
    create_index,
    create_table,
    create_trigger,
    drop_index,
    set_storage,
)

revision = "9999"
down_revision = "0058"

LARGE = ("audit_log", "deliveries", "events", "dispatches")
CHANGED = {"accounts", "deliveries", "files", "tasks", "workers"}
"""Tables that others write to and that the migration must lock nevertheless."""


def upgrade() -> None:
    add_column("accounts", sa.Column("motto", sa.Text))
    add_column("workers", sa.Column("rank", sa.BigInteger, nullable=False, server_default=sa.text("0")))
    add_reference("files", "column_id", "columns", on_delete="SET NULL")
    create_index("ix_files_column_id", "files", ["column_id"], where="column_id IS NOT NULL")
    create_table(
        "stars",
        sa.Column("task_id", sa.Text, nullable=False),
        sa.Column("user_id", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"], name="fk_stars_task_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["accounts.id"], name="fk_stars_user_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("task_id", "user_id", name="pk_stars"),
    )
    create_index("uq_stars_user_id", "stars", ["user_id", "task_id"], unique=True)
    add_column("deliveries", sa.Column("note", sa.Text))
    for table in LARGE:
        create_index(f"ix_{table}_next", table, ["id", sa.text("(id % 7)")])
    drop_index("ix_deliveries_guid", "deliveries")
    set_storage("hooks", fillfactor=90)
    if op.get_bind().dialect.name == "postgresql":
        create_trigger(
            "CREATE OR REPLACE FUNCTION keep_motto() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN new; END $$",
            "CREATE OR REPLACE TRIGGER keep_motto BEFORE UPDATE ON accounts FOR EACH ROW EXECUTE FUNCTION keep_motto()",
        )
