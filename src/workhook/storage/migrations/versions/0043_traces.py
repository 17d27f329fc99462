"""The trace of what made an event, for its deliveries. What is there already belongs to none."""

import sqlalchemy as sa

from workhook.storage.online import add_column

revision = "0043"
down_revision = "0042"


def upgrade() -> None:
    add_column("events", sa.Column("traceparent", sa.Text))
