"""The tables of notifications and of what people want to be told of."""

from __future__ import annotations

from typing import Literal, get_args

import sqlalchemy as sa

from workhook.storage.metadata import BigId, Millis, metadata, partial_index

Kind = Literal["mention", "assignment", "deadline", "invoice", "payment", "invitation", "hook_disabled"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_ABOUT = {
    "task_id": ("tasks.id", sa.Text),
    "task_comment_id": ("task_comments.id", sa.BigInteger),
    "file_comment_id": ("file_comments.id", sa.BigInteger),
    "file_comment_reply_id": ("file_comment_replies.id", sa.BigInteger),
    "invoice_id": ("invoices.id", sa.Text),
    "hook_id": ("hooks.id", sa.Integer),
}


def _about(name: str) -> sa.Column[object]:
    target, kind = _ABOUT[name]
    return sa.Column(name, kind, sa.ForeignKey(target, ondelete="CASCADE"))


def told_columns() -> list[sa.Column[object]]:
    """What happened, where, and who did it: references, no copies. A row goes with what it is about."""
    return [
        sa.Column("actor_id", sa.BigInteger, sa.ForeignKey("accounts.id")),  # null: Workhook itself
        # The organization or person that the project belongs to, or that it is about itself.
        sa.Column("account_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False),
        sa.Column("repository_id", sa.BigInteger, sa.ForeignKey("projects.repository_id", ondelete="CASCADE")),
        *map(_about, _ABOUT),
        sa.Column("payment_id", sa.Text),  # goes with its invoice
        sa.Column("invitation_id", sa.BigInteger, sa.ForeignKey("invitations.id", ondelete="CASCADE")),
        # Of an invoice: what was done with it; of a deadline: when it is, in milliseconds; of a webhook: why it is off.
        sa.Column("detail", sa.Text),
    ]


def index_references(table: sa.Table) -> None:
    """By which the rows go with what they are about."""
    for name in ("repository_id", *_ABOUT):
        partial_index(f"ix_{table.name}_{name}", table.c[name], where=table.c[name].is_not(None))


# Ids grow: the newest notification of a person has the highest.
notifications = sa.Table(
    "notifications",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False),
    sa.Column("kind", sa.Text, nullable=False),  # of `KINDS`
    *told_columns(),
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("read_at", Millis),
    sa.Index("ix_notifications_user_id", "user_id", "id"),
    sa.Index("ix_notifications_account_id", "account_id"),
    sa.Index("ix_notifications_created_at", "created_at"),
    sqlite_autoincrement=True,
)
_c = notifications.c
partial_index("ix_notifications_unread", _c.user_id, _c.id, where=_c.read_at.is_(None))
partial_index("ix_notifications_read", _c.user_id, _c.id, where=_c.read_at.is_not(None))
index_references(notifications)
# An invitation that is renewed is told of once.
partial_index(
    "ix_notifications_invitation_id", _c.invitation_id, _c.user_id, where=_c.invitation_id.is_not(None), unique=True
)

# Only what somebody has chosen has a row: without one, they want to be told.
notification_settings = sa.Table(
    "notification_settings",
    metadata,
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("inbox", sa.Boolean, nullable=False),
    sa.Column("email", sa.Boolean),  # null: chosen before there was mail, and so as in the inbox
)
