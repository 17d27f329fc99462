"""A process that stops says so, and others have its lanes while it ends what is in flight."""

import sqlalchemy as sa

from workhook.storage.online import add_column
from workhook.storage.table_text import column

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    add_column("workers", column("leaving boolean", default=sa.false()))
