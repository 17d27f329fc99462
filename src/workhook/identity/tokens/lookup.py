"""The actor of a token, found with one SELECT or in the cache, and where it may act.

A classic or OAuth token reaches everything its user can, within its scopes. A confined token has grants: accounts and
repositories with permissions. The user's own role is always checked as well.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa

from workhook.core import json
from workhook.core.clock import now_ms
from workhook.core.errors import Forbidden, NotFound
from workhook.identity.queries import account_columns, chosen_ids
from workhook.identity.schemas import Actor, Grant, account_of
from workhook.identity.tables import accounts, apps, installations, tokens
from workhook.identity.tokens.issue import APP_USER, FINE_GRAINED, INSTALLATION, KINDS, OAUTH, digest_of, kind_of
from workhook.storage import Database, Reader, Row
from workhook.storage.dialects import any_of, json_rows
from workhook.storage.signals import TOKENS
from workhook.storage.statements import hot

LEVELS = (None, "read", "write")


def allows(grant: Grant, need: tuple[str, str] | None) -> bool:
    """Return whether a grant includes the permission and level in `need`; write includes read."""
    return need is None or LEVELS.index(grant.permissions.get(need[0])) >= LEVELS.index(need[1])


def covers(actor: Actor, account_id: int, repository_id: int | None = None) -> bool:
    """Return whether the token reaches the account and, if given, its repository, with any permission."""
    return actor.grants is None or _grant_for(actor, account_id, repository_id) is not None


def check_reach(actor: Actor, account_id: int, repository_id: int | None = None) -> None:
    """Raise `NotFound` outside the token's grants, and `Forbidden` if its permissions are insufficient."""
    if actor.grants is None:
        return
    grant = _grant_for(actor, account_id, repository_id)
    if grant is None:
        actor.request.set_subject(account_id, repository_id, hidden=True)
        raise NotFound()
    if not allows(grant, actor.need):
        raise not_accessible(actor)


def may_reach(actor: Actor, need: tuple[str, str] | None, account_id: int, repository_id: int | None) -> bool:
    """Return whether the token has this permission there, regardless of the current operation."""
    if actor.grants is None:
        return True
    grant = _grant_for(actor, account_id, repository_id)
    return grant is not None and allows(grant, need)


def check_whole_account(actor: Actor, account_id: int) -> None:
    """Also reject tokens for selected repositories, for example when creating a repository.

    Raises the errors of `check_reach`.
    """
    check_reach(actor, account_id)
    grant = None if actor.grants is None else _grant_for(actor, account_id, None)
    if grant is not None and grant.repository_ids is not None:
        raise not_accessible(actor)


def not_accessible(actor: Actor) -> Forbidden:
    """Return the error for insufficient permissions, as GitHub words it."""
    kind = "integration" if KINDS[actor.token_kind].of_app else "personal access token"
    return Forbidden(f"Resource not accessible by {kind}", code="missing_permission")


def _grant_for(actor: Actor, account_id: int, repository_id: int | None) -> Grant | None:
    for grant in actor.grants or ():
        if grant.account_id == account_id:
            seen = repository_id is None or grant.repository_ids is None or repository_id in grant.repository_ids
            return grant if seen else None
    return None


def within_reach(
    account_id: sa.ColumnElement[Any], repository_id: sa.ColumnElement[Any] | None
) -> sa.ColumnElement[bool]:
    """Return the condition (see `reach_params`) that a project, or without `repository_id` an account, is in reach."""
    wide = sa.bindparam("reach_everything", type_=sa.Boolean())
    if repository_id is None:
        return sa.or_(wide, any_of(account_id, "reach_accounts"))
    return sa.or_(wide, any_of(account_id, "reach_whole_accounts"), any_of(repository_id, "reach_repositories"))


def reach_params(actor: Actor) -> Mapping[str, object]:
    """Return the parameters of `within_reach`. Only grants with the permission that the operation needs count."""
    fitting = [each for each in actor.grants or () if allows(each, actor.need)]
    return {
        "reach_everything": actor.grants is None,
        "reach_accounts": [each.account_id for each in fitting],
        "reach_whole_accounts": [each.account_id for each in fitting if each.repository_ids is None],
        "reach_repositories": sorted({one for each in fitting for one in each.repository_ids or ()}),
    }


STANDS_S = 0.8  # revocation takes effect within a second, even if its signal is lost
KEPT_MAX = 10_000

