"""What signing in leaves in the database. Secrets are there as digests only."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.storage.metadata import BigId, Millis, metadata

passwords = sa.Table(
    "passwords",
    metadata,
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("hash", sa.Text, nullable=False),  # argon2id, with its parameters
    sa.Column("changed_at", Millis, nullable=False),
)

sessions = sa.Table(
    "sessions",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("digest", sa.LargeBinary, nullable=False, unique=True),  # SHA-256 of the cookie's value
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False),
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("seen_at", Millis, nullable=False),  # right to some minutes
    sa.Column("expires_at", Millis, nullable=False),
    sa.Column("address", sa.Text),
    sa.Column("user_agent", sa.Text),
    sa.Index("ix_sessions_user_id", "user_id"),
    sa.Index("ix_sessions_expires_at", "expires_at"),
    sqlite_autoincrement=True,
)

sign_in_links = sa.Table(
    "sign_in_links",
    metadata,
    sa.Column("digest", sa.LargeBinary, primary_key=True),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False),
    sa.Column("purpose", sa.Text, nullable=False),  # sign_in | set_password
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("expires_at", Millis, nullable=False),
    sa.Column("used_at", Millis),
    sa.Index("ix_sign_in_links_user_id", "user_id"),
    sa.Index("ix_sign_in_links_expires_at", "expires_at"),
)

# Failures to sign in, counted in every process together.
sign_in_failures = sa.Table(
    "sign_in_failures",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),  # login:…, pair:…, address:…, user:…, place:… or device:…
    sa.Column("failures", sa.Integer, nullable=False),
    sa.Column("since", Millis, nullable=False),
    sa.Column("blocked_until", Millis, nullable=False),
    sa.Index("ix_sign_in_failures_since", "since"),
)

# Whom an OpenID provider knows under which subject.
identities = sa.Table(
    "identities",
    metadata,
    sa.Column("issuer", sa.Text, primary_key=True),
    sa.Column("subject", sa.Text, primary_key=True),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False),
    sa.Column("created_at", Millis, nullable=False),
    sa.Index("ix_identities_user_id", "user_id"),
)
