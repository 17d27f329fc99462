"""The schema that `storage.schema` created in the first release. Migrations start after it, so it runs nothing.

Its number follows those used before the release, so that the release and earlier versions reject each other's
databases.
"""

revision = "0058"
down_revision = None


def upgrade() -> None:
    """Do nothing, because a new database is created as a whole."""
