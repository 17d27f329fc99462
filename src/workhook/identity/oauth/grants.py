"""Grants of users to apps, and the tokens issued under them.

Issuing or ending a grant's tokens locks its row first, and issuing locks the app's row before that, so that a
revocation misses no token that is being issued (decision 25).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

import msgspec
import sqlalchemy as sa
import structlog
from msgspec import UNSET, Meta, UnsetType

from workhook.core.clock import now_ms
from workhook.core.disclosure import HiddenRepr
from workhook.core.ids import has_valid_checksum, new_token
from workhook.http.wire_types import Url
from workhook.identity import audit, removal
from workhook.identity.apps.queries import lock_app
from workhook.identity.apps.schemas import App
from workhook.identity.policy import OAUTH_SCOPES, expand
from workhook.identity.tables import accounts, apps, authorization_codes, device_codes, grants, refresh_tokens, tokens
from workhook.identity.tokens import one_time
from workhook.identity.tokens.issue import APP_USER, OAUTH, REFRESH_PREFIX, issue, revoke, revoke_of
from workhook.storage import Reader, Row, Transaction
from workhook.storage.dialects import upsert
from workhook.storage.metadata import bigint_param
from workhook.storage.record_rows import assigned

_SEPARATORS = re.compile(r"[\s,]+")


def requested(text: str | None) -> frozenset[str]:
    """Parse scopes separated by spaces or commas, dropping unknown scopes and those implied by others."""
    return _strongest(set(_SEPARATORS.split(text or "")) & set(OAUTH_SCOPES))


def _strongest(scopes: Iterable[str]) -> frozenset[str]:
    named = frozenset(scopes)
    return frozenset(one for one in named if not any(one in expand(frozenset({other})) for other in named - {one}))


def wanted(app: App, scopes: frozenset[str]) -> frozenset[str]:
    """Return what a grant must cover: the scopes, or the permissions of an app that declares them."""
    if app.is_oauth:
        return scopes
    return frozenset(f"{name}:{level}" for name, level in app.permissions.items())


def covers(app: App, granted: frozenset[str], asked: frozenset[str]) -> bool:
    """Return whether `granted` covers `asked`, both in the form returned by `wanted`."""
    if app.is_oauth:
        return asked <= expand(granted)
    return all(one in granted or one.partition(":")[0] + ":write" in granted for one in asked)


def merge_scopes(app: App, granted: frozenset[str], asked: frozenset[str]) -> frozenset[str]:
    both = granted | asked
    return _strongest(both) if app.is_oauth else both


def parse_stored(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _is(table: sa.Table, name: str) -> sa.ColumnElement[bool]:
    return table.c[name] == bigint_param(name)


_now = bigint_param("now")
_of_app_and_user = (_is(grants, "app_id"), _is(grants, "user_id"))
_find = sa.select(grants.c.scopes).where(*_of_app_and_user)
_lock = _find.with_for_update()
_lock_enabled = (
    _find.where(sa.exists().where(accounts.c.id == grants.c.user_id, accounts.c.disabled_at.is_(None)))
).with_for_update()
_begin = (
    upsert(grants)
    .values(assigned(("app_id", "user_id", "scopes", "created_at", "updated_at")))
    .on_conflict_do_nothing(index_elements=["app_id", "user_id"])
)
_widen = sa.update(grants).where(*_of_app_and_user).values(scopes=sa.bindparam("scopes_now"), updated_at=_now)
_delete = sa.delete(grants).where(*_of_app_and_user)
_end_open = [
    sa.update(each).where(_is(each, "app_id"), _is(each, "user_id"), each.c.used_at.is_(None)).values(used_at=_now)
    for each in (authorization_codes, device_codes, refresh_tokens)
]


async def is_allowed(reader: Reader, app: App, user_id: int, asked: frozenset[str]) -> bool:
    """Return whether the user has granted `asked`, in the form returned by `wanted`."""
    row = await reader.fetch_one(_find, {"app_id": app.id, "user_id": user_id})
    return row is not None and covers(app, parse_stored(row["scopes"]), asked)


async def allow(tx: Transaction, app: App, user_id: int, asked: frozenset[str]) -> None:
    """Store the user's consent in addition to earlier ones."""
    await lock_app(tx, app.id)
    named, now = {"app_id": app.id, "user_id": user_id}, now_ms()
    await tx.execute(_begin, {**named, "scopes": "", "created_at": now, "updated_at": now})
    row = await tx.fetch_row(_lock, named)
    scopes = merge_scopes(app, parse_stored(row["scopes"]), asked)
    await tx.execute(_widen, {**named, "scopes_now": " ".join(sorted(scopes)), "now": now})


