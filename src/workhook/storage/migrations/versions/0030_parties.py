"""Billing settings of accounts and projects, the parties and the language of an invoice, and numbers by year."""

import sqlalchemy as sa

from workhook.storage.online import add_column, create_index, create_table
from workhook.storage.table_text import make_table

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    for name in ("buyer", "seller", "language"):
        add_column("invoices", sa.Column(name, sa.Text))
    make_table(
        "account_billing",
        "account_id bigint, legal_name text?, address text?, vat_id text?, email text?, iban text?, bic text?,"
        " currency text?, tax_millionths bigint?, tax_category text?, payment_days bigint?, payment_terms text?,"
        " number_format text?, language text?, logo_id text?",
        key="account_id",
        foreign=["account_id > accounts.id CASCADE"],
        create=create_table,
    )
    make_table(
        "project_billing",
        "repository_id bigint, currency text?, tax_millionths bigint?, tax_category text?, payment_days bigint?,"
        " language text?, buyer_name text?, buyer_address text?, buyer_vat_id text?, buyer_email text?",
        key="repository_id",
        foreign=["repository_id > projects.repository_id CASCADE"],
        create=create_table,
    )
    make_table(
        "invoice_year_numbers",
        "account_id bigint, year bigint, last bigint",
        key="account_id, year",
        foreign=["account_id > accounts.id CASCADE"],
        create=create_table,
    )
    make_table(
        "billing_logos",
        "account_id bigint, id text, content_type text, size bigint, sha256 text, blob text,"
        " is_issued boolean, created_at bigint",
        foreign=["account_id > accounts.id CASCADE"],
        create=create_table,
    )
    create_index("ix_billing_logos_account_id", "billing_logos", ["account_id"])
    create_index("ix_billing_logos_blob", "billing_logos", ["blob"])
