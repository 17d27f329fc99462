"""Whom comments name. What was written before names nobody: it has been read already."""

from workhook.storage.online import create_index, create_table
from workhook.storage.table_text import make_table

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    make_table(
        "mentions",
        "id bigserial, repository_id bigint, user_id bigint, author_id bigint, task_comment_id bigint?,"
        " file_comment_id bigint?, file_comment_reply_id bigint?, created_at bigint",
        foreign=[
            "repository_id > projects.repository_id CASCADE",
            "user_id > accounts.id CASCADE",
            "author_id > accounts.id",
            "task_comment_id > task_comments.id CASCADE",
            "file_comment_id > file_comments.id CASCADE",
            "file_comment_reply_id > file_comment_replies.id CASCADE",
        ],
        unique=["task_comment_id, user_id", "file_comment_id, user_id", "file_comment_reply_id, user_id"],
        create=create_table,
    )
    create_index("ix_mentions_user_id", "mentions", ["user_id", "id"])
    create_index("ix_mentions_repository_id", "mentions", ["repository_id"])
