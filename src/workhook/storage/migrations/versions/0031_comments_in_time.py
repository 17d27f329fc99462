"""Indexes for the comments and replies of a project in the order in which they were made: lists across projects."""

from workhook.storage.online import create_index

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    for table in ("task_comments", "file_comments", "file_comment_replies"):
        create_index(f"ix_{table}_created_at", table, ["repository_id", "created_at", "id"])
