"""Indexes for every order in which lists of the work area may be asked for, and for those of their filters that have
one. PostgreSQL builds them while others go on; what is interrupted begins again.
"""

import sqlalchemy as sa
from alembic import op

from workhook.storage.online import create_index, drop_index

revision = "0012"
down_revision = "0011"

_LIVE, _TRASH = "deleted_at IS NULL", "deleted_at IS NOT NULL"
_FIRST, _LAST = sa.text("coalesce(deadline, 4611686018427387904)"), sa.text("coalesce(deadline, -1)")


def upgrade() -> None:
    keys: dict[str, str | sa.TextClause] = {
        "created_at": "created_at",
        "updated_at": "updated_at",
        "title": "title",
        "deadline_first": _FIRST,
        "deadline_last": _LAST,
    }
    for name, key in keys.items():
        create_index(f"ix_tasks_{name}", "tasks", ["repository_id", key, "id"], where=_LIVE)
    for table in ("tasks", "files"):
        create_index(f"ix_{table}_trash", table, ["repository_id", "deleted_at", "id"], where=_TRASH)
    is_open = "private IS 0" if op.get_bind().dialect.name == "sqlite" else "private IS FALSE"
    create_index("ix_files_in_folder", "files", ["repository_id", "folder_id", "id"])
    create_index("ix_files_open", "files", ["repository_id", "id"], where=is_open)
    create_index("ix_task_comments_open", "task_comments", ["task_id", "id"], where=is_open)
    create_index("ix_file_comments_open", "file_comments", ["file_id", "id"], where=is_open)
    create_index("ix_timesheets_task", "timesheets", ["task_id", "id"])
    drop_index("ix_timesheets_task_id", "timesheets")
    create_index("ix_timesheets_user", "timesheets", ["repository_id", "user_id", "id"])
    create_index("ix_invoices_status", "invoices", ["repository_id", "status", "id"])
