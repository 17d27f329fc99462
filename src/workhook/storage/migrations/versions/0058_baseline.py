"""The schema that `storage.schema` created in the first release. Migrations start after it, so this one does nothing.

Its number follows those used before the first release, so that releases and earlier versions reject each other's
databases.
"""

revision = "0058"
down_revision = None


def upgrade() -> None:
    """Do nothing, because a new database is created as a whole."""
