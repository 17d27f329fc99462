"""Kinds of tokens (docs/integrators/permissions.md), and issuing, revoking and pruning. Callers check the rights.

A used refresh token is kept until it would have expired, because a second use shows that it was stolen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from functools import cache, partial
from typing import Any

import msgspec
import sqlalchemy as sa

from workhook.core import json
from workhook.core.clock import DAY_MS, HOUR_MS, now_ms
from workhook.core.disclosure import HiddenRepr
from workhook.core.ids import has_valid_checksum, new_token
from workhook.identity.tables import (
    authorization_codes,
    device_codes,
    invitations,
    rate_windows,
    refresh_tokens,
    sent_forms,
    sessions,
    sign_in_failures,
    sign_in_links,
    tokens,
)
from workhook.storage import Database, Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import bigint_param
from workhook.storage.signals import TOKENS
from workhook.storage.sweeping import in_batches


class Kind(msgspec.Struct, frozen=True):
    """A kind of token. `confined`: with permissions on selected organizations and repositories instead of scopes."""

    name: str
    prefix: str
    title: str
    confined: bool = False
    of_app: bool = False


CLASSIC = Kind("classic", "whp_", "classic personal access token")
FINE_GRAINED = Kind("fine_grained", "workhook_pat_", "fine-grained personal access token", confined=True)
OAUTH = Kind("oauth", "who_", "OAuth app token", of_app=True)
APP_USER = Kind("app_user", "whu_", "app user access token", confined=True, of_app=True)
INSTALLATION = Kind("installation", "whs_", "app installation access token", confined=True, of_app=True)

KINDS = {each.name: each for each in (CLASSIC, FINE_GRAINED, OAUTH, APP_USER, INSTALLATION)}
REFRESH_PREFIX = "whr_"  # of refresh tokens


def kind_of(token: str) -> Kind | None:
    """Return the kind by prefix and checksum, so that a typo or an unrelated secret costs no lookup."""
    for kind in KINDS.values():
        if token.startswith(kind.prefix):
            return kind if has_valid_checksum(token, kind.prefix) else None
    return None


def digest_of(secret: str) -> bytes:
    """Return the stored form of a token, code or client secret. They are random, so one SHA-256 is enough."""
    return hashlib.sha256(secret.encode()).digest()


# The tokens and all tokens derived from them, transitively.
_issued = sa.select(tokens.c.id).where(any_of(tokens.c.id, "ids")).cte("made", recursive=True)
_issued = _issued.union(sa.select(tokens.c.id).where(tokens.c.parent_id == _issued.c.id))
_living = sa.select(tokens.c.id).where(tokens.c.id.in_(sa.select(_issued.c.id)), tokens.c.revoked_at.is_(None))
# In a fixed order, so that two revocations cannot deadlock. As strong as the UPDATE's own lock.
_living = _living.order_by(tokens.c.id).with_for_update(of=tokens, key_share=True)
_revoke = sa.update(tokens).where(any_of(tokens.c.id, "ids"), tokens.c.revoked_at.is_(None))
_revoke = _revoke.values(revoked_at=bigint_param("now"))
_end_family = sa.update(refresh_tokens).where(
    refresh_tokens.c.family == sa.bindparam("family"), refresh_tokens.c.used_at.is_(None)
)
_end_family = _end_family.values(used_at=bigint_param("now"))


class IssuedToken(HiddenRepr, msgspec.Struct, frozen=True):
    """A new token, which is shown only once. `expires_at` is in milliseconds since the epoch."""

    id: int
    token: str
    expires_at: int | None


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
    """Store the digest of a new token and return it. `user_id` is the bot's for an installation."""
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
    return IssuedToken(await tx.insert(tokens, params), token, expires_at)


async def revoke(tx: Transaction, token_ids: Collection[int]) -> int:
    """Revoke the tokens and all tokens derived from them. Returns how many were valid."""
    changed = 0
    # Repeated, because another token may have been derived while this waited for the lock (`personal.lock_living`).
    while ids := [row["id"] for row in await tx.fetch_all(_living, {"ids": list(token_ids)})]:
        changed += await tx.execute(_revoke, {"ids": ids, "now": now_ms()})
        forget_after_commit(tx, ids)
    return changed


