"""What lives between a user's consent and a token: grants, codes, device codes, refresh tokens."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.storage.metadata import BigId, Millis, metadata

# What a user has let an app do. Revoking it revokes every token that came of it.
grants = sa.Table(
    "grants",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("app_id", sa.BigInteger, sa.ForeignKey("apps.id", ondelete="CASCADE"), nullable=False),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False),
    sa.Column("scopes", sa.Text, nullable=False),  # separated by spaces
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("updated_at", Millis, nullable=False),
    sa.UniqueConstraint("app_id", "user_id"),
    sa.Index("ix_grants_user_id", "user_id"),
    sqlite_autoincrement=True,
)

authorization_codes = sa.Table(
    "authorization_codes",
    metadata,
    sa.Column("digest", sa.LargeBinary, primary_key=True),
    sa.Column("app_id", sa.BigInteger, sa.ForeignKey("apps.id", ondelete="CASCADE"), nullable=False),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False),
    sa.Column("redirect_uri", sa.Text, nullable=False),  # where the code was sent, also where it was not asked for
    sa.Column("scopes", sa.Text, nullable=False),
    sa.Column("code_challenge", sa.Text),  # the method is S256, the only one that is taken
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("expires_at", Millis, nullable=False),
    sa.Column("used_at", Millis),
    sa.Column("family", sa.Text, nullable=False),  # of the tokens that come of it: a replay revokes them
    sa.Index("ix_authorization_codes_app_id", "app_id", "user_id"),
    sa.Index("ix_authorization_codes_expires_at", "expires_at"),
)

device_codes = sa.Table(
    "device_codes",
    metadata,
    sa.Column("digest", sa.LargeBinary, primary_key=True),
    sa.Column("user_code", sa.Text, nullable=False, unique=True),  # eight letters, without the hyphen
    sa.Column("app_id", sa.BigInteger, sa.ForeignKey("apps.id", ondelete="CASCADE"), nullable=False),
    sa.Column("scopes", sa.Text, nullable=False),
    sa.Column("interval_s", sa.Integer, nullable=False),
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("expires_at", Millis, nullable=False),
    sa.Column("polled_at", Millis),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE")),  # who decided
    sa.Column("decision", sa.Text),  # approved | denied
    sa.Column("used_at", Millis),
    sa.Index("ix_device_codes_app_id", "app_id", "expires_at"),
    sa.Index("ix_device_codes_expires_at", "expires_at"),
)

refresh_tokens = sa.Table(
    "refresh_tokens",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("digest", sa.LargeBinary, nullable=False, unique=True),
    sa.Column("app_id", sa.BigInteger, sa.ForeignKey("apps.id", ondelete="CASCADE"), nullable=False),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False),
    sa.Column("family", sa.Text, nullable=False),
    # It came of a flow without a secret (RFC 8252, RFC 8628), so that it is taken without one.
    sa.Column("public", sa.Boolean, nullable=False),
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("expires_at", Millis, nullable=False),
    sa.Column("used_at", Millis),  # used twice: somebody has stolen it, and the family is revoked
    sa.Index("ix_refresh_tokens_app_id", "app_id", "user_id"),
    sa.Index("ix_refresh_tokens_family", "family"),
    sa.Index("ix_refresh_tokens_expires_at", "expires_at"),
    sqlite_autoincrement=True,
)
