"""The first and the last day of the service of an invoice, as somebody said them; null: the days of its lines count."""

import sqlalchemy as sa

from workhook.storage.online import add_column

revision = "0048"
down_revision = "0047"


def upgrade() -> None:
    add_column("invoices", sa.Column("service_from", sa.Text))
    add_column("invoices", sa.Column("service_to", sa.Text))
