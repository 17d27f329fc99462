"""Who did what happened, and an index to list it by project."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("events", sa.Column("actor_id", sa.BigInteger(), nullable=True))
    op.add_column("events", sa.Column("listed", sa.Boolean(), server_default=sa.true(), nullable=False))
    op.execute("UPDATE events SET listed = false WHERE name IN ('hook', 'ping')")
    op.create_index(
        "ix_events_activity",
        "events",
        ["repository_id", "id"],
        unique=False,
        sqlite_where=sa.text("listed"),
        postgresql_where=sa.text("listed"),
    )
