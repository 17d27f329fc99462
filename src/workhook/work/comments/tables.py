"""Comments on tasks and on files, and the replies to those on files."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.storage.metadata import OPEN, in_project, metadata
from workhook.storage.record_rows import table_columns
from workhook.work.comments.schemas import FileComment, Reply, TaskComment

task_comments = sa.Table(
    "task_comments",
    metadata,
    in_project(),
    sa.Column("task_id", sa.Text, sa.ForeignKey("tasks.id", ondelete="CASCADE"), nullable=False),
    *table_columns(TaskComment),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id"), nullable=False),
    sa.Index("ix_task_comments_task_id", "task_id", "id"),
    sa.Index("ix_task_comments_open", "task_id", "id", **OPEN),  # what clients see
    sa.Index("ix_task_comments_repository_id", "repository_id"),
    sqlite_autoincrement=True,
)

file_comments = sa.Table(
    "file_comments",
    metadata,
    in_project(),
    sa.Column("file_id", sa.Text, sa.ForeignKey("files.id", ondelete="CASCADE"), nullable=False),
    *table_columns(FileComment),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id"), nullable=False),
    sa.Index("ix_file_comments_file_id", "file_id", "id"),
    sa.Index("ix_file_comments_open", "file_id", "id", **OPEN),  # likewise
    sa.Index("ix_file_comments_repository_id", "repository_id"),
    sqlite_autoincrement=True,
)

file_comment_replies = sa.Table(
    "file_comment_replies",
    metadata,
    in_project(),
    *table_columns(Reply, file_comment_id=sa.ForeignKey("file_comments.id", ondelete="CASCADE")),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id"), nullable=False),
    sa.Column("plain_body", sa.Text, nullable=False),  # without markup: what is searched
    sa.Index("ix_file_comment_replies_file_comment_id", "file_comment_id", "id"),
    sa.Index("ix_file_comment_replies_repository_id", "repository_id"),
    sqlite_autoincrement=True,
)
