"""A process is leased, not a lane: epochs, acknowledged generations, and the generation of those who deliver.

PostgreSQL adds the columns without rewriting the table, while others go on. A worker of an earlier version goes on
with its columns, and those of this version wait until it has gone.
"""

import sqlalchemy as sa

from workhook.storage.online import add_column, create_table
from workhook.storage.table_text import column, make_table

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    add_column("workers", column("epoch bigint=0"))
    add_column("workers", column("acknowledged bigint=0"))
    add_column("workers", column("finishing text", default=sa.text("'[]'")))
    make_table("worker_generation", "id integer, generation bigint", create=create_table)
