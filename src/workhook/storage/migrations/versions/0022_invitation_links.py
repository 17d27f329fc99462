"""A link to an invitation: the digest of its secret. PostgreSQL adds the column without rewriting the table."""

from workhook.storage.online import add_column, create_index
from workhook.storage.table_text import column

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    add_column("invitations", column("link_digest bytea?"))
    create_index(
        "ix_invitations_link_digest", "invitations", ["link_digest"], unique=True, where="link_digest IS NOT NULL"
    )
