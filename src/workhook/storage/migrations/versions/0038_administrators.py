"""Who administers the server. Nobody does until `workhook user admin` says who."""

from workhook.storage.online import create_table
from workhook.storage.table_text import make_table

revision = "0038"
down_revision = "0037"


def upgrade() -> None:
    make_table(
        "administrators",
        "user_id bigint, created_at bigint",
        key="user_id",
        foreign=["user_id > accounts.id CASCADE"],
        create=create_table,
    )
