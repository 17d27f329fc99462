"""Time that was spent is of whole seconds: what is shown, summed up and billed follows from the same number."""

import sqlalchemy as sa
from alembic import op

revision = "0046"
down_revision = "0045"


def upgrade() -> None:
    # The triggers of the sums see each change. A running timer is counted in whole seconds when it stops.
    op.execute(
        sa.text(
            "UPDATE timesheets SET duration_ms = duration_ms - duration_ms % 1000"
            " WHERE NOT is_active AND duration_ms % 1000 <> 0"
        )
    )
