"""The countries of who bills and who pays: an e-invoice names them. Nobody has said one yet."""

import sqlalchemy as sa

from workhook.storage.online import add_column

revision = "0042"
down_revision = "0041"


def upgrade() -> None:
    add_column("account_billing", sa.Column("country", sa.Text))
    add_column("project_billing", sa.Column("buyer_country", sa.Text))
