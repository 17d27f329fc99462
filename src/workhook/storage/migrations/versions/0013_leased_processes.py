"""A process is leased, not a lane: epochs, acknowledged generations, and the generation of those who deliver.

PostgreSQL adds the columns without rewriting the table, while others go on. A worker of an earlier version goes on
with its columns, and those of this version wait until it has gone.
"""

import sqlalchemy as sa
from alembic import op

from workhook.storage.online import add_column, create_table

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    add_column("workers", sa.Column("epoch", sa.BigInteger(), nullable=False, server_default=sa.text("0")))
    add_column("workers", sa.Column("acknowledged", sa.BigInteger(), nullable=False, server_default=sa.text("0")))
    add_column("workers", sa.Column("finishing", sa.Text(), nullable=False, server_default=sa.text("'[]'")))
    create_table(
        "worker_generation",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_worker_generation")),
    )
