"""Invitations to organizations and repositories."""

import sqlalchemy as sa
from alembic import op

from workhook.storage.online import create_index, create_table

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    create_table(
        "invitations",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("account_id", sa.BigInteger(), nullable=False),
        sa.Column("repository_id", sa.BigInteger(), nullable=True),
        sa.Column("user_id", sa.BigInteger(), nullable=True),
        sa.Column("email", sa.Text(), nullable=True),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("inviter_id", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("place", sa.Text(), nullable=False),
        sa.Column("invitee", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_invitations_account_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["repository_id"], ["projects.repository_id"], name=op.f("fk_invitations_repository_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["user_id"], ["accounts.id"], name=op.f("fk_invitations_user_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["inviter_id"], ["accounts.id"], name=op.f("fk_invitations_inviter_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_invitations")),
        sa.UniqueConstraint("place", "invitee", name=op.f("uq_invitations_place_invitee")),
        sqlite_autoincrement=True,
    )
    create_index("ix_invitations_invitee", "invitations", ["invitee"])
    create_index("ix_invitations_expires_at", "invitations", ["expires_at"])
