"""Clients, services, checkouts, credits, invoices, and the keys of requests."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def _invoice_numbers() -> None:
    op.create_table(
        "invoice_numbers",
        sa.Column("account_id", sa.BigInteger(), nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_invoice_numbers_account_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("account_id", name=op.f("pk_invoice_numbers")),
    )


def _services() -> None:
    op.create_table(
        "services",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("account_id", sa.BigInteger(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("addon", sa.Boolean(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("disable_pause", sa.Boolean(), nullable=False),
        sa.Column("disable_quantity", sa.Boolean(), nullable=False),
        sa.Column("limit_pausing", sa.BigInteger(), nullable=True),
        sa.Column("minimum_months", sa.BigInteger(), nullable=True),
        sa.Column("cancel_at_period_end", sa.Boolean(), nullable=False),
        sa.Column("require_payment_method", sa.Boolean(), nullable=False),
        sa.Column("preview_image", sa.Text(), nullable=True),
        sa.Column("prices", sa.Text(), nullable=False),
        sa.Column("deleted_at", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_services_account_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_services")),
    )
    op.create_index("ix_services_account_id", "services", ["account_id", "id"], unique=False)


def _clients() -> None:
    op.create_table(
        "clients",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        sa.Column("email", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["repository_id"], ["projects.repository_id"], name=op.f("fk_clients_repository_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["user_id"], ["accounts.id"], name=op.f("fk_clients_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_clients")),
        sa.UniqueConstraint("repository_id", "user_id", name=op.f("uq_clients_repository_id_user_id")),
    )
    op.create_index("ix_clients_user_id", "clients", ["user_id"], unique=False)


def _idempotency_keys() -> None:
    op.create_table(
        "idempotency_keys",
        sa.Column("token_id", sa.BigInteger(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.LargeBinary(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["token_id"], ["tokens.id"], name=op.f("fk_idempotency_keys_token_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("token_id", "key", name=op.f("pk_idempotency_keys")),
    )
    op.create_index("ix_idempotency_keys_created_at", "idempotency_keys", ["created_at"], unique=False)


def _invoices() -> None:
    op.create_table(
        "invoices",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("account_id", sa.BigInteger(), nullable=False),
        sa.Column("user_id", sa.BigInteger(), nullable=True),
        sa.Column("service_checkout_id", sa.Text(), nullable=True),
        sa.Column("invoice_number", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("bill_from", sa.Text(), nullable=True),
        sa.Column("bill_to", sa.Text(), nullable=True),
        sa.Column("address", sa.Text(), nullable=True),
        sa.Column("tax_millionths", sa.BigInteger(), nullable=True),
        sa.Column("amount_minor", sa.BigInteger(), nullable=False),
        sa.Column("total_minor", sa.BigInteger(), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("issued", sa.BigInteger(), nullable=True),
        sa.Column("due", sa.BigInteger(), nullable=True),
        sa.Column("paid_at", sa.BigInteger(), nullable=True),
        sa.Column("payment_method", sa.Text(), nullable=True),
        sa.Column("payment_terms", sa.Text(), nullable=True),
        sa.Column("credit_type", sa.Text(), nullable=True),
        sa.Column("items", sa.Text(), nullable=False),
        sa.Column("recurring_items", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_invoices_account_id")),
        sa.ForeignKeyConstraint(
            ["repository_id"], ["projects.repository_id"], name=op.f("fk_invoices_repository_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["user_id"], ["accounts.id"], name=op.f("fk_invoices_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_invoices")),
        sa.UniqueConstraint("account_id", "invoice_number", name=op.f("uq_invoices_account_id_invoice_number")),
    )
    op.create_index("ix_invoices_repository_id", "invoices", ["repository_id", "id"], unique=False)


def _service_prices() -> None:
    op.create_table(
        "service_prices",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("service_id", sa.Text(), nullable=False),
        sa.Column("amount_minor", sa.BigInteger(), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("interval", sa.Text(), nullable=False),
        sa.Column("credits_minor", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["service_id"], ["services.id"], name=op.f("fk_service_prices_service_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_service_prices")),
    )
    op.create_index("ix_service_prices_service_id", "service_prices", ["service_id"], unique=False)


def _task_credits() -> None:
    op.create_table(
        "task_credits",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("amount_minor", sa.BigInteger(), nullable=False),
        sa.Column("balance_after_minor", sa.BigInteger(), nullable=False),
        sa.Column("remaining_minor", sa.BigInteger(), nullable=False),
        sa.Column("uses", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=True),
        sa.Column("task_title", sa.Text(), nullable=True),
        sa.Column("user_id", sa.BigInteger(), nullable=True),
        sa.Column("notes", sa.Text(), nullable=True),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("reverses_id", sa.Text(), nullable=True),
        sa.Column("reversed", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["projects.repository_id"],
            name=op.f("fk_task_credits_repository_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["user_id"], ["accounts.id"], name=op.f("fk_task_credits_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_task_credits")),
    )
    op.create_index(
        "ix_task_credits_expiring",
        "task_credits",
        ["expires_at"],
        unique=False,
        sqlite_where=sa.text("remaining_minor > 0"),
        postgresql_where=sa.text("remaining_minor > 0"),
    )
    op.create_index(
        "ix_task_credits_open",
        "task_credits",
        ["repository_id", "id", "expires_at", "remaining_minor", "amount_minor"],
        unique=False,
        sqlite_where=sa.text("remaining_minor > 0"),
        postgresql_where=sa.text("remaining_minor > 0"),
    )
    op.create_index("ix_task_credits_repository_id", "task_credits", ["repository_id", "id"], unique=False)


def _service_checkouts() -> None:
    op.create_table(
        "service_checkouts",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("service_id", sa.Text(), nullable=False),
        sa.Column("service_price_id", sa.Text(), nullable=True),
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        sa.Column("qty", sa.BigInteger(), nullable=False),
        sa.Column("completed_at", sa.BigInteger(), nullable=True),
        sa.Column("pauses", sa.BigInteger(), nullable=False),
        sa.Column("pause_date", sa.BigInteger(), nullable=True),
        sa.Column("cancel_date", sa.BigInteger(), nullable=True),
        sa.Column("period_end", sa.BigInteger(), nullable=True),
        sa.Column("periods", sa.BigInteger(), nullable=False),
        sa.Column("anchor", sa.BigInteger(), nullable=True),
        sa.Column("anchor_periods", sa.BigInteger(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.Column("unsubscribe_reason", sa.Text(), nullable=True),
        sa.Column("unsubscribed_feedback", sa.Text(), nullable=True),
        sa.Column("deleted_at", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["projects.repository_id"],
            name=op.f("fk_service_checkouts_repository_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["service_id"], ["services.id"], name=op.f("fk_service_checkouts_service_id")),
        sa.ForeignKeyConstraint(
            ["service_price_id"], ["service_prices.id"], name=op.f("fk_service_checkouts_service_price_id")
        ),
        sa.ForeignKeyConstraint(["user_id"], ["accounts.id"], name=op.f("fk_service_checkouts_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_service_checkouts")),
    )
    op.create_index("ix_service_checkouts_due_at", "service_checkouts", ["due_at", "id"], unique=False)
    op.create_index("ix_service_checkouts_repository_id", "service_checkouts", ["repository_id", "id"], unique=False)


def _service_checkout_periods() -> None:
    op.create_table(
        "service_checkout_periods",
        sa.Column("service_checkout_id", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("invoice_id", sa.Text(), nullable=True),
        sa.Column("credit_id", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["service_checkout_id"],
            ["service_checkouts.id"],
            name=op.f("fk_service_checkout_periods_service_checkout_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("service_checkout_id", "number", name=op.f("pk_service_checkout_periods")),
    )


def upgrade() -> None:
    _invoice_numbers()
    _services()
    _clients()
    _idempotency_keys()
    _invoices()
    _service_prices()
    _task_credits()
    _service_checkouts()
    _service_checkout_periods()
