"""The tables of mail: messages to send, and what is known of people as recipients."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa

from workhook.identity.notifications.schemas import Kind, index_references, told_columns
from workhook.storage.metadata import BigId, Millis, metadata, partial_index

LinkKind = Literal["invitation_link", "sign_in_link", "password_link"]
"""Messages that hold a link which works once."""
MailKind = Kind | LinkKind | Literal["address_link"]

ATTEMPTS_MAX = 20
"""Then a message is given up that the mail server did not take; before that only one that it refused."""

# A message waits as long as it has a next attempt. Afterwards it was sent, or was given up and is kept for a while.
mail_messages = sa.Table(
    "mail_messages",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    # Null: whoever has the address of the invitation.
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE")),
    sa.Column("kind", sa.Text, nullable=False),  # of `MailKind`
    *told_columns(),
    sa.Column("created_at", Millis, nullable=False),
    # Whose messages are counted together: "u" and the user's id, or "i" and the invitation's.
    sa.Column("recipient", sa.Text, nullable=False),
    sa.Column("language", sa.Text),  # null: the recipient's own
    sa.Column("sealed", sa.LargeBinary),  # the path of a link, encrypted; removed once the message is sent or given up
    sa.Column("next_attempt_at", Millis),
    # Attempts that were begun. Who records an outcome has to have begun the last of them.
    sa.Column("attempts", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("sent_at", Millis),
    sa.Column("failed_at", Millis),  # given up
    sa.Column("failure", sa.Text),  # what the server said last
    sa.Index("ix_mail_messages_account_id", "account_id"),
    sqlite_autoincrement=True,
)
_c = mail_messages.c
partial_index("ix_mail_messages_user_id", _c.user_id, where=_c.user_id.is_not(None))
partial_index("ix_mail_messages_due", _c.next_attempt_at, _c.id, where=_c.next_attempt_at.is_not(None))
partial_index("ix_mail_messages_sent", _c.recipient, _c.sent_at, where=_c.sent_at.is_not(None))
partial_index("ix_mail_messages_sent_at", _c.sent_at, where=_c.sent_at.is_not(None))
partial_index("ix_mail_messages_failed_at", _c.failed_at, where=_c.failed_at.is_not(None))
partial_index("ix_mail_messages_invitation_id", _c.invitation_id, where=_c.invitation_id.is_not(None))
# A person's own links are a queue of their own, which comes first.
OWN_LINKS = ("sign_in_link", "password_link", "address_link")
is_own_link = _c.kind.in_([sa.literal_column(f"'{each}'") for each in OWN_LINKS])
partial_index(
    "ix_mail_messages_own_due", _c.next_attempt_at, _c.id, where=sa.and_(_c.next_attempt_at.is_not(None), is_own_link)
)
index_references(mail_messages)

# Only people of whom something is known have a row.
mail_recipients = sa.Table(
    "mail_recipients",
    metadata,
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("language", sa.Text),  # that the pages had for them last
    # The address that the person has given themself, once they have shown that it is theirs.
    sa.Column("confirmed", sa.Text),
    # The address that a server refused, when, and what it said. It counts as long as it is the person's address.
    sa.Column("bounced", sa.Text),
    sa.Column("bounced_at", Millis),
    sa.Column("bounce", sa.Text),
)
partial_index(
    "ix_mail_recipients_confirmed",
    sa.func.lower(mail_recipients.c.confirmed),
    where=mail_recipients.c.confirmed.is_not(None),
)
