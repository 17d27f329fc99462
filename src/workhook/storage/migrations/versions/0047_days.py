"""What days need: when an issued invoice is overdue, and the day of the month that a task which repeats keeps.

A day that an invoice is due on ends in the zone of its seller, which SQL cannot compute.

Invoices that were issued before this migration keep the end of that day in UTC until they change.
"""

import sqlalchemy as sa
from alembic import op

from workhook.storage.online import add_column, beside_others, create_index

revision = "0047"
down_revision = "0046"

_OPEN = "status IN ('sent', 'partially_paid')"


def upgrade() -> None:
    add_column("invoices", sa.Column("overdue_at", sa.BigInteger))
    with beside_others():
        op.execute(
            "UPDATE invoices SET overdue_at = due + CASE WHEN due % 86400000 = 0 THEN 86400000 ELSE 0 END "
            "WHERE due IS NOT NULL AND status <> 'draft' AND overdue_at IS NULL"
        )
    add_column("tasks", sa.Column("repeat_since", sa.BigInteger))
    create_index("ix_invoices_unsettled", "invoices", ["repository_id", "id", "overdue_at"], where=_OPEN)
    with beside_others():
        op.execute("DROP INDEX IF EXISTS ix_invoices_open")
