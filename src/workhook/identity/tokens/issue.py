"""Issuing and revoking, the same for every kind. Who may is decided by whoever calls."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import sqlalchemy as sa

from workhook.core import json
from workhook.core.clock import now_ms
from workhook.core.ids import new_token
from workhook.identity.oauth.tables import refresh_tokens
from workhook.identity.tables import tokens
from workhook.identity.tokens.kinds import Kind, digest_of
from workhook.storage import Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big, insert_into
from workhook.storage.signals import TOKENS

_COLUMNS = (
    "kind", "digest", "user_id", "scopes", "permissions", "account_id", "repositories", "app_id", "installation_id",
    "parent_id", "root_id", "family", "note", "created_at", "expires_at",
)  # fmt: skip
_insert = insert_into(tokens, *_COLUMNS).returning(tokens.c.id)

# A token, what was made with it, and what was made with that.
_made = sa.select(tokens.c.id).where(any_of(tokens.c.id, "ids")).cte("made", recursive=True)
_made = _made.union(sa.select(tokens.c.id).where(tokens.c.parent_id == _made.c.id))
_living = sa.select(tokens.c.id).where(tokens.c.id.in_(sa.select(_made.c.id)), tokens.c.revoked_at.is_(None))
# All in one order: two who revoke some of the same never wait for each other. As strong as the UPDATE's own lock.
_living = _living.order_by(tokens.c.id).with_for_update(of=tokens, key_share=True)
_revoke = sa.update(tokens).where(any_of(tokens.c.id, "ids"), tokens.c.revoked_at.is_(None))
_revoke = _revoke.values(revoked_at=big("now"))
_COLUMN_TYPES = {"family": sa.Text()}
_of = {
    name: sa.select(tokens.c.id).where(
        tokens.c[name] == sa.bindparam("value", type_=_COLUMN_TYPES.get(name, sa.BigInteger())),
        tokens.c.revoked_at.is_(None),
    )
    for name in ("family", "app_id", "installation_id")
}
_of_grant = sa.select(tokens.c.id).where(
    tokens.c.app_id == big("app_id"), tokens.c.user_id == big("user_id"), tokens.c.revoked_at.is_(None)
)
_end_family = sa.update(refresh_tokens).where(
    refresh_tokens.c.family == sa.bindparam("family"), refresh_tokens.c.used_at.is_(None)
)
_end_family = _end_family.values(used_at=big("now"))


class IssuedToken(NamedTuple):
    """The only time that the token itself is seen. `expires_at`: milliseconds since the epoch."""

    id: int
    token: str
    expires_at: int | None

    def __repr__(self) -> str:
        return f"IssuedToken(id={self.id})"


async def issue(
    tx: Transaction,
    kind: Kind,
    user_id: int,
    *,
    scopes: Collection[str] = (),
    permissions: Mapping[str, str] | None = None,
    account_id: int | None = None,
    repository_ids: Collection[int] | None = None,
    app_id: int | None = None,
    installation_id: int | None = None,
    parent_id: int | None = None,
    root_id: int | None = None,
    family: str | None = None,
    note: str | None = None,
    expires_at: int | None = None,
) -> IssuedToken:
    """Store a new token's digest. `user_id` is the bot's for an installation. See `identity.tables.tokens`."""
    token = new_token(kind.prefix)
    params = {
        "kind": kind.name,
        "digest": digest_of(token),
        "user_id": user_id,
        "scopes": " ".join(sorted(set(scopes))),
        "permissions": None if permissions is None else json.encode_text(dict(permissions)),
        "account_id": account_id,
        "repositories": None if repository_ids is None else json.encode_text(sorted(repository_ids)),
        "app_id": app_id,
        "installation_id": installation_id,
        "parent_id": parent_id,
        "root_id": root_id,
        "family": family,
        "note": note,
        "created_at": now_ms(),
        "expires_at": expires_at,
    }
    row = await tx.fetch_one(_insert, params)
    assert row is not None
    return IssuedToken(row["id"], token, expires_at)


async def revoke(tx: Transaction, token_ids: Collection[int]) -> int:
    """With every token that was made with them. Answers how many of all these were still good."""
    changed = 0
    # Again until there are none: while the rows were waited for, one of them may have made another
    # (`queries.keep_living`), which this transaction sees only now.
    while ids := [row["id"] for row in await tx.fetch_all(_living, {"ids": list(token_ids)})]:
        changed += await tx.execute(_revoke, {"ids": ids, "now": now_ms()})
        forget_after_commit(tx, ids)
    return changed


async def revoke_of(
    tx: Transaction,
    *,
    family: str | None = None,
    app_id: int | None = None,
    installation_id: int | None = None,
    user_id: int | None = None,
) -> int:
    """Of what one argument names; `user_id` goes with `app_id`. A family's refresh tokens end with it."""
    if app_id is not None and user_id is not None:
        rows = await tx.fetch_all(_of_grant, {"app_id": app_id, "user_id": user_id})
    else:
        named = {"family": family, "app_id": app_id, "installation_id": installation_id}
        [(name, value)] = [(name, value) for name, value in named.items() if value is not None]
        rows = await tx.fetch_all(_of[name], {"value": value})
    if family is not None:
        await tx.execute(_end_family, {"family": family, "now": now_ms()})
    return await revoke(tx, [row["id"] for row in rows])


async def revoke_with_family(tx: Transaction, token_id: int, family: str | None) -> int:
    """With what was made with it and, where an app could renew it, with what came of the same consent. Answers how many
    tokens were still good."""
    ended = await revoke_of(tx, family=family) if family else 0  # first: refresh tokens are locked before tokens
    return ended + await revoke(tx, [token_id])


def forget_after_commit(tx: Transaction, token_ids: Collection[int] = (0,)) -> None:
    """After the commit every process forgets what it knows of these tokens; 0: of all of them."""
    tx.signal(TOKENS, frozenset(token_ids))
