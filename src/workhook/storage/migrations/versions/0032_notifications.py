"""Notifications, and what people want to be told of. Nobody is told of what was before.

A task notes which deadline people were told of. Those of the next day are told of when the migration is done.
"""

import sqlalchemy as sa

from workhook.storage.online import add_column, create_index, create_table
from workhook.storage.table_text import make_table

revision = "0032"
down_revision = "0031"

_UNTOLD = "completed_at IS NULL AND deleted_at IS NULL AND coalesce(deadline_told, -1) <> deadline"


def upgrade() -> None:
    make_table(
        "notifications",
        "id bigserial, user_id bigint, kind text, actor_id bigint?, account_id bigint, repository_id bigint?,"
        " task_id text?, task_comment_id bigint?, file_comment_id bigint?, file_comment_reply_id bigint?,"
        " invoice_id text?, hook_id integer?, payment_id text?, invitation_id bigint?, detail text?,"
        " created_at bigint, read_at bigint?",
        foreign=[
            "user_id > accounts.id CASCADE",
            "actor_id > accounts.id",
            "account_id > accounts.id CASCADE",
            "repository_id > projects.repository_id CASCADE",
            "task_id > tasks.id CASCADE",
            "task_comment_id > task_comments.id CASCADE",
            "file_comment_id > file_comments.id CASCADE",
            "file_comment_reply_id > file_comment_replies.id CASCADE",
            "invoice_id > invoices.id CASCADE",
            "hook_id > hooks.id CASCADE",
            "invitation_id > invitations.id CASCADE",
        ],
        create=create_table,
    )
    create_index("ix_notifications_user_id", "notifications", ["user_id", "id"])
    create_index("ix_notifications_account_id", "notifications", ["account_id"])
    create_index("ix_notifications_created_at", "notifications", ["created_at"])
    create_index("ix_notifications_unread", "notifications", ["user_id", "id"], where="read_at IS NULL")
    create_index("ix_notifications_read", "notifications", ["user_id", "id"], where="read_at IS NOT NULL")
    for name in (
        "repository_id", "task_id", "task_comment_id", "file_comment_id", "file_comment_reply_id", "invoice_id",
        "hook_id",
    ):  # fmt: skip
        create_index(f"ix_notifications_{name}", "notifications", [name], where=f"{name} IS NOT NULL")
    create_index(
        "ix_notifications_invitation_id",
        "notifications",
        ["invitation_id", "user_id"],
        unique=True,
        where="invitation_id IS NOT NULL",
    )
    make_table(
        "notification_settings",
        "user_id bigint, kind text, inbox boolean",
        key="user_id, kind",
        foreign=["user_id > accounts.id CASCADE"],
        create=create_table,
    )
    add_column("tasks", sa.Column("deadline_told", sa.BigInteger))
    create_index("ix_tasks_deadline_untold", "tasks", ["deadline"], where=_UNTOLD)
