"""An index for what one person has spent in a week, in whatever project."""

from workhook.storage.online import create_index

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    create_index("ix_timesheets_own", "timesheets", ["user_id", "start_time"], where="start_time > -1")
