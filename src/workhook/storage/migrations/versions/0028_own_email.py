"""The e-mail address that somebody gives themself, to sign in with."""

import sqlalchemy as sa

from workhook.storage.online import add_column

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    add_column("passwords", sa.Column("email", sa.Text))
