"""Comments on tasks and on files, and the replies to those on files."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.storage.metadata import OPEN, BigId, Millis, metadata

task_comments = sa.Table(
    "task_comments",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column(
        "repository_id", sa.BigInteger, sa.ForeignKey("projects.repository_id", ondelete="CASCADE"), nullable=False
    ),
    sa.Column("task_id", sa.Text, sa.ForeignKey("tasks.id", ondelete="CASCADE"), nullable=False),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id"), nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("private", sa.Boolean, nullable=False),
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("updated_at", Millis, nullable=False),
    sa.Index("ix_task_comments_task_id", "task_id", "id"),
    sa.Index("ix_task_comments_open", "task_id", "id", **OPEN),  # what clients see
    sa.Index("ix_task_comments_repository_id", "repository_id"),
    sqlite_autoincrement=True,
)

file_comments = sa.Table(
    "file_comments",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column(
        "repository_id", sa.BigInteger, sa.ForeignKey("projects.repository_id", ondelete="CASCADE"), nullable=False
    ),
    sa.Column("file_id", sa.Text, sa.ForeignKey("files.id", ondelete="CASCADE"), nullable=False),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id"), nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("private", sa.Boolean, nullable=False),
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("updated_at", Millis, nullable=False),
    sa.Index("ix_file_comments_file_id", "file_id", "id"),
    sa.Index("ix_file_comments_open", "file_id", "id", **OPEN),  # likewise
    sa.Index("ix_file_comments_repository_id", "repository_id"),
    sqlite_autoincrement=True,
)

file_comment_replies = sa.Table(
    "file_comment_replies",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column(
        "repository_id", sa.BigInteger, sa.ForeignKey("projects.repository_id", ondelete="CASCADE"), nullable=False
    ),
    sa.Column("file_comment_id", sa.BigInteger, sa.ForeignKey("file_comments.id", ondelete="CASCADE"), nullable=False),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id"), nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("plain_body", sa.Text, nullable=False),  # without markup: what is searched
    sa.Column("private", sa.Boolean, nullable=False),
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("updated_at", Millis, nullable=False),
    sa.Index("ix_file_comment_replies_file_comment_id", "file_comment_id", "id"),
    sa.Index("ix_file_comment_replies_repository_id", "repository_id"),
    sqlite_autoincrement=True,
)
