"""What a task says of its time: the rate of an hour, whether it is billable, and an estimate."""

import sqlalchemy as sa

from workhook.storage.online import add_column

revision = "0034"
down_revision = "0033"

_TERMS = (("hourly_rate_minor", sa.BigInteger), ("billable", sa.Boolean), ("estimate_ms", sa.BigInteger))


def upgrade() -> None:
    for name, kind in _TERMS:
        add_column("tasks", sa.Column(name, kind))
