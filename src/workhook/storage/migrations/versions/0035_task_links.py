"""What hangs on tasks: files, subtasks, the tasks that they wait for, and those that come next.

A file of before is on no task. A task of before is no subtask, waits for nothing and does not repeat.
"""

import sqlalchemy as sa
from alembic import op

from workhook.storage.online import add_column, add_reference, create_index, create_table
from workhook.storage.table_text import make_table

revision = "0035"
down_revision = "0034"


def upgrade() -> None:
    add_reference("files", "task_id", "tasks", on_delete="SET NULL")
    create_index("ix_files_task_id", "files", ["task_id"], where="task_id IS NOT NULL")
    create_index("ix_files_on_task", "files", ["repository_id", "task_id", "id"], where="task_id IS NOT NULL")
    add_reference("tasks", "parent_id", "tasks", on_delete="SET NULL")
    create_index("ix_tasks_parent_id", "tasks", ["parent_id", "id"], where="parent_id IS NOT NULL")
    add_column("tasks", sa.Column("repeat", sa.Text))
    add_column("tasks", sa.Column("next_id", sa.Text))
    make_table(
        "task_blockers",
        "task_id text, blocker_id text",
        key="task_id, blocker_id",
        foreign=["task_id > tasks.id CASCADE", "blocker_id > tasks.id CASCADE"],
        create=create_table,
    )
    create_index("ix_task_blockers_blocker", "task_blockers", ["blocker_id", "task_id"])
    is_open = "private IS 0" if op.get_bind().dialect.name == "sqlite" else "private IS FALSE"
    create_index("ix_files_on_task_open", "files", ["repository_id", "task_id", "id"], where=is_open)
