"""What hangs on tasks: files and subtasks.

A file of before is on no task, and a task of before is no subtask.
"""

from alembic import op

from workhook.storage.online import add_reference, create_index

revision = "0035"
down_revision = "0033"


def upgrade() -> None:
    add_reference("files", "task_id", "tasks", on_delete="SET NULL")
    create_index("ix_files_task_id", "files", ["task_id"], where="task_id IS NOT NULL")
    create_index("ix_files_on_task", "files", ["repository_id", "task_id", "id"], where="task_id IS NOT NULL")
    add_reference("tasks", "parent_id", "tasks", on_delete="SET NULL")
    create_index("ix_tasks_parent_id", "tasks", ["parent_id", "id"], where="parent_id IS NOT NULL")
    is_open = "private IS 0" if op.get_bind().dialect.name == "sqlite" else "private IS FALSE"
    create_index("ix_files_on_task_open", "files", ["repository_id", "task_id", "id"], where=is_open)
