"""An app is an OAuth app (scopes) or an app (permissions, installations). Both belong to an organization."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.storage.metadata import BigId, Millis, metadata

apps = sa.Table(
    "apps",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),  # oauth | app
    sa.Column("account_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False),
    sa.Column("client_id", sa.Text, nullable=False, unique=True),
    sa.Column("slug", sa.Text, nullable=False, unique=True),  # of the name; apps are addressed by it
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("description", sa.Text),
    sa.Column("homepage_url", sa.Text),
    sa.Column("callback_urls", sa.Text, nullable=False),  # JSON array; compared exactly
    sa.Column("device_flow", sa.Boolean, nullable=False),
    sa.Column("public", sa.Boolean, nullable=False),  # apps: whether other organizations may install it
    sa.Column("permissions", sa.Text, nullable=False),  # apps: JSON object, what an installation may ask for at most
    sa.Column("bot_id", sa.BigInteger, sa.ForeignKey("accounts.id")),  # apps: the account that installations act as
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("updated_at", Millis, nullable=False),
    sa.Index("ix_apps_account_id", "account_id"),
    sqlite_autoincrement=True,
)

app_secrets = sa.Table(
    "app_secrets",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("app_id", sa.BigInteger, sa.ForeignKey("apps.id", ondelete="CASCADE"), nullable=False),
    sa.Column("digest", sa.LargeBinary, nullable=False, unique=True),  # SHA-256 of the secret, which is stored nowhere
    sa.Column("last_eight", sa.Text, nullable=False),  # so that its owners know which one it is
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("last_used_at", Millis),
    sa.Index("ix_app_secrets_app_id", "app_id"),
    sqlite_autoincrement=True,
)

app_keys = sa.Table(
    "app_keys",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("app_id", sa.BigInteger, sa.ForeignKey("apps.id", ondelete="CASCADE"), nullable=False),
    sa.Column("public_key", sa.Text, nullable=False),  # PEM; the private key is shown once and stored nowhere
    sa.Column("fingerprint", sa.Text, nullable=False),  # SHA256:… of the public key
    sa.Column("created_at", Millis, nullable=False),
    sa.Index("ix_app_keys_app_id", "app_id"),
    sqlite_autoincrement=True,
)

installations = sa.Table(
    "installations",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("app_id", sa.BigInteger, sa.ForeignKey("apps.id", ondelete="CASCADE"), nullable=False),
    sa.Column("account_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False),
    sa.Column("repository_selection", sa.Text, nullable=False),  # all | selected
    sa.Column("permissions", sa.Text, nullable=False),  # JSON object; what the organization has granted
    sa.Column("suspended_at", Millis),
    sa.Column("suspended_by", sa.Text),  # app | organization: an app does not undo what an owner has done
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("updated_at", Millis, nullable=False),
    sa.UniqueConstraint("app_id", "account_id"),
    sa.Index("ix_installations_account_id", "account_id"),
    sqlite_autoincrement=True,
)

installation_repositories = sa.Table(
    "installation_repositories",
    metadata,
    sa.Column(
        "installation_id", sa.BigInteger, sa.ForeignKey("installations.id", ondelete="CASCADE"), primary_key=True
    ),
    sa.Column(
        "repository_id", sa.BigInteger, sa.ForeignKey("projects.repository_id", ondelete="CASCADE"), primary_key=True
    ),
    sa.Index("ix_installation_repositories_repository_id", "repository_id"),
)
