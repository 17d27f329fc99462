"""Reads of tokens by the app that they were issued to."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.core.clock import now_ms
from workhook.identity.queries import account_columns
from workhook.identity.tables import accounts, tokens
from workhook.identity.tokens.kinds import digest_of
from workhook.storage import Reader, Row
from workhook.storage.metadata import big

_NAMES = (
    "id", "kind", "user_id", "scopes", "permissions", "account_id", "repositories", "parent_id", "root_id", "family",
    "note", "created_at", "expires_at",
)  # fmt: skip
_issued = (
    sa.select(*(tokens.c[name] for name in _NAMES), *account_columns("user_"))
    .join_from(tokens, accounts, accounts.c.id == tokens.c.user_id)
    .where(
        tokens.c.digest == sa.bindparam("digest"),
        tokens.c.app_id == big("app_id"),
        tokens.c.revoked_at.is_(None),
        sa.or_(tokens.c.expires_at.is_(None), tokens.c.expires_at > big("now")),
        accounts.c.disabled_at.is_(None),
    )
)


async def find_issued(reader: Reader, app_id: int, token: str) -> Row | None:
    """A token that is good now and was issued to the app, with its user (`user_`)."""
    return await reader.fetch_one(_issued, {"digest": digest_of(token), "app_id": app_id, "now": now_ms()})
