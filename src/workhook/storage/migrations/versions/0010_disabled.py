"""Users can be disabled. PostgreSQL adds the column without rewriting the table, while others go on."""

from workhook.storage.online import add_column
from workhook.storage.table_text import column

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    add_column("accounts", column("disabled_at bigint?"))
