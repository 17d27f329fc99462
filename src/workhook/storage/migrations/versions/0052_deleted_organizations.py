"""Indexes for deleting an organization: those to be emptied, and the events that belong to no project."""

from workhook.storage.online import create_index

revision = "0052"
down_revision = "0051"


def upgrade() -> None:
    create_index("ix_accounts_deleting", "accounts", ["id"], where="kind = 'deleting'")
    create_index("ix_events_account", "events", ["account_id", "id"], where="repository_id IS NULL")
