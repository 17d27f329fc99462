"""Receivers inside the server, for trying webhooks, and what arrived at them."""

from workhook.storage.online import create_index, create_table
from workhook.storage.table_text import make_table

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    make_table(
        "receivers",
        "hook_id integer, digest bytea, created_at bigint",
        key="hook_id",
        foreign=["hook_id > hooks.id CASCADE"],
        unique=["digest"],
        create=create_table,
    )
    make_table(
        "arrivals",
        "id bigserial, hook_id integer, arrived_at bigint, signature text, headers bytea, body bytea, size integer",
        foreign=["hook_id > hooks.id CASCADE"],
        create=create_table,
    )
    create_index("ix_arrivals_hook_id", "arrivals", ["hook_id", "id"])
    create_index("ix_arrivals_arrived_at", "arrivals", ["arrived_at"])
