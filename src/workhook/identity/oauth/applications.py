"""Operations of an app on the tokens issued to it.

An app may narrow a user's token to one account, some repositories and some permissions. The narrowed token expires with
the original one and shares its request limit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, Meta, UnsetType

from workhook.core import json
from workhook.core.clock import now_ms, to_seconds_text
from workhook.core.disclosure import HiddenRepr
from workhook.core.errors import Fault, Forbidden, Invalid, NotFound, require_found, shown
from workhook.http.calls import NO_STORE, Call, Response
from workhook.http.endpoints import Routes
from workhook.http.operations import WEBHOOK_API
from workhook.http.wire_types import Time, Url
from workhook.identity import audit
from workhook.identity.apps import app_api, queries
from workhook.identity.apps import app_schemas as s
from workhook.identity.apps.queries import find_installation_on
from workhook.identity.apps.schemas import App, Installation, selection_of
from workhook.identity.authenticator import app_of
from workhook.identity.oauth.grants import APP_USER_TOKEN_S, lock_grant, revoke_grant
from workhook.identity.queries import account_columns, find_account, find_account_by_id
from workhook.identity.schemas import account_of
from workhook.identity.tables import accounts, tokens
from workhook.identity.tokens.issue import APP_USER, OAUTH, digest_of, issue, kind_of, revoke, revoke_with_family
from workhook.identity.tokens.lookup import weaker
from workhook.identity.tokens.personal import lock_living
from workhook.storage import Reader, Row, Transaction
from workhook.storage.metadata import bigint_param

T = TypeVar("T")
_NAMES = (
    "id", "kind", "user_id", "scopes", "permissions", "account_id", "repositories", "parent_id", "root_id", "family",
    "note", "created_at", "expires_at",
)  # fmt: skip
_issued = (
    sa.select(*(tokens.c[name] for name in _NAMES), *account_columns("user_"))
    .join_from(tokens, accounts, accounts.c.id == tokens.c.user_id)
    .where(
        tokens.c.digest == sa.bindparam("digest"),
        tokens.c.app_id == bigint_param("app_id"),
        tokens.c.revoked_at.is_(None),
        sa.or_(tokens.c.expires_at.is_(None), tokens.c.expires_at > bigint_param("now")),
        accounts.c.disabled_at.is_(None),
    )
)


class AuthorizationApp(msgspec.Struct):
    client_id: str
    name: str
    url: Annotated[Url, Meta(description="Homepage of the app, or its page on this server.")]


class ScopedInstallation(msgspec.Struct):
    """The resources that a narrowed token can access, limited to those that the installation still permits."""

    permissions: s.PermissionMap
    repository_selection: s.Selection
    single_file_name: None
    has_multiple_single_files: bool
    single_file_paths: list[str]
    repositories_url: Url
    account: s.OwnerShape


class Authorization(HiddenRepr, msgspec.Struct):
    """A token of the calling app, with its user and permissions."""

    id: int
    url: Url
    app: AuthorizationApp
    token: Annotated[str, Meta(description="The token that was sent, or the new one.")]
    token_last_eight: str
    hashed_token: Annotated[str, Meta(description="SHA-256, hexadecimal.")]
    scopes: list[str]
    note: str | None
    note_url: Annotated[str | None, Meta(description="Always null.")]
    fingerprint: Annotated[str | None, Meta(description="Always null.")]
    created_at: Time
    updated_at: Time
    expires_at: Time | None
    user: s.OwnerShape
    installation: Annotated[
        ScopedInstallation | UnsetType | None,
        Meta(description="For a scoped token: where it acts; null if the app is no longer installed there."),
    ] = UNSET


class TokenReference(HiddenRepr, msgspec.Struct):
    """The token to check, reset or revoke."""

    access_token: Annotated[str, msgspec.Meta(min_length=1)]


routes = Routes(WEBHOOK_API, "OAuth", read="client", write="client")
_ASKED: dict[str, Any] = {"body": TokenReference, "body_required": True, "etag": False}


@routes.post("/applications/{client_id}/token", answers={200: Authorization}, **_ASKED)
async def oauth_token_check(call: Call) -> Response:
    """Check a token of the app."""
    app, token = await _read_token(call)
    row = await _token(call.database, app, token)
    return Response(await authorization(call, app, row, token), headers=NO_STORE)


@routes.patch("/applications/{client_id}/token", answers={200: Authorization}, **_ASKED)
async def oauth_token_reset(call: Call) -> Response:
    """Reset a token of the app."""
    row, token = await _change(call, "oauth_token.reset", _issue_again)
    return Response(await authorization(call, app_of(call), row, token), headers=NO_STORE)


async def _issue_again(tx: Transaction, app: App, row: Row) -> tuple[Row, str]:
    """Issue a token with the same user and scopes. A narrowed token stays narrowed and keeps its expiry."""
    if row["parent_id"] is not None and not await lock_living(tx, row["parent_id"]):
        raise NotFound()
    await revoke(tx, [row["id"]])
    kind = APP_USER if row["kind"] == APP_USER.name else OAUTH
    renewed = kind is APP_USER and row["parent_id"] is None
    issued = await issue(
        tx,
        kind,
        row["user_id"],
        scopes=row["scopes"].split(),
        permissions=None if row["permissions"] is None else json.decode(row["permissions"]),
        account_id=row["account_id"],
        repository_ids=repository_ids_of(row),
        app_id=app.id,
        parent_id=row["parent_id"],
        root_id=row["root_id"],
        family=row["family"],
        expires_at=now_ms() + APP_USER_TOKEN_S * 1000 if renewed else row["expires_at"],
    )
    return await _token(tx, app, issued.token), issued.token


@routes.delete("/applications/{client_id}/token", **_ASKED, action="oauth_token.revoke")
async def oauth_token_delete(call: Call) -> None:
    """Revoke a token of the app."""

    async def end(tx: Transaction, _: App, row: Row) -> int:
        # A narrowed token is revoked alone, any other one with its refresh token.
        return await revoke_with_family(tx, row["id"], row["family"] if row["parent_id"] is None else None)

    await _change(call, "oauth_token.revoke", end)


@routes.delete("/applications/{client_id}/grant", **_ASKED, action="grant.revoke")
async def oauth_grant_delete(call: Call) -> None:
    """Revoke a user's grant."""
    await _change(call, "grant.revoke", lambda tx, app, row: revoke_grant(tx, app.id, row["user_id"]))


