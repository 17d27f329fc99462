"""What users have let apps do. Whoever issues or ends tokens of a grant locks its row first, and whoever issues the row
of its app before that, so that nothing is issued behind the back of a revocation (docs/decisions/0014-oauth.md)."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.core.clock import now_ms
from workhook.identity import removal
from workhook.identity.apps.queries import keep_app
from workhook.identity.apps.schemas import App
from workhook.identity.oauth.scopes import covers, stored, together
from workhook.identity.oauth.tables import authorization_codes, device_codes, grants, refresh_tokens
from workhook.identity.tables import accounts
from workhook.identity.tokens.issue import revoke_of
from workhook.storage import Reader, Transaction
from workhook.storage.dialects import upsert
from workhook.storage.metadata import big

_theirs = (grants.c.app_id == big("app_id"), grants.c.user_id == big("user_id"))
_find = sa.select(grants.c.scopes).where(*_theirs)
_lock = _find.with_for_update()
_lock_enabled = (
    _find.where(sa.exists().where(accounts.c.id == grants.c.user_id, accounts.c.disabled_at.is_(None)))
).with_for_update()
_begin = (
    upsert(grants)
    .values({name: sa.bindparam(name) for name in ("app_id", "user_id", "scopes", "created_at", "updated_at")})
    .on_conflict_do_nothing(index_elements=["app_id", "user_id"])
)
_widen = sa.update(grants).where(*_theirs).values(scopes=sa.bindparam("scopes_now"), updated_at=big("now"))
_delete = sa.delete(grants).where(*_theirs)
_end_open = [
    sa.update(table)
    .where(table.c.app_id == big("app_id"), table.c.user_id == big("user_id"), table.c.used_at.is_(None))
    .values(used_at=big("now"))
    for table in (authorization_codes, device_codes, refresh_tokens)
]


async def is_allowed(reader: Reader, app: App, user_id: int, asked: frozenset[str]) -> bool:
    """Whether the user has allowed all this before. `asked`: as `scopes.wanted` answers it."""
    row = await reader.fetch_one(_find, {"app_id": app.id, "user_id": user_id})
    return row is not None and covers(app, stored(row["scopes"]), asked)


async def allow(tx: Transaction, app: App, user_id: int, asked: frozenset[str]) -> None:
    """The user has consented. What was allowed before stays allowed."""
    await keep_app(tx, app.id)
    named, now = {"app_id": app.id, "user_id": user_id}, now_ms()
    await tx.execute(_begin, {**named, "scopes": "", "created_at": now, "updated_at": now})
    row = await tx.fetch_one(_lock, named)
    assert row is not None, "it was inserted or was there"
    scopes = together(app, stored(row["scopes"]), asked)
    await tx.execute(_widen, {**named, "scopes_now": " ".join(sorted(scopes)), "now": now})


async def hold(tx: Transaction, app_id: int, user_id: int) -> bool:
    """Lock the grant until the transaction ends; False if there is none (any more), or its user is disabled."""
    named = {"app_id": app_id, "user_id": user_id}
    return await keep_app(tx, app_id) and await tx.fetch_one(_lock_enabled, named) is not None


async def revoke_grant(tx: Transaction, app_id: int, user_id: int) -> bool:
    """With all that came of it: tokens, refresh tokens and codes. Answers whether there was a grant."""
    named = {"app_id": app_id, "user_id": user_id}
    deleted = await tx.execute(_delete, named)
    for statement in _end_open:
        await tx.execute(statement, {**named, "now": now_ms()})
    await revoke_of(tx, app_id=app_id, user_id=user_id)
    await removal.rights_lost(tx, None, user_id=user_id, app_id=app_id)
    return deleted > 0
