"""PostgreSQL cleans up and counts large tables after a fiftieth of their rows has changed, not after a fifth: in a
table of ten million rows two million that are dead would be passed before.
"""

from workhook.storage.online import set_storage

revision = "0018"
down_revision = "0017"

_GROW = (
    "audit_log",
    "deliveries",
    "dispatches",
    "events",
    "tasks",
    "timesheets",
    "timesheet_changes",
    "timesheet_sums",
)
_SHARE = 0.02


def upgrade() -> None:
    for table in _GROW:
        set_storage(
            table, autovacuum_vacuum_scale_factor=_SHARE, autovacuum_vacuum_insert_scale_factor=_SHARE,
            autovacuum_analyze_scale_factor=_SHARE,
        )  # fmt: skip
