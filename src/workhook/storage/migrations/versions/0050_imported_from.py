"""An index that leads from what was imported to what it was imported from: nobody here edits somebody else's words."""

from alembic import op

from workhook.storage.online import beside_others, create_index

revision = "0050"
down_revision = "0049"


def upgrade() -> None:
    create_index("ix_import_links_internal_id", "import_links", ["repository_id", "kind", "internal_id"])
    with beside_others():
        op.execute("DROP INDEX IF EXISTS ix_import_links_repository_id")
