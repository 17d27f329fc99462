"""The name of who wrote an imported comment elsewhere; null: somebody here did."""

import sqlalchemy as sa

from workhook.storage.online import add_column

revision = "0053"
down_revision = "0052"


def upgrade() -> None:
    add_column("task_comments", sa.Column("imported_author", sa.Text))
