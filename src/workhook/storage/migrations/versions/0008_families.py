"""Tokens know the first of their family; indexes for e-mail addresses, for device codes and for what is over."""

import sqlalchemy as sa
from alembic import op

from workhook.storage.table_text import column

revision = "0008"
down_revision = "0007"

# Where an ancestor is gone already, the token that is left counts for itself (its root stays null).
_FAMILIES = """
WITH RECURSIVE families (id, root_id) AS (
    SELECT id, id FROM tokens WHERE parent_id IS NULL
    UNION ALL
    SELECT tokens.id, families.root_id FROM tokens JOIN families ON tokens.parent_id = families.id
)
UPDATE tokens SET root_id = families.root_id FROM families
WHERE families.id = tokens.id AND tokens.parent_id IS NOT NULL
"""


def upgrade() -> None:
    op.add_column("tokens", column("root_id bigint?"))
    op.execute(_FAMILIES)
    op.create_index("ix_tokens_ended", "tokens", [sa.text("coalesce(revoked_at, expires_at)")])
    op.create_index("ix_accounts_email", "accounts", [sa.text("lower(email)")])
    op.create_index("ix_device_codes_app_id", "device_codes", ["app_id", "expires_at"])
    op.create_index("ix_sessions_expires_at", "sessions", ["expires_at"])
    op.create_index("ix_sign_in_links_expires_at", "sign_in_links", ["expires_at"])
    op.create_index("ix_sign_in_failures_since", "sign_in_failures", ["since"])
    op.create_index("ix_rate_windows_resets_at", "rate_windows", ["resets_at"])
