"""The schema that `storage.schema` made in the first release. Migrations begin after it, so nothing is to be run.

Its number follows those of the commits before the release, so that neither takes the other's database for its own.
"""

revision = "0058"
down_revision = None


def upgrade() -> None:
    """A new database is made as a whole."""
