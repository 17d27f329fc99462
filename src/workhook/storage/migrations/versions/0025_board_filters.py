"""The filters of a board that a person has used last."""

from workhook.storage.online import create_index, create_table
from workhook.storage.table_text import make_table

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    make_table(
        "board_filters",
        "user_id bigint, repository_id bigint, filters text, updated_at bigint",
        key="user_id, repository_id",
        foreign=["user_id > accounts.id CASCADE", "repository_id > projects.repository_id CASCADE"],
        create=create_table,
    )
    create_index("ix_board_filters_repository_id", "board_filters", ["repository_id"])
