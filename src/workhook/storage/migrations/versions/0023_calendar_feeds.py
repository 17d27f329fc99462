"""Calendars that other programs subscribe to, each by an address of its own."""

from workhook.storage.online import create_index, create_table
from workhook.storage.table_text import make_table

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    make_table(
        "calendar_feeds",
        "id bigserial, user_id bigint, repository_id bigint?, digest bytea, created_at bigint",
        foreign=["user_id > accounts.id CASCADE", "repository_id > projects.repository_id CASCADE"],
        unique=["digest"],
        create=create_table,
    )
    create_index("ix_calendar_feeds_user_id", "calendar_feeds", ["user_id", "repository_id"])
    create_index("ix_calendar_feeds_repository_id", "calendar_feeds", ["repository_id"])