@cache
def _living_with(names: tuple[str, ...]) -> sa.Select[Any]:
    equal = (tokens.c[name] == sa.bindparam(name, type_=tokens.c[name].type) for name in names)
    return sa.select(tokens.c.id).where(*equal, tokens.c.revoked_at.is_(None))


async def revoke_of(
    tx: Transaction,
    *,
    family: str | None = None,
    app_id: int | None = None,
    installation_id: int | None = None,
    user_id: int | None = None,
) -> int:
    """Revoke the tokens that match all given values (at least one). With `family`, also its refresh tokens."""
    values = {"family": family, "app_id": app_id, "installation_id": installation_id, "user_id": user_id}
    params = {name: value for name, value in values.items() if value is not None}
    if not params:
        raise ValueError("without a value every token would end")
    rows = await tx.fetch_all(_living_with(tuple(params)), params)
    if family is not None:
        await tx.execute(_end_family, {"family": family, "now": now_ms()})
    return await revoke(tx, [row["id"] for row in rows])


async def revoke_with_family(tx: Transaction, token_id: int, family: str | None) -> int:
    """Revoke a token, those derived from it, and those of the same consent. Returns how many were valid."""
    ended = await revoke_of(tx, family=family) if family else 0  # first: refresh tokens are locked before tokens
    return ended + await revoke(tx, [token_id])


def forget_after_commit(tx: Transaction, token_ids: Collection[int] = (0,)) -> None:
    """Remove these tokens from the caches of all processes after the commit. 0 means all tokens."""
    tx.signal(TOKENS, frozenset(token_ids))


TOKENS_KEPT_MS = 90 * DAY_MS
"""Retention after their end, for `workhook token list`."""
REST_KEPT_MS = DAY_MS
COUNTS_KEPT_MS = 2 * DAY_MS
"""Twice as long as they count, because some are counted by the database's clock."""
DEVICE_CODES_KEPT_MS = HOUR_MS
"""Short, because anyone can create them and a replay revokes nothing."""
BATCH = 1000


_Over = Callable[[sa.FromClause], sa.ColumnElement[bool]]


def _delete(key: sa.Column[object], over: _Over) -> sa.Delete:
    """Delete at most `limit` ended rows, which concurrent processes divide among themselves."""
    ended = key.table.alias("ended")
    chosen = sa.select(ended.c[key.name]).where(over(ended)).limit(bigint_param("limit")).offset(bigint_param("offset"))
    return sa.delete(key.table).where(key.in_(chosen.with_for_update(of=ended, skip_locked=True)))


def _expired(before: str = "before") -> _Over:
    return lambda table: table.c.expires_at < bigint_param(before)


_counted = bigint_param("counted_before")
_DELETES = (
    _delete(tokens.c.id, lambda t: sa.func.coalesce(t.c.revoked_at, t.c.expires_at) < bigint_param("tokens_before")),
    _delete(authorization_codes.c.digest, _expired()),
    _delete(device_codes.c.digest, _expired("codes_before")),
    _delete(refresh_tokens.c.id, _expired()),
    _delete(sign_in_links.c.digest, _expired()),
    _delete(sent_forms.c.digest, lambda t: t.c.created_at < bigint_param("before")),
    _delete(sessions.c.id, _expired()),
    _delete(invitations.c.id, _expired()),
    _delete(sign_in_failures.c.key, lambda t: sa.and_(t.c.since < _counted, t.c.blocked_until < _counted)),
    _delete(rate_windows.c.caller, lambda t: t.c.resets_at < bigint_param("before")),
)


async def prune(database: Database, now: int) -> int:
    """Delete ended rows: tokens after 90 days, device codes after an hour, others after a day. Returns their number.

    Several processes may run this concurrently. Raises `Unavailable`.
    """
    params = {
        "tokens_before": now - TOKENS_KEPT_MS,
        "codes_before": now - DEVICE_CODES_KEPT_MS,
        "before": now - REST_KEPT_MS,
        "counted_before": now - COUNTS_KEPT_MS,
    }

    async def some(statement: sa.Delete, limit: int, offset: int) -> int:
        these = {**params, "limit": limit, "offset": offset}
        return await database.in_transaction(lambda tx: tx.execute(statement, these))

    return sum([await in_batches(str(each.table), BATCH, partial(some, each)) for each in _DELETES])
