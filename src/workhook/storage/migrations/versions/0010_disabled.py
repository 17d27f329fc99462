"""Users can be disabled. PostgreSQL adds the column without rewriting the table, while others go on."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.add_column("accounts", sa.Column("disabled_at", sa.BigInteger(), nullable=True))
