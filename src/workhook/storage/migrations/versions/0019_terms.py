"""On SQLite the words that a full-text index holds can be read: what begins with `boar` is asked for as `board` or
`boards` then, which gives the newest rows at once. `boar*` is put together from all rows before the first is given.
"""

from alembic import op

revision = "0019"
down_revision = "0018"

_SEARCHED = ("tasks", "files", "task_comments", "file_comments", "file_comment_replies")


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        for table in _SEARCHED:  # they hold nothing of their own
            op.execute(f"CREATE VIRTUAL TABLE search_{table}_terms USING fts5vocab(search_{table}, instance)")
