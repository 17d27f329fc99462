"""The schema that `storage.schema` made in the first release. Migrations begin after it, so nothing is to be run."""

revision = "0001"
down_revision = None


def upgrade() -> None:
    """A new database is made as a whole."""
