"""Who did what happened, and an index to list it by project."""

import sqlalchemy as sa
from alembic import op

from workhook.storage.table_text import column, make_index

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("events", column("actor_id bigint?"))
    op.add_column("events", column("listed boolean", default=sa.true()))
    op.execute("UPDATE events SET listed = false WHERE name IN ('hook', 'ping')")
    make_index("ix_events_activity", "events", "repository_id, id", where="listed")