async def lock_grant(tx: Transaction, app_id: int, user_id: int) -> bool:
    """Lock a grant. Returns False if it does not exist or its user is disabled."""
    named = {"app_id": app_id, "user_id": user_id}
    return await lock_app(tx, app_id) and await tx.fetch_one(_lock_enabled, named) is not None


async def revoke_grant(tx: Transaction, app_id: int, user_id: int) -> bool:
    """Revoke a grant with its tokens, refresh tokens and codes. Returns whether it existed."""
    named = {"app_id": app_id, "user_id": user_id}
    deleted = await tx.execute(_delete, named)
    for statement in _end_open:
        await tx.execute(statement, {**named, "now": now_ms()})
    await revoke_of(tx, app_id=app_id, user_id=user_id)
    await removal.rights_lost(tx, None, user_id=user_id, app_id=app_id)
    return deleted > 0


class Refusal(msgspec.Struct, frozen=True):
    """The reason why no token was issued. Returned, not raised, because the accompanying changes are committed."""

    error: str  # GitHub's code
    description: str
    interval: int | None = None  # in seconds, for `slow_down`


class TokenAnswer(HiddenRepr, msgspec.Struct, omit_defaults=True):
    """A token, or `error`. Clients expect status 200 for both."""

    access_token: str | UnsetType = UNSET
    token_type: Annotated[str | UnsetType, Meta(description="Always `bearer`.")] = UNSET
    scope: Annotated[
        str | UnsetType,
        Meta(description="Scopes, separated by commas; empty for an app, which has permissions instead."),
    ] = UNSET
    expires_in: Annotated[int | UnsetType, Meta(description="Seconds; absent if it does not expire.")] = UNSET
    refresh_token: str | UnsetType = UNSET
    refresh_token_expires_in: Annotated[int | UnsetType, Meta(description="Seconds.")] = UNSET
    error: Annotated[str | UnsetType, Meta(examples=["bad_verification_code"])] = UNSET
    error_description: str | UnsetType = UNSET
    error_uri: Url | UnsetType = UNSET
    interval: Annotated[int | UnsetType, Meta(description="With `slow_down`: seconds between polls.")] = UNSET


APP_USER_TOKEN_S = 8 * 3600
REFRESH_TOKEN_S = 184 * 86400
ALIKE_MAX = 10  # tokens of one app for one user with the same scopes, as on GitHub; then the oldest is revoked

log = structlog.get_logger(__name__)

_have_scopes = (tokens.c.scopes == sa.bindparam("scopes"), tokens.c.revoked_at.is_(None))
_alike = sa.select(tokens.c.id).where(_is(tokens, "app_id"), _is(tokens, "user_id"), *_have_scopes)
_alike = _alike.order_by(tokens.c.id.desc()).offset(ALIKE_MAX)


