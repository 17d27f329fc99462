"""Invitations to organizations and repositories."""

from workhook.storage.online import create_index, create_table
from workhook.storage.table_text import make_table

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    make_table(
        "invitations",
        "id bigserial, account_id bigint, repository_id bigint?, user_id bigint?, email text?, role text, "
        "inviter_id bigint, created_at bigint, expires_at bigint, place text, invitee text",
        foreign=[
            "account_id > accounts.id CASCADE",
            "repository_id > projects.repository_id CASCADE",
            "user_id > accounts.id CASCADE",
            "inviter_id > accounts.id CASCADE",
        ],
        unique=["place, invitee"],
        create=create_table,
    )
    create_index("ix_invitations_invitee", "invitations", ["invitee"])
    create_index("ix_invitations_expires_at", "invitations", ["expires_at"])
