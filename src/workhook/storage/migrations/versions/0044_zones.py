"""The time zone of an account's days. Nobody has said one yet, so that they stay those of UTC."""

import sqlalchemy as sa

from workhook.storage.online import add_column

revision = "0044"
down_revision = "0043"


def upgrade() -> None:
    add_column("account_billing", sa.Column("timezone", sa.Text))
