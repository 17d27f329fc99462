"""Assignees of an import without an account here. They get their tasks when they join."""

from workhook.storage.online import create_index, create_table
from workhook.storage.table_text import make_table

revision = "0055"
down_revision = "0054"


def upgrade() -> None:
    make_table(
        "unmatched_assignees",
        "task_id text, repository_id bigint, source text, username text, full_name text",
        key="task_id, username, full_name",
        foreign=["task_id > tasks.id CASCADE", "repository_id > projects.repository_id CASCADE"],
        create=create_table,
    )
    create_index(
        "ix_unmatched_assignees_person", "unmatched_assignees", ["repository_id", "source", "username", "full_name"]
    )
