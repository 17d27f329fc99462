"""Indexes for every filter of the histories, and many deliveries asked for again in batches.

PostgreSQL builds them while others go on. What is interrupted begins again: each step leaves alone what is there.
"""

import sqlalchemy as sa

from workhook.storage.online import add_column, create_index, create_table, drop_index
from workhook.storage.table_text import column, make_table

revision = "0011"
down_revision = "0010"

_SUCCEEDED = sa.text("((status_code / 100) = 2)")


def upgrade() -> None:
    add_column("deliveries", column("recorded_at bigint?"))
    make_table(
        "redeliveries",
        "id bigserial, hook_id integer, filters text, from_id bigint, after_id bigint, upto_id bigint, queued bigint, "
        "created_at bigint, updated_at bigint, finished_at bigint?",
        foreign=["hook_id > hooks.id CASCADE"],
        create=create_table,
    )
    create_index("ix_redeliveries_hook_id", "redeliveries", ["hook_id", "id"])
    create_index("ix_redeliveries_running", "redeliveries", ["hook_id"], unique=True, where="finished_at IS NULL")
    create_index("ix_deliveries_event", "deliveries", ["hook_id", "event", _SUCCEEDED, "redelivery", "id"])
    create_index(
        "ix_deliveries_action",
        "deliveries",
        ["hook_id", "action", "event", _SUCCEEDED, "redelivery", "id"],
        where="action IS NOT NULL",
    )
    create_index("ix_deliveries_recorded_at", "deliveries", ["hook_id", "id"], where="recorded_at IS NOT NULL")
    create_index("ix_events_name", "events", ["repository_id", "name", "listed", "id"])
    drop_index("ix_events_repository_id_name", "events")
    create_index("ix_events_actor", "events", ["repository_id", "actor_id", "name", "id"], where="listed")
    create_index("ix_projects_name", "projects", ["account_id", sa.text("lower(name)")])
    create_index("ix_audit_log_action", "audit_log", ["account_id", "action", "id"])
    create_index("ix_audit_log_actor", "audit_log", ["account_id", "actor_id", "action", "id"])
    create_index("ix_audit_log_repository", "audit_log", ["account_id", "repository_id", "action", "id"])
