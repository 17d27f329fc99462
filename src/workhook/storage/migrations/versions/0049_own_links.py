"""A person's own links are a queue of their own, and a confirmed address signs in."""

import sqlalchemy as sa

from workhook.storage.online import create_index

revision = "0049"
down_revision = "0048"


def upgrade() -> None:
    create_index(
        "ix_mail_messages_own_due",
        "mail_messages",
        ["next_attempt_at", "id"],
        where="next_attempt_at IS NOT NULL AND kind IN ('sign_in_link', 'password_link', 'address_link')",
    )
    create_index(
        "ix_mail_recipients_confirmed", "mail_recipients", [sa.text("lower(confirmed)")], where="confirmed IS NOT NULL"
    )
