"""Accounts own repositories. A repository is a project: Area B knows it by owner and name, Area A by its text id."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.storage.metadata import BigId, Millis, metadata

accounts = sa.Table(
    "accounts",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),  # user | organization
    sa.Column("login", sa.Text, nullable=False),
    sa.Column(
        "login_key", sa.Text, nullable=False, unique=True
    ),  # in lower case: logins are unique without regard to case
    sa.Column("name", sa.Text),
    sa.Column("email", sa.Text),
    sa.Column("avatar", sa.Text),
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("updated_at", Millis, nullable=False),
    sqlite_autoincrement=True,
)

memberships = sa.Table(
    "memberships",
    metadata,
    sa.Column("organization_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("role", sa.Text, nullable=False),  # owner | member
    sa.Column("created_at", Millis, nullable=False),
    sa.Index("ix_memberships_user_id", "user_id"),
)

projects = sa.Table(
    "projects",
    metadata,
    sa.Column("repository_id", BigId, primary_key=True),
    sa.Column("id", sa.Text, nullable=False, unique=True),
    sa.Column("account_id", sa.BigInteger, sa.ForeignKey("accounts.id"), nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("name_key", sa.Text, nullable=False),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("avatar", sa.Text),
    sa.Column("private", sa.Boolean, nullable=False),
    sa.Column("archive", sa.Boolean, nullable=False),
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("updated_at", Millis, nullable=False),
    # Set: the project is gone for everybody. The row stays for its hooks' last deliveries; `name_key` frees the name.
    sa.Column("deleted_at", Millis),
    sa.UniqueConstraint("account_id", "name_key"),
    sqlite_autoincrement=True,
)

collaborators = sa.Table(
    "collaborators",
    metadata,
    sa.Column(
        "repository_id", sa.BigInteger, sa.ForeignKey("projects.repository_id", ondelete="CASCADE"), primary_key=True
    ),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("role", sa.Text, nullable=False),  # read | write | admin
    sa.Column("created_at", Millis, nullable=False),
    sa.Index("ix_collaborators_user_id", "user_id"),
)

tokens = sa.Table(
    "tokens",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),  # classic; the other kinds follow
    sa.Column("digest", sa.LargeBinary, nullable=False, unique=True),  # SHA-256 of the token, which is stored nowhere
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False),
    sa.Column("scopes", sa.Text, nullable=False),  # separated by spaces
    sa.Column("note", sa.Text),
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("expires_at", Millis),
    sa.Column("last_used_at", Millis),
    sa.Column("revoked_at", Millis),
    sa.Index("ix_tokens_user_id", "user_id"),
    sqlite_autoincrement=True,
)

audit_log = sa.Table(
    "audit_log",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("at", Millis, nullable=False),
    sa.Column("account_id", sa.BigInteger, nullable=False),  # the organization or user that was acted on
    sa.Column("repository_id", sa.BigInteger),
    sa.Column("actor_id", sa.BigInteger),  # null: Workhook itself, or the command line
    sa.Column("token_id", sa.BigInteger),
    sa.Column("action", sa.Text, nullable=False),  # hook.create, project.delete …
    sa.Column("target", sa.Text, nullable=False),
    sa.Column("address", sa.Text),
    sa.Column("detail", sa.Text, nullable=False),  # JSON, without secrets
    sa.Index("ix_audit_log_account_id", "account_id", "id"),
    sqlite_autoincrement=True,
)
