"""Clients, services, checkouts, credits, invoices, and the keys of requests."""

from workhook.storage.table_text import make_index, make_table

revision = "0002"
down_revision = "0001"


def _services() -> None:
    make_table(
        "invoice_numbers",
        "account_id bigint, last bigint",
        key="account_id",
        foreign=["account_id > accounts.id CASCADE"],
    )
    make_table(
        "services",
        "id text, account_id bigint, title text, description text?, active boolean, addon boolean, position bigint, "
        "disable_pause boolean, disable_quantity boolean, limit_pausing bigint?, minimum_months bigint?, "
        "cancel_at_period_end boolean, require_payment_method boolean, preview_image text?, prices text, "
        "deleted_at bigint?, created_at bigint, updated_at bigint",
        foreign=["account_id > accounts.id CASCADE"],
    )
    make_index("ix_services_account_id", "services", "account_id, id")
    make_table(
        "clients",
        "id text, repository_id bigint, user_id bigint, email text, created_at bigint, updated_at bigint",
        foreign=["repository_id > projects.repository_id CASCADE", "user_id > accounts.id"],
        unique=["repository_id, user_id"],
    )
    make_index("ix_clients_user_id", "clients", "user_id")
    make_table(
        "idempotency_keys",
        "token_id bigint, key text, fingerprint bytea, body bytea, created_at bigint",
        key="token_id, key",
        foreign=["token_id > tokens.id CASCADE"],
    )
    make_index("ix_idempotency_keys_created_at", "idempotency_keys", "created_at")


def _invoices_and_credits() -> None:
    make_table(
        "invoices",
        "id text, repository_id bigint, account_id bigint, user_id bigint?, service_checkout_id text?, "
        "invoice_number text?, status text, bill_from text?, bill_to text?, address text?, tax_millionths bigint?, "
        "amount_minor bigint, total_minor bigint, currency text, issued bigint?, due bigint?, paid_at bigint?, "
        "payment_method text?, payment_terms text?, credit_type text?, items text, recurring_items text, "
        "created_at bigint, updated_at bigint",
        foreign=["account_id > accounts.id", "repository_id > projects.repository_id CASCADE", "user_id > accounts.id"],
        unique=["account_id, invoice_number"],
    )
    make_index("ix_invoices_repository_id", "invoices", "repository_id, id")
    make_table(
        "service_prices",
        "id text, service_id text, amount_minor bigint, currency text, interval text, credits_minor bigint?",
        foreign=["service_id > services.id CASCADE"],
    )
    make_index("ix_service_prices_service_id", "service_prices", "service_id")
    make_table(
        "task_credits",
        "id text, repository_id bigint, kind text, amount_minor bigint, balance_after_minor bigint, "
        "remaining_minor bigint, uses text, task_id text?, task_title text?, user_id bigint?, notes text?, "
        "expires_at bigint?, reverses_id text?, reversed boolean, created_at bigint, updated_at bigint",
        foreign=["repository_id > projects.repository_id CASCADE", "user_id > accounts.id"],
    )
    make_index("ix_task_credits_expiring", "task_credits", "expires_at", where="remaining_minor > 0")
    make_index(
        "ix_task_credits_open",
        "task_credits",
        "repository_id, id, expires_at, remaining_minor, amount_minor",
        where="remaining_minor > 0",
    )
    make_index("ix_task_credits_repository_id", "task_credits", "repository_id, id")


def _checkouts() -> None:
    make_table(
        "service_checkouts",
        "id text, repository_id bigint, service_id text, service_price_id text?, user_id bigint, qty bigint, "
        "completed_at bigint?, pauses bigint, pause_date bigint?, cancel_date bigint?, period_end bigint?, "
        "periods bigint, anchor bigint?, anchor_periods bigint, due_at bigint?, unsubscribe_reason text?, "
        "unsubscribed_feedback text?, deleted_at bigint?, created_at bigint, updated_at bigint",
        foreign=[
            "repository_id > projects.repository_id CASCADE",
            "service_id > services.id",
            "service_price_id > service_prices.id",
            "user_id > accounts.id",
        ],
    )
    make_index("ix_service_checkouts_due_at", "service_checkouts", "due_at, id")
    make_index("ix_service_checkouts_repository_id", "service_checkouts", "repository_id, id")
    make_table(
        "service_checkout_periods",
        "service_checkout_id text, number bigint, started_at bigint, invoice_id text?, credit_id text?",
        key="service_checkout_id, number",
        foreign=["service_checkout_id > service_checkouts.id CASCADE"],
    )


def upgrade() -> None:
    _services()
    _invoices_and_credits()
    _checkouts()