async def _change(call: Call, action: str, change: Callable[[Transaction, App, Row], Awaitable[T]]) -> T:
    """Run a change to the token in the body, with its grant locked."""
    app, token = await _read_token(call)

    async def step(tx: Transaction) -> T:
        row = await locked(tx, app, token)
        done = await change(tx, app, row)
        await record(tx, app, row, action)
        return done

    return await call.database.in_transaction(step)


def named_app(call: Call) -> App:
    """Return the calling app. Raises `NotFound` if the path names another one."""
    app = app_of(call)
    if call.path("client_id") != app.client_id:
        raise NotFound()
    return app


async def _read_token(call: Call) -> tuple[App, str]:
    app = named_app(call)
    token = (await call.json_object()).get("access_token")
    if not isinstance(token, str) or not token:
        raise Invalid(faults=[_fault("access_token", "access_token is required", "missing_field")])
    return app, token


async def find_issued(reader: Reader, app_id: int, token: str) -> Row | None:
    """Return the row of a valid token that was issued to the app, with its user (`user_`)."""
    return await reader.fetch_one(_issued, {"digest": digest_of(token), "app_id": app_id, "now": now_ms()})


async def _token(reader: Reader, app: App, token: str) -> Row:
    """Return the row of a token. Raises `NotFound` unless it is valid and was issued to the app for a user."""
    if kind_of(token) not in (OAUTH, APP_USER):
        raise NotFound()
    return require_found(await find_issued(reader, app.id, token))


async def locked(tx: Transaction, app: App, token: str) -> Row:
    """Return the row of a token and lock its grant, so that no other token is issued or revoked meanwhile."""
    row = await _token(tx, app, token)
    await lock_grant(tx, app.id, row["user_id"])
    return await _token(tx, app, token)


async def record(tx: Transaction, app: App, row: Row, action: str, **more: object) -> None:
    detail = {"client_id": app.client_id, "token_id": row["id"], **more}
    await audit.record(tx, None, action, row["user_login"], account_id=row["user_id"], detail=detail)


def repository_ids_of(row: Row) -> list[int] | None:
    return None if row["repositories"] is None else json.decode(row["repositories"])


async def _installation(call: Call, app: App, row: Row) -> ScopedInstallation | UnsetType | None:
    if row["account_id"] is None:
        return UNSET
    found = await find_installation_on(call.database, app.id, row["account_id"])
    if found is None:
        return None
    ids = repository_ids_of(row)
    return ScopedInstallation(
        permissions=s.levels(weaker(json.decode(row["permissions"]), found.permissions)),
        repository_selection=selection_of(found.repository_ids if ids is None else ids),
        single_file_name=None,
        has_multiple_single_files=False,
        single_file_paths=[],
        repositories_url=f"{call.base}/user/installations/{found.id}/repositories",
        account=s.owner_to_response(found.account, call.base),
    )


async def authorization(call: Call, app: App, row: Row, token: str) -> Authorization:
    """Return the token of a row (`find_issued`) as shown to its app."""
    expires_at = row["expires_at"]
    return Authorization(
        id=row["id"],
        url=f"{call.base}/applications/{app.client_id}/token",
        app=AuthorizationApp(app.client_id, app.name, s.homepage_of(app, call.base)),
        token=token,
        token_last_eight=token[-8:],
        hashed_token=digest_of(token).hex(),
        scopes=row["scopes"].split(),
        note=row["note"],
        note_url=None,
        fingerprint=None,
        created_at=to_seconds_text(row["created_at"]),
        updated_at=to_seconds_text(row["created_at"]),
        expires_at=None if expires_at is None else to_seconds_text(expires_at),
        user=s.owner_to_response(account_of(row, "user_"), call.base),
        installation=await _installation(call, app, row),
    )


