"""Which events others published, so that no page tells them as something that Workhook saw itself.

What was published before cannot be told from the rest any more: it goes with its time, as all events do.
"""

import sqlalchemy as sa

from workhook.storage.online import add_column

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    add_column("events", sa.Column("published", sa.Boolean, nullable=False, server_default=sa.false()))