async def issue_to(
    tx: Transaction, app: App, user_id: int, scopes: frozenset[str], *, family: str, public: bool
) -> TokenAnswer:
    """Issue a token of the app's kind. `public` means that the client did not present a secret."""
    if app.is_oauth:
        issued = await issue(tx, OAUTH, user_id, scopes=scopes, app_id=app.id, family=family)
        await _record(tx, app, user_id, "oauth_token.issue", token_id=issued.id)
        alike = {"app_id": app.id, "user_id": user_id, "scopes": " ".join(sorted(scopes))}
        await revoke(tx, [row["id"] for row in await tx.fetch_all(_alike, alike)])
        return TokenAnswer(issued.token, "bearer", ",".join(sorted(scopes)))
    expires_at = now_ms() + APP_USER_TOKEN_S * 1000
    issued = await issue(tx, APP_USER, user_id, app_id=app.id, family=family, expires_at=expires_at)
    await _record(tx, app, user_id, "oauth_token.issue", token_id=issued.id)
    refresh = new_token(REFRESH_PREFIX)
    owner = {"app_id": app.id, "user_id": user_id, "family": family, "public": public}
    await one_time.store(tx, refresh_tokens, refresh, REFRESH_TOKEN_S * 1000, **owner)
    return TokenAnswer(issued.token, "bearer", "", APP_USER_TOKEN_S, refresh, REFRESH_TOKEN_S)


async def end_stolen(tx: Transaction, app: App, row: Row, secret_name: str) -> None:
    """Revoke every token issued under the same consent, because `secret_name` was used twice."""
    revoked = await revoke_of(tx, family=row["family"])
    if not revoked:
        return  # not recorded, since the app could repeat the request indefinitely
    facts = {"what": secret_name, "app_id": app.id, "user_id": row["user_id"], "revoked": revoked}
    tx.after_commit(lambda: log.warning("oauth_replay", **facts))  # once, even if the transaction is retried
    await _record(tx, app, row["user_id"], "oauth_token.revoke", replay_of=secret_name, tokens=revoked)


async def _record(tx: Transaction, app: App, user_id: int, action: str, **detail: object) -> None:
    await audit.record(tx, None, action, app.slug, account_id=user_id, detail={"client_id": app.client_id, **detail})


async def renew(tx: Transaction, app: App, token: str, *, secret_shown: bool) -> TokenAnswer | Refusal:
    """Exchange a refresh token for a new pair and revoke the old access token (RFC 9700, section 4.14)."""
    bad = Refusal("bad_refresh_token", "The refresh token is unknown, has expired, was already used, or was revoked.")
    known = has_valid_checksum(token, REFRESH_PREFIX)
    row = await one_time.find(tx, refresh_tokens, app.id, token) if known else None
    if row is None or row["expires_at"] <= now_ms():
        return bad
    if not secret_shown and not row["public"]:
        return Refusal("incorrect_client_credentials", "This refresh token requires the client secret.")
    if not await lock_grant(tx, app.id, row["user_id"]):
        return bad
    if not await one_time.use(tx, refresh_tokens, token):
        await end_stolen(tx, app, row, "refresh token")
        return bad
    await revoke_of(tx, family=row["family"])
    return await issue_to(tx, app, row["user_id"], frozenset(), family=row["family"], public=bool(row["public"]))


_app = (apps.c.name.label("app_name"), apps.c.kind.label("app_kind"), accounts.c.login.label("owner"))
_of_user = (
    sa.select(grants.c.id, grants.c.scopes, grants.c.created_at, *_app)
    .join_from(grants, apps, apps.c.id == grants.c.app_id)
    .join(accounts, accounts.c.id == apps.c.account_id)
    .where(grants.c.user_id == bigint_param("user_id"))
    .order_by(sa.func.lower(apps.c.name), grants.c.id)
)
_app_of = sa.select(grants.c.app_id).where(
    grants.c.id == bigint_param("grant_id"), grants.c.user_id == bigint_param("user_id")
)


async def list_grants(reader: Reader, user_id: int) -> list[Row]:
    return list(await reader.fetch_all(_of_user, {"user_id": user_id}))


async def revoke_own_grant(tx: Transaction, user_id: int, grant_id: int) -> int | None:
    """Revoke one of the user's grants with its tokens. Returns the app's ID, or None if the grant does not exist."""
    row = await tx.fetch_one(_app_of, {"grant_id": grant_id, "user_id": user_id})
    if row is None or not await revoke_grant(tx, row["app_id"], user_id):
        return None
    return int(row["app_id"])
