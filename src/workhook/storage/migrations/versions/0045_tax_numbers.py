"""The tax number of who bills, for those without a VAT id. Nobody has said one yet."""

import sqlalchemy as sa

from workhook.storage.online import add_column

revision = "0045"
down_revision = "0044"


def upgrade() -> None:
    add_column("account_billing", sa.Column("tax_number", sa.Text))
