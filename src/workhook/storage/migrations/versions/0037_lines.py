"""What has one line of time on an invoice: each entry, or a task, a person or a day."""

import sqlalchemy as sa

from workhook.storage.online import add_column

revision = "0037"
down_revision = "0036"


def upgrade() -> None:
    add_column("invoices", sa.Column("group_by", sa.Text))
