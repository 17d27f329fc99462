"""Indexes for the lists that span organizations: what somebody sees is found from where the person is."""

from workhook.storage.online import create_index, drop_index

revision = "0017"
down_revision = "0016"

_THERE, _DELETED = "deleted_at IS NULL", "deleted_at IS NOT NULL"


def upgrade() -> None:
    create_index("ix_projects_there", "projects", ["account_id", "private", "repository_id"], where=_THERE)
    create_index("ix_projects_trash", "projects", ["account_id", "deleted_at", "id"], where=_DELETED)
    create_index("ix_services_offered", "services", ["account_id", "active", "id"], where=_THERE)
    for table in ("collaborators", "clients"):
        create_index(f"ix_{table}_user", table, ["user_id", "repository_id"])
        drop_index(f"ix_{table}_user_id", table)