_RESOURCE = "OauthAccess"


Target = Annotated[str, Meta(min_length=1, max_length=100, description="The login of the organization.")]


class ScopedTokenBody(HiddenRepr, s.AccessTokenBody, kw_only=True):
    """A token of the app, and the limits of the narrower one.

    Without repositories and permissions, the new token has all those of the app's installation on the target.
    """

    access_token: Annotated[str, Meta(min_length=1, description="A user token that has not been scoped before.")]
    target: Target | UnsetType = UNSET
    target_id: Annotated[int, Meta(ge=1, le=2**53 - 1, description="Alternatively, its id.")] | UnsetType = UNSET


@routes.post(
    "/applications/{client_id}/token/scoped",
    body=ScopedTokenBody,
    body_required=True,
    answers={200: Authorization},
    etag=False,
)
async def oauth_token_scope(call: Call) -> Response:
    """Create a scoped access token.

    Creates a narrower token from an app's token for a user. It is limited to one organization on which the app is
    installed, and optionally to some of its repositories and permissions. It expires together with the original token.
    Returns 404 for OAuth apps, which have no such tokens.
    """
    app = named_app(call)
    wanted = app_api.parse_narrowing(await call.json_object(), ScopedTokenBody, _RESOURCE)
    faults = []
    if wanted.target is UNSET and wanted.target_id is UNSET:
        faults.append(_fault("target", "target or target_id is required", "missing_field"))
    if wanted.repositories is not UNSET and wanted.repository_ids is not UNSET:
        faults.append(_fault("repository_ids", "repository_ids and repositories cannot be combined"))
    if faults:
        raise Invalid(faults=faults)
    row, token = await call.database.in_transaction(lambda tx: narrow(tx, app, wanted))
    return Response(await authorization(call, app, row, token), headers=NO_STORE)


async def narrow(tx: Transaction, app: App, wanted: ScopedTokenBody) -> tuple[Row, str]:
    """Create a token with fewer rights from a user's token. Returns its row (`find_issued`) and the token.

    Raises `NotFound` if the user's token is invalid or belongs to another app, `Forbidden` if the installation is
    suspended, and `Invalid` if the request is not valid, for example because it asks for more than may be granted.
    """
    if app.is_oauth:
        raise NotFound()  # its tokens have no installation
    parent = await locked(tx, app, wanted.access_token)
    if parent["parent_id"] is not None:
        raise _invalid("access_token", "access_token must be a token that has not been scoped before")
    if not await lock_living(tx, parent["id"]):  # the user can revoke it without the grant's lock
        raise NotFound()
    user_id = parent["user_id"]
    installation = await _target(tx, app, user_id, wanted)
    permissions, not_granted = app_api.granted_permissions(installation, wanted)
    chosen, not_reached = await app_api.chosen_repositories(tx, installation, wanted, user_id=user_id)
    app_api.refuse_what_is_beyond(not_granted, not_reached)
    ids = None if chosen is None else sorted(each.id for each in chosen)
    issued = await issue(
        tx,
        APP_USER,
        user_id,
        permissions=permissions,
        account_id=installation.account.id,
        repository_ids=ids,
        app_id=app.id,
        parent_id=parent["id"],
        root_id=parent["root_id"] or parent["id"],
        family=parent["family"],
        expires_at=parent["expires_at"],
    )
    details = {"made": issued.id, "organization": installation.account.login, "permissions": permissions}
    await record(tx, app, parent, "oauth_token.scope", **details, repositories="all" if ids is None else ids)
    return require_found(await find_issued(tx, app.id, issued.token)), issued.token  # None: the parent has just expired


async def _target(reader: Reader, app: App, user_id: int, wanted: ScopedTokenBody) -> Installation:
    """Return the installation on the target. Raises the same `Invalid` if it is missing or hidden from the user."""
    account = None
    if wanted.target is not UNSET:
        account = await find_account(reader, wanted.target)
    elif wanted.target_id is not UNSET:
        account = await find_account_by_id(reader, wanted.target_id)
    found = await find_installation_on(reader, app.id, account.id) if account is not None else None
    if found is not None:
        found = await queries.find_of_user(reader, app.id, user_id, found.id)
    if found is None:
        field, value = ("target_id", str(wanted.target_id)) if wanted.target is UNSET else ("target", wanted.target)
        message = f"{shown(value)} is not an organization that the user can access and that has installed the app"
        raise _invalid(field, message)
    if wanted.target_id not in (UNSET, found.account.id):
        raise _invalid("target_id", "target_id does not match target")
    if found.suspended_at is not None:
        raise Forbidden("This installation has been suspended", code="suspended")
    return found


def _fault(field: str, message: str, code: str = "invalid") -> Fault:
    return Fault(field, code, message, resource=_RESOURCE)


def _invalid(field: str, message: str) -> Invalid:
    return Invalid(faults=[_fault(field, message)])
