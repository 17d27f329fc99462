"""Forms that made something, so that one that is sent twice makes it once."""

from workhook.storage.online import create_index, create_table
from workhook.storage.table_text import make_table

revision = "0051"
down_revision = "0050"


def upgrade() -> None:
    make_table(
        "sent_forms",
        "digest bytea, session_id bigint, answer bytea?, created_at bigint",
        key="digest",
        foreign=["session_id > sessions.id CASCADE"],
        create=create_table,
    )
    for column in ("session_id", "created_at"):
        create_index(f"ix_sent_forms_{column}", "sent_forms", [column])
