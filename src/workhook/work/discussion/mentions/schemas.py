"""The table of mentions."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.storage.metadata import BigId, Millis, in_project, metadata

PLACES = {
    "task_comment_id": "task_comments.id",
    "file_comment_id": "file_comments.id",
    "file_comment_reply_id": "file_comment_replies.id",
}
"""The columns of which each row has one: the comment or reply that names somebody. It says of which task or file it is,
and takes the row with it."""


def _place(name: str) -> sa.Column[int | None]:
    return sa.Column(name, sa.BigInteger, sa.ForeignKey(PLACES[name], ondelete="CASCADE"))


# Ids grow: the newest mention has the highest. `user_id` is whom the text names, `author_id` who wrote that.
mentions = sa.Table(
    "mentions",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    in_project(),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False),
    sa.Column("author_id", sa.BigInteger, sa.ForeignKey("accounts.id"), nullable=False),
    *map(_place, PLACES),
    sa.Column("created_at", Millis, nullable=False),
    *(sa.UniqueConstraint(name, "user_id") for name in PLACES),
    sa.Index("ix_mentions_user_id", "user_id", "id"),
    sa.Index("ix_mentions_repository_id", "repository_id"),
    sqlite_autoincrement=True,
)
