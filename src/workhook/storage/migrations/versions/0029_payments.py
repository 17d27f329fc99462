"""Payments and credit notes. An invoice that was marked as paid gets the one payment that this was."""

# ruff: noqa: S608  # the statements are made of names that stand here

import sqlalchemy as sa
from alembic import op

from workhook.storage.online import add_column, beside_others, create_index, create_table
from workhook.storage.table_text import make_table

revision = "0029"
down_revision = "0028"

ROWS_AT_ONCE = 5_000
_OPEN = "status IN ('sent', 'partially_paid')"

# The payment has the id of its invoice behind another prefix, so that nothing is added twice.
_MARKED = "FROM invoices WHERE status = 'paid' AND paid_minor IS NULL"
_ID, _PAID_AT = "'pay_' || substr(id, 5)", "coalesce(paid_at, updated_at)"
_ADD = sa.text(
    "INSERT INTO payments (id, repository_id, invoice_id, kind, amount_minor, currency, paid_at, created_at, position)"
    f" SELECT {_ID}, repository_id, id, 'payment', total_minor, currency, {_PAID_AT}, {_PAID_AT}, 1 {_MARKED}"
    " AND total_minor > 0 AND id > :after AND id <= :last ON CONFLICT (id) DO NOTHING"
)
_SUM_UP = sa.text(
    "UPDATE invoices SET paid_minor = total_minor, payments = CASE WHEN total_minor = 0 THEN '[]' ELSE"
    f" '[[\"' || {_ID} || '\",' || total_minor || ',' || {_PAID_AT} || ']]' END"
    " WHERE status = 'paid' AND paid_minor IS NULL AND id > :after AND id <= :last"
    " AND (total_minor = 0 OR EXISTS (SELECT 1 FROM payments WHERE payments.invoice_id = invoices.id))"
)
_NEXT = sa.text(f"SELECT max(id) FROM (SELECT id {_MARKED} AND id > :after ORDER BY id LIMIT {ROWS_AT_ONCE}) AS batch")


def upgrade() -> None:
    for name in ("paid_minor", "credited_minor", "discount_millionths", "discount_minor"):
        add_column("invoices", sa.Column(name, sa.BigInteger))
    for name in ("payments", "credit_notes", "taxes", "tax_category"):
        add_column("invoices", sa.Column(name, sa.Text))
    create_index("ix_invoices_open", "invoices", ["repository_id", "id", "due"], where=_OPEN)
    _make_tables()
    with beside_others():
        _book_what_was_marked()


def _make_tables() -> None:
    make_table(
        "payments",
        "repository_id bigint, invoice_id text, user_id bigint?, id text, kind text, amount_minor bigint,"
        " currency text, paid_at bigint, method text?, reference text?, refund_of text?, created_at bigint,"
        " position bigint",
        key="id",
        foreign=[
            "repository_id > projects.repository_id CASCADE",
            "invoice_id > invoices.id CASCADE",
            "user_id > accounts.id",
        ],
        unique=["invoice_id, position"],
        create=create_table,
    )
    create_index("ix_payments_repository_id", "payments", ["repository_id"])
    create_index("ix_payments_refund_of", "payments", ["refund_of", "amount_minor"], where="refund_of IS NOT NULL")
    make_table(
        "credit_notes",
        "repository_id bigint, account_id bigint, invoice_id text, user_id bigint?, id text, credit_note_number text,"
        " amount_minor bigint, taxes text, total_minor bigint, currency text, reason text, issued bigint,"
        " items text, position bigint",
        key="id",
        foreign=[
            "repository_id > projects.repository_id CASCADE",
            "account_id > accounts.id",
            "invoice_id > invoices.id CASCADE",
            "user_id > accounts.id",
        ],
        unique=["account_id, credit_note_number", "invoice_id, position"],
        create=create_table,
    )
    create_index("ix_credit_notes_repository_id", "credit_notes", ["repository_id"])
    make_table(
        "credit_note_numbers",
        "account_id bigint, last bigint",
        key="account_id",
        foreign=["account_id > accounts.id CASCADE"],
        create=create_table,
    )


def _book_what_was_marked() -> None:
    """A process of an earlier version may mark more meanwhile and afterwards: those are booked when they are changed
    (`work.payments.booking`)."""
    after = ""
    while last := op.get_bind().execute(_NEXT, {"after": after}).scalar():
        for statement in (_ADD, _SUM_UP):
            op.get_bind().execute(statement, {"after": after, "last": last})
        after = last
