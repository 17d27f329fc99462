"""An index for what is assigned to somebody, the newest first, in whatever project."""

from workhook.storage.online import create_index, drop_index

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    create_index("ix_task_assignees_user", "task_assignees", ["user_id", "task_id"])
    drop_index("ix_task_assignees_user_id", "task_assignees")
