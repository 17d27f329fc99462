"""Tokens of every kind, apps, what OAuth and signing in keep, and a fuller audit log."""

from alembic import op

from workhook.storage.table_text import column, make_index, make_table

revision = "0007"
down_revision = "0006"


def _apps() -> None:
    make_table("rate_windows", "caller text, resets_at bigint, used integer, granted integer", key="caller")
    make_table("sign_in_failures", "key text, failures integer, since bigint, blocked_until bigint", key="key")
    make_table(
        "apps",
        "id bigserial, kind text, account_id bigint, client_id text, slug text, name text, description text?, "
        "homepage_url text?, callback_urls text, device_flow boolean, public boolean, permissions text, "
        "bot_id bigint?, created_at bigint, updated_at bigint",
        foreign=["account_id > accounts.id CASCADE", "bot_id > accounts.id"],
        unique=["client_id", "slug"],
    )
    make_index("ix_apps_account_id", "apps", "account_id")


def _people() -> None:
    make_table(
        "identities",
        "issuer text, subject text, user_id bigint, created_at bigint",
        key="issuer, subject",
        foreign=["user_id > accounts.id CASCADE"],
    )
    make_index("ix_identities_user_id", "identities", "user_id")
    make_table(
        "passwords",
        "user_id bigint, hash text, changed_at bigint",
        key="user_id",
        foreign=["user_id > accounts.id CASCADE"],
    )
    make_table(
        "sessions",
        "id bigserial, digest bytea, user_id bigint, created_at bigint, seen_at bigint, expires_at bigint, "
        "address text?, user_agent text?",
        foreign=["user_id > accounts.id CASCADE"],
        unique=["digest"],
    )
    make_index("ix_sessions_user_id", "sessions", "user_id")
    make_table(
        "sign_in_links",
        "digest bytea, user_id bigint, purpose text, created_at bigint, expires_at bigint, used_at bigint?",
        key="digest",
        foreign=["user_id > accounts.id CASCADE"],
    )
    make_index("ix_sign_in_links_user_id", "sign_in_links", "user_id")


def _oauth() -> None:
    make_table(
        "app_keys",
        "id bigserial, app_id bigint, public_key text, fingerprint text, created_at bigint",
        foreign=["app_id > apps.id CASCADE"],
    )
    make_index("ix_app_keys_app_id", "app_keys", "app_id")
    make_table(
        "app_secrets",
        "id bigserial, app_id bigint, digest bytea, last_eight text, created_at bigint, last_used_at bigint?",
        foreign=["app_id > apps.id CASCADE"],
        unique=["digest"],
    )
    make_index("ix_app_secrets_app_id", "app_secrets", "app_id")
    make_table(
        "authorization_codes",
        "digest bytea, app_id bigint, user_id bigint, redirect_uri text, scopes text, code_challenge text?, "
        "created_at bigint, expires_at bigint, used_at bigint?, family text",
        key="digest",
        foreign=["app_id > apps.id CASCADE", "user_id > accounts.id CASCADE"],
    )
    make_index("ix_authorization_codes_app_id", "authorization_codes", "app_id, user_id")
    make_index("ix_authorization_codes_expires_at", "authorization_codes", "expires_at")
    make_table(
        "device_codes",
        "digest bytea, user_code text, app_id bigint, scopes text, interval_s integer, created_at bigint, "
        "expires_at bigint, polled_at bigint?, user_id bigint?, decision text?, used_at bigint?",
        key="digest",
        foreign=["app_id > apps.id CASCADE", "user_id > accounts.id CASCADE"],
        unique=["user_code"],
    )
    make_index("ix_device_codes_expires_at", "device_codes", "expires_at")


def _installations() -> None:
    make_table(
        "grants",
        "id bigserial, app_id bigint, user_id bigint, scopes text, created_at bigint, updated_at bigint",
        foreign=["app_id > apps.id CASCADE", "user_id > accounts.id CASCADE"],
        unique=["app_id, user_id"],
    )
    make_index("ix_grants_user_id", "grants", "user_id")
    make_table(
        "installations",
        "id bigserial, app_id bigint, account_id bigint, repository_selection text, permissions text, "
        "suspended_at bigint?, suspended_by text?, created_at bigint, updated_at bigint",
        foreign=["account_id > accounts.id CASCADE", "app_id > apps.id CASCADE"],
        unique=["app_id, account_id"],
    )
    make_index("ix_installations_account_id", "installations", "account_id")
    make_table(
        "refresh_tokens",
        "id bigserial, digest bytea, app_id bigint, user_id bigint, family text, public boolean, created_at bigint, "
        "expires_at bigint, used_at bigint?",
        foreign=["app_id > apps.id CASCADE", "user_id > accounts.id CASCADE"],
        unique=["digest"],
    )
    make_index("ix_refresh_tokens_app_id", "refresh_tokens", "app_id, user_id")
    make_index("ix_refresh_tokens_expires_at", "refresh_tokens", "expires_at")
    make_index("ix_refresh_tokens_family", "refresh_tokens", "family")
    make_table(
        "installation_repositories",
        "installation_id bigint, repository_id bigint",
        key="installation_id, repository_id",
        foreign=["installation_id > installations.id CASCADE", "repository_id > projects.repository_id CASCADE"],
    )
    make_index("ix_installation_repositories_repository_id", "installation_repositories", "repository_id")


def _columns() -> None:
    for each in ("app_id bigint?", "status integer?", "request_id text?"):
        op.add_column("audit_log", column(each))
    op.add_column("audit_log", column("times integer", default="1"))
    op.add_column("deliveries", column("installation_id bigint?"))
    op.add_column("events", column("installation_id bigint?"))
    op.add_column("hooks", column("app_id bigint?"))
    op.add_column("hooks", column("installation_id bigint?"))
    of_tokens = "permissions text?, account_id bigint?, repositories text?, app_id bigint?, installation_id bigint?"
    for each in (*of_tokens.split(", "), "parent_id bigint?", "family text?"):
        op.add_column("tokens", column(each))
    make_index("ix_tokens_app_id", "tokens", "app_id")
    make_index("ix_tokens_family", "tokens", "family")
    make_index("ix_tokens_installation_id", "tokens", "installation_id")
    make_index("ix_tokens_parent_id", "tokens", "parent_id")


def upgrade() -> None:
    _apps()
    _people()
    _oauth()
    _installations()
    _columns()
