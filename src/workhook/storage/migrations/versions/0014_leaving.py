"""A process that stops says so, and others have its lanes while it ends what is in flight."""

import sqlalchemy as sa

from workhook.storage.online import add_column

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    add_column("workers", sa.Column("leaving", sa.Boolean(), nullable=False, server_default=sa.false()))
