"""Mail: messages to send, and what is known of people as recipients. Nobody is written to about what was before.

Who had declined a kind has declined its mail as well: `notification_settings.email` stays null, which means so.
"""

import sqlalchemy as sa

from workhook.storage.online import add_column, create_index, create_table
from workhook.storage.table_text import make_table

revision = "0036"
down_revision = "0035"

_REFERENCES = (
    "repository_id", "task_id", "task_comment_id", "file_comment_id", "file_comment_reply_id", "invoice_id", "hook_id",
    "invitation_id", "user_id",
)  # fmt: skip


def upgrade() -> None:
    make_table(
        "mail_messages",
        "id bigserial, user_id bigint?, kind text, actor_id bigint?, account_id bigint, repository_id bigint?,"
        " task_id text?, task_comment_id bigint?, file_comment_id bigint?, file_comment_reply_id bigint?,"
        " invoice_id text?, hook_id integer?, payment_id text?, invitation_id bigint?, detail text?,"
        " created_at bigint, recipient text, language text?, sealed bytea?, next_attempt_at bigint?,"
        " attempts bigint=0, sent_at bigint?, failed_at bigint?, failure text?",
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
    create_index("ix_mail_messages_account_id", "mail_messages", ["account_id"])
    for name in _REFERENCES:
        create_index(f"ix_mail_messages_{name}", "mail_messages", [name], where=f"{name} IS NOT NULL")
    create_index(
        "ix_mail_messages_due", "mail_messages", ["next_attempt_at", "id"], where="next_attempt_at IS NOT NULL"
    )
    create_index("ix_mail_messages_sent", "mail_messages", ["recipient", "sent_at"], where="sent_at IS NOT NULL")
    create_index("ix_mail_messages_sent_at", "mail_messages", ["sent_at"], where="sent_at IS NOT NULL")
    create_index("ix_mail_messages_failed_at", "mail_messages", ["failed_at"], where="failed_at IS NOT NULL")
    make_table(
        "mail_recipients",
        "user_id bigint, language text?, confirmed text?, bounced text?, bounced_at bigint?, bounce text?",
        key="user_id",
        foreign=["user_id > accounts.id CASCADE"],
        create=create_table,
    )
    add_column("notification_settings", sa.Column("email", sa.Boolean))
