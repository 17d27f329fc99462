"""Users can be disabled. PostgreSQL adds the column without rewriting the table, while others go on."""

import sqlalchemy as sa

from workhook.storage.online import add_column

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    add_column("accounts", sa.Column("disabled_at", sa.BigInteger(), nullable=True))
