"""The first schema: events, identity, hooks and their deliveries."""

from workhook.storage.table_text import make_index, make_table

revision = "0001"
down_revision = None


def _accounts() -> None:
    make_table(
        "accounts",
        "id bigserial, kind text, login text, login_key text, name text?, email text?, avatar text?, "
        "created_at bigint, updated_at bigint",
        unique=["login_key"],
    )
    make_table(
        "audit_log",
        "id bigserial, at bigint, account_id bigint, repository_id bigint?, actor_id bigint?, token_id bigint?, "
        "action text, target text, address text?, detail text",
    )
    make_index("ix_audit_log_account_id", "audit_log", "account_id, id")


def _events_and_deliveries() -> None:
    make_table(
        "deliveries",
        "id bigserial, dispatch_id bigint, hook_id integer, event_id bigint, repository_id bigint?, guid text, "
        "event text, action text?, delivered_at bigint, throttled_at bigint?, duration_ms integer, redelivery boolean, "
        "status text, status_code integer, url text, request_headers bytea, response_headers bytea, "
        "response_body bytea",
    )
    make_index("ix_deliveries_delivered_at", "deliveries", "delivered_at")
    make_index("ix_deliveries_guid", "deliveries", "guid")
    make_index("ix_deliveries_hook_id", "deliveries", "hook_id, id")
    make_table(
        "dispatches",
        "id bigserial, event_id bigint, hook_id integer, guid text, attempts integer, retries integer, wanted integer, "
        "next_attempt_at bigint?, created_at bigint",
        unique=["event_id, hook_id", "guid"],
    )
    make_index("ix_dispatches_due", "dispatches", "hook_id, next_attempt_at, id", where="next_attempt_at IS NOT NULL")
    make_table("event_keys", "scope text, key text, digest bytea, event_id bigint, created_at bigint", key="scope, key")
    make_index("ix_event_keys_created_at", "event_keys", "created_at")
    make_table(
        "events",
        "id bigserial, account_id bigint, repository_id bigint?, name text, action text?, payload bytea, size bigint, "
        "created_at bigint",
    )
    make_index("ix_events_created_at", "events", "created_at")
    make_index("ix_events_repository_id_name", "events", "repository_id, name, id")


def _processes() -> None:
    make_table("key_check", "id integer, sealed bytea")
    make_table("probe", "id integer, written_at bigint")
    make_table("workers", "owner text, seen_until bigint", key="owner")


def _projects() -> None:
    make_table(
        "memberships",
        "organization_id bigint, user_id bigint, role text, created_at bigint",
        key="organization_id, user_id",
        foreign=["organization_id > accounts.id CASCADE", "user_id > accounts.id CASCADE"],
    )
    make_index("ix_memberships_user_id", "memberships", "user_id")
    make_table(
        "projects",
        "repository_id bigserial, id text, account_id bigint, name text, name_key text, title text, avatar text?, "
        "private boolean, archive boolean, created_at bigint, updated_at bigint, deleted_at bigint?",
        key="repository_id",
        foreign=["account_id > accounts.id"],
        unique=["account_id, name_key", "id"],
    )
    make_table(
        "tokens",
        "id bigserial, kind text, digest bytea, user_id bigint, scopes text, note text?, created_at bigint, "
        "expires_at bigint?, last_used_at bigint?, revoked_at bigint?",
        foreign=["user_id > accounts.id CASCADE"],
        unique=["digest"],
    )
    make_index("ix_tokens_user_id", "tokens", "user_id")
    make_table(
        "collaborators",
        "repository_id bigint, user_id bigint, role text, created_at bigint",
        key="repository_id, user_id",
        foreign=["repository_id > projects.repository_id CASCADE", "user_id > accounts.id CASCADE"],
    )
    make_index("ix_collaborators_user_id", "collaborators", "user_id")


def _hooks() -> None:
    make_table(
        "hooks",
        "id serial, account_id bigint, repository_id bigint?, active boolean, events text, config text, secret bytea?, "
        "previous_secret bytea?, previous_secret_until bigint?, password bytea?, version bigint, created_at bigint, "
        "updated_at bigint",
        foreign=["account_id > accounts.id", "repository_id > projects.repository_id"],
    )
    make_index("ix_hooks_account_id", "hooks", "account_id")
    make_index("ix_hooks_repository_id", "hooks", "repository_id")
    make_table(
        "lanes",
        "hook_id integer, owner text?, lease_until bigint, failing_since bigint?, manual_minute bigint, "
        "manual_count integer",
        key="hook_id",
        foreign=["hook_id > hooks.id CASCADE"],
    )


def upgrade() -> None:
    _accounts()
    _events_and_deliveries()
    _processes()
    _projects()
    _hooks()