_installed = sa.and_(
    installations.c.suspended_at.is_(None),
    sa.or_(
        installations.c.id == tokens.c.installation_id,
        sa.and_(
            tokens.c.kind == APP_USER.name,
            installations.c.app_id == tokens.c.app_id,
            sa.or_(tokens.c.account_id.is_(None), installations.c.account_id == tokens.c.account_id),
        ),
    ),
)
_grant = (installations.c[name] for name in ("account_id", "permissions", "repository_selection"))
_reaches = sa.select(json_rows(*_grant, chosen_ids)).where(_installed).correlate(tokens).scalar_subquery()
_client_id = sa.select(apps.c.client_id).where(apps.c.id == tokens.c.app_id, tokens.c.kind == OAUTH.name)
_NAMES = (
    "kind", "scopes", "permissions", "account_id", "repositories", "app_id", "installation_id",
    "expires_at", "revoked_at", "last_used_at", "root_id", "family",
)  # fmt: skip
_usable_tokens = sa.select(
    tokens.c.id.label("token_id"),
    *(tokens.c[name].label("token_" + name) for name in _NAMES),
    sa.case((tokens.c.app_id.is_not(None), _reaches), else_=sa.literal("[]")).label("reaches"),
    _client_id.correlate(tokens).label("client_id"),
    *account_columns("user_"),
).join_from(tokens, accounts, accounts.c.id == tokens.c.user_id)
_usable_tokens = _usable_tokens.where(accounts.c.disabled_at.is_(None))
_token = hot(_usable_tokens.where(tokens.c.digest == sa.bindparam("digest")))
_tokens = _usable_tokens.where(any_of(tokens.c.id, "token_ids"))


async def find_actor(reader: Reader, token: str) -> Actor | None:
    """Return the actor of a valid token. Raises `Forbidden` for a suspended installation.

    Tokens are compared only through the index on their digests. Its timing reveals something about the SHA-256 of a
    guess, which an attacker cannot choose, and nothing about a token.
    """
    row = await reader.fetch_one(_token, {"digest": digest_of(token)})
    actor = _actor_of(row) if row else None
    if actor is not None and _is_suspended(actor):
        raise Forbidden("This installation has been suspended", code="suspended")
    return actor


async def find_actors(reader: Reader, token_ids: Collection[int]) -> dict[int, Actor]:
    rows = await reader.fetch_all(_tokens, {"token_ids": sorted(token_ids)})
    found = {row["token_id"]: _actor_of(row) for row in rows}
    return {token_id: actor for token_id, actor in found.items() if actor is not None and not _is_suspended(actor)}


def _actor_of(row: Row) -> Actor | None:
    if row["token_revoked_at"] is not None:
        return None
    actor = Actor(
        user=account_of(row, "user_"),
        token_id=row["token_id"],
        token_kind=row["token_kind"],
        scopes=frozenset(row["token_scopes"].split()),
        last_used_at=row["token_last_used_at"],
        app_id=row["token_app_id"],
        installation_id=row["token_installation_id"],
        grants=_reaches_of(row),
        expires_at=row["token_expires_at"],
        root_id=row["token_root_id"],
        family=row["token_family"],
        narrowed_to=row["token_account_id"] if row["token_kind"] == APP_USER.name else None,
        client_id=row["client_id"],
    )
    return actor if is_current(actor) else None


def _is_suspended(actor: Actor) -> bool:
    return actor.token_kind == INSTALLATION.name and not actor.grants


def is_current(actor: Actor) -> bool:
    """Return whether the actor's token has not expired. A cached token may have."""
    return actor.expires_at is None or actor.expires_at > now_ms()


def _reaches_of(row: Row) -> tuple[Grant, ...] | None:
    kind = KINDS[row["token_kind"]]
    if not kind.confined:
        return None
    own_ids = None if row["token_repositories"] is None else frozenset(json.decode(row["token_repositories"]))
    own = None if row["token_permissions"] is None else json.decode(row["token_permissions"])
    if kind is FINE_GRAINED:
        return (Grant(row["token_account_id"], own or {}, own_ids),)
    found = []
    for account_id, permissions, selection, chosen in json.decode(row["reaches"]):
        granted = json.decode(permissions)
        rows = json.decode(chosen) if isinstance(chosen, str) else chosen  # SQLite nests the array as text
        repository_ids = None if selection == "all" else frozenset(one for (one,) in rows)
        if own_ids is not None:
            repository_ids = own_ids if repository_ids is None else own_ids & repository_ids
        found.append(Grant(account_id, granted if own is None else weaker(own, granted), repository_ids))
    return tuple(found)


def weaker(one: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str]:
    """Return the permissions that both grant."""
    both = {name: min(level, other[name], key=LEVELS.index) for name, level in one.items() if name in other}
    return {name: level for name, level in both.items() if level}


class Lookup:
    """A process's cache of tokens. Changes by other processes arrive by signal, or after `STANDS_S` at the latest."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._seen: dict[bytes, tuple[float, Actor]] = {}
        self._changes = 0
        self.close = database.signals.listen(TOKENS, self._changed)

    async def find(self, token: str) -> Actor | None:
        key, now = digest_of(token), time.monotonic()
        until, actor = self._seen.get(key, (0.0, None))
        if actor is not None and now < until:
            return actor if is_current(actor) else None
        if kind_of(token) is None:
            return None
        changes = self._changes
        found = await find_actor(self._database, token)
        if found is None:
            self._seen.pop(key, None)
        elif changes == self._changes:  # otherwise it may be older than the change
            if len(self._seen) >= KEPT_MAX:
                self._seen.clear()
            self._seen[key] = (now + STANDS_S, found)
        return found

    def _changed(self, ids: frozenset[int] | None) -> None:
        """Drop changed tokens from the cache. If `ids` is None or contains 0, any token may have changed."""
        self._changes += 1
        if ids is None or 0 in ids:
            self._seen.clear()
        else:
            self._seen = {key: entry for key, entry in self._seen.items() if entry[1].token_id not in ids}
