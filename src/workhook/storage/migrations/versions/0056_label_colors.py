"""The colours of a project's labels, as JSON by their names; null: none has a colour of its own."""

import sqlalchemy as sa

from workhook.storage.online import add_column

revision = "0056"
down_revision = "0055"


def upgrade() -> None:
    add_column("projects", sa.Column("label_colors", sa.Text))
