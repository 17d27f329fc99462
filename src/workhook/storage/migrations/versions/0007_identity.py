"""Tokens of every kind, apps, what OAuth and signing in keep, and a fuller audit log."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def _rate_windows() -> None:
    op.create_table(
        "rate_windows",
        sa.Column("caller", sa.Text(), nullable=False),
        sa.Column("resets_at", sa.BigInteger(), nullable=False),
        sa.Column("used", sa.Integer(), nullable=False),
        sa.Column("granted", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("caller", name=op.f("pk_rate_windows")),
    )


def _sign_in_failures() -> None:
    op.create_table(
        "sign_in_failures",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("blocked_until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_sign_in_failures")),
    )


def _apps() -> None:
    op.create_table(
        "apps",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("account_id", sa.BigInteger(), nullable=False),
        sa.Column("client_id", sa.Text(), nullable=False),
        sa.Column("slug", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("homepage_url", sa.Text(), nullable=True),
        sa.Column("callback_urls", sa.Text(), nullable=False),
        sa.Column("device_flow", sa.Boolean(), nullable=False),
        sa.Column("public", sa.Boolean(), nullable=False),
        sa.Column("permissions", sa.Text(), nullable=False),
        sa.Column("bot_id", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_apps_account_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["bot_id"], ["accounts.id"], name=op.f("fk_apps_bot_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_apps")),
        sa.UniqueConstraint("client_id", name=op.f("uq_apps_client_id")),
        sa.UniqueConstraint("slug", name=op.f("uq_apps_slug")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_apps_account_id", "apps", ["account_id"], unique=False)


def _identities() -> None:
    op.create_table(
        "identities",
        sa.Column("issuer", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["accounts.id"], name=op.f("fk_identities_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("issuer", "subject", name=op.f("pk_identities")),
    )
    op.create_index("ix_identities_user_id", "identities", ["user_id"], unique=False)


def _passwords() -> None:
    op.create_table(
        "passwords",
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["accounts.id"], name=op.f("fk_passwords_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("user_id", name=op.f("pk_passwords")),
    )


def _sessions() -> None:
    op.create_table(
        "sessions",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("address", sa.Text(), nullable=True),
        sa.Column("user_agent", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["user_id"], ["accounts.id"], name=op.f("fk_sessions_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
        sa.UniqueConstraint("digest", name=op.f("uq_sessions_digest")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_sessions_user_id", "sessions", ["user_id"], unique=False)


def _sign_in_links() -> None:
    op.create_table(
        "sign_in_links",
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("used_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["user_id"], ["accounts.id"], name=op.f("fk_sign_in_links_user_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_sign_in_links")),
    )
    op.create_index("ix_sign_in_links_user_id", "sign_in_links", ["user_id"], unique=False)


def _app_keys() -> None:
    op.create_table(
        "app_keys",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("app_id", sa.BigInteger(), nullable=False),
        sa.Column("public_key", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["app_id"], ["apps.id"], name=op.f("fk_app_keys_app_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_app_keys")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_app_keys_app_id", "app_keys", ["app_id"], unique=False)


def _app_secrets() -> None:
    op.create_table(
        "app_secrets",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("app_id", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("last_eight", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("last_used_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["app_id"], ["apps.id"], name=op.f("fk_app_secrets_app_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_app_secrets")),
        sa.UniqueConstraint("digest", name=op.f("uq_app_secrets_digest")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_app_secrets_app_id", "app_secrets", ["app_id"], unique=False)


def _authorization_codes() -> None:
    op.create_table(
        "authorization_codes",
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("app_id", sa.BigInteger(), nullable=False),
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        sa.Column("redirect_uri", sa.Text(), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("code_challenge", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("used_at", sa.BigInteger(), nullable=True),
        sa.Column("family", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["app_id"], ["apps.id"], name=op.f("fk_authorization_codes_app_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["user_id"], ["accounts.id"], name=op.f("fk_authorization_codes_user_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_authorization_codes")),
    )
    op.create_index("ix_authorization_codes_app_id", "authorization_codes", ["app_id", "user_id"], unique=False)
    op.create_index("ix_authorization_codes_expires_at", "authorization_codes", ["expires_at"], unique=False)


def _device_codes() -> None:
    op.create_table(
        "device_codes",
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("user_code", sa.Text(), nullable=False),
        sa.Column("app_id", sa.BigInteger(), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("interval_s", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("polled_at", sa.BigInteger(), nullable=True),
        sa.Column("user_id", sa.BigInteger(), nullable=True),
        sa.Column("decision", sa.Text(), nullable=True),
        sa.Column("used_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["app_id"], ["apps.id"], name=op.f("fk_device_codes_app_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["accounts.id"], name=op.f("fk_device_codes_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_device_codes")),
        sa.UniqueConstraint("user_code", name=op.f("uq_device_codes_user_code")),
    )
    op.create_index("ix_device_codes_expires_at", "device_codes", ["expires_at"], unique=False)


def _grants() -> None:
    op.create_table(
        "grants",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("app_id", sa.BigInteger(), nullable=False),
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["app_id"], ["apps.id"], name=op.f("fk_grants_app_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["accounts.id"], name=op.f("fk_grants_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_grants")),
        sa.UniqueConstraint("app_id", "user_id", name=op.f("uq_grants_app_id_user_id")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_grants_user_id", "grants", ["user_id"], unique=False)


def _installations() -> None:
    op.create_table(
        "installations",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("app_id", sa.BigInteger(), nullable=False),
        sa.Column("account_id", sa.BigInteger(), nullable=False),
        sa.Column("repository_selection", sa.Text(), nullable=False),
        sa.Column("permissions", sa.Text(), nullable=False),
        sa.Column("suspended_at", sa.BigInteger(), nullable=True),
        sa.Column("suspended_by", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_installations_account_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["app_id"], ["apps.id"], name=op.f("fk_installations_app_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_installations")),
        sa.UniqueConstraint("app_id", "account_id", name=op.f("uq_installations_app_id_account_id")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_installations_account_id", "installations", ["account_id"], unique=False)


def _refresh_tokens() -> None:
    op.create_table(
        "refresh_tokens",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("app_id", sa.BigInteger(), nullable=False),
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        sa.Column("family", sa.Text(), nullable=False),
        sa.Column("public", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("used_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["app_id"], ["apps.id"], name=op.f("fk_refresh_tokens_app_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["user_id"], ["accounts.id"], name=op.f("fk_refresh_tokens_user_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_refresh_tokens")),
        sa.UniqueConstraint("digest", name=op.f("uq_refresh_tokens_digest")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_refresh_tokens_app_id", "refresh_tokens", ["app_id", "user_id"], unique=False)
    op.create_index("ix_refresh_tokens_expires_at", "refresh_tokens", ["expires_at"], unique=False)
    op.create_index("ix_refresh_tokens_family", "refresh_tokens", ["family"], unique=False)


def _installation_repositories() -> None:
    op.create_table(
        "installation_repositories",
        sa.Column("installation_id", sa.BigInteger(), nullable=False),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["installation_id"],
            ["installations.id"],
            name=op.f("fk_installation_repositories_installation_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["projects.repository_id"],
            name=op.f("fk_installation_repositories_repository_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("installation_id", "repository_id", name=op.f("pk_installation_repositories")),
    )
    op.create_index(
        "ix_installation_repositories_repository_id", "installation_repositories", ["repository_id"], unique=False
    )


def _columns() -> None:
    op.add_column("audit_log", sa.Column("app_id", sa.BigInteger(), nullable=True))
    op.add_column("audit_log", sa.Column("status", sa.Integer(), nullable=True))
    op.add_column("audit_log", sa.Column("request_id", sa.Text(), nullable=True))
    op.add_column("audit_log", sa.Column("times", sa.Integer(), server_default="1", nullable=False))
    op.add_column("deliveries", sa.Column("installation_id", sa.BigInteger(), nullable=True))
    op.add_column("events", sa.Column("installation_id", sa.BigInteger(), nullable=True))
    op.add_column("hooks", sa.Column("app_id", sa.BigInteger(), nullable=True))
    op.add_column("hooks", sa.Column("installation_id", sa.BigInteger(), nullable=True))
    op.add_column("tokens", sa.Column("permissions", sa.Text(), nullable=True))
    op.add_column("tokens", sa.Column("account_id", sa.BigInteger(), nullable=True))
    op.add_column("tokens", sa.Column("repositories", sa.Text(), nullable=True))
    op.add_column("tokens", sa.Column("app_id", sa.BigInteger(), nullable=True))
    op.add_column("tokens", sa.Column("installation_id", sa.BigInteger(), nullable=True))
    op.add_column("tokens", sa.Column("parent_id", sa.BigInteger(), nullable=True))
    op.add_column("tokens", sa.Column("family", sa.Text(), nullable=True))
    op.create_index("ix_tokens_app_id", "tokens", ["app_id"], unique=False)
    op.create_index("ix_tokens_family", "tokens", ["family"], unique=False)
    op.create_index("ix_tokens_installation_id", "tokens", ["installation_id"], unique=False)
    op.create_index("ix_tokens_parent_id", "tokens", ["parent_id"], unique=False)


def upgrade() -> None:
    _rate_windows()
    _sign_in_failures()
    _apps()
    _identities()
    _passwords()
    _sessions()
    _sign_in_links()
    _app_keys()
    _app_secrets()
    _authorization_codes()
    _device_codes()
    _grants()
    _installations()
    _refresh_tokens()
    _installation_repositories()
    _columns()
