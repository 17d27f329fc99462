"""An app has a token of a user narrowed: to one account, and to some repositories and permissions there.

Whoever is handed such a token can do no more with it than was asked for, nor for longer than with the one it came of,
and it ends with that one. It shares its request limit.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from workhook.core.errors import Fault, Forbidden, Invalid, NotFound, shown
from workhook.core.secrecy import Secretive
from workhook.http.calls import NOT_KEPT, Answer, Call
from workhook.http.endpoints import Routes
from workhook.http.operations import WEBHOOK_API
from workhook.identity.apps import access_tokens, app_queries
from workhook.identity.apps.app_schemas import AccessTokenBody
from workhook.identity.apps.queries import find_installation_on
from workhook.identity.apps.schemas import App, Installation
from workhook.identity.oauth.applications import authorization, find_issued, locked, named_app, record
from workhook.identity.oauth.schemas import Authorization
from workhook.identity.queries import find_account, find_account_by_id
from workhook.identity.tokens.issue import issue
from workhook.identity.tokens.kinds import APP_USER
from workhook.identity.tokens.queries import keep_living
from workhook.storage import Reader, Row, Transaction

_RESOURCE = "OauthAccess"

routes = Routes(WEBHOOK_API, "OAuth", write="client")


class ScopedTokenBody(Secretive, AccessTokenBody, kw_only=True):
    """Which token of the app, and what it is narrowed to. Without repositories and permissions: all that the app's
    installation on the target has."""

    access_token: Annotated[str, Meta(min_length=1, description="Of a user, and not one that was narrowed.")]
    target: (
        Annotated[str, Meta(min_length=1, max_length=100, description="The login of the organization.")] | UnsetType
    ) = UNSET
    target_id: Annotated[int, Meta(ge=1, le=2**53 - 1, description="Or its number.")] | UnsetType = UNSET


@routes.post(
    "/applications/{client_id}/token/scoped",
    body=ScopedTokenBody,
    body_required=True,
    answers={200: Authorization},
    etag=False,
)
async def oauth_token_scope(call: Call) -> Answer:
    """Narrow a token that an app has of a user.

    To one organization on which the app is installed, and to some repositories and permissions there. The new token
    ends with the old one, and no later. An OAuth app has no such tokens: 404.
    """
    app = named_app(call)
    wanted = access_tokens.parse(await call.json_object(), ScopedTokenBody, _RESOURCE)
    _refuse_contradictions(wanted)
    row, token = await call.database.in_transaction(lambda tx: narrow(tx, app, wanted))
    return Answer(await authorization(call, app, row, token), headers=NOT_KEPT)


def _refuse_contradictions(wanted: ScopedTokenBody) -> None:
    faults = []
    if wanted.target is UNSET and wanted.target_id is UNSET:
        faults.append(_fault("target", "target or target_id is required", "missing_field"))
    if wanted.repositories is not UNSET and wanted.repository_ids is not UNSET:
        faults.append(_fault("repository_ids", "repository_ids cannot be given together with repositories"))
    if faults:
        raise Invalid(faults=faults)


async def narrow(tx: Transaction, app: App, wanted: ScopedTokenBody) -> tuple[Row, str]:
    """The new token, with its row (`find_issued`). Raises `NotFound` for a token that is not good or not the app's,
    `Forbidden` where the installation is suspended, `Invalid`."""
    if app.is_oauth:
        raise NotFound()  # its tokens have scopes, and no installation
    parent = await locked(tx, app, wanted.access_token)
    if parent["parent_id"] is not None:
        raise _invalid("access_token", "access_token must be a token that was not narrowed before")
    if not await keep_living(tx, parent["id"]):  # its user ends it without the lock that its app takes
        raise NotFound()
    user_id = parent["user_id"]
    installation = await _target(tx, app, user_id, wanted)
    permissions, not_granted = access_tokens.granted(installation, wanted)
    chosen, not_reached = await access_tokens.chosen_of(tx, installation, wanted, user_id=user_id)
    access_tokens.refuse_what_is_beyond(not_granted, not_reached)
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
    told = {"permissions": permissions, "repositories": "all" if ids is None else ids}
    await record(tx, app, parent, "oauth_token.scope", made=issued.id, organization=installation.account.login, **told)
    row = await find_issued(tx, app.id, issued.token)
    if row is None:
        raise NotFound()  # the parent has just come to its end
    return row, issued.token


async def _target(reader: Reader, app: App, user_id: int, wanted: ScopedTokenBody) -> Installation:
    """Raises `Invalid` where the app is not installed, or the user has no part: the two look the same."""
    account = None
    if wanted.target is not UNSET:
        account = await find_account(reader, wanted.target)
    elif wanted.target_id is not UNSET:
        account = await find_account_by_id(reader, wanted.target_id)
    found = await find_installation_on(reader, app.id, account.id) if account is not None else None
    if found is not None:
        found = await app_queries.find_of_user(reader, app.id, user_id, found.id)
    if found is None:
        field, value = ("target_id", str(wanted.target_id)) if wanted.target is UNSET else ("target", wanted.target)
        message = f"{shown(value)} is no organization on which the app is installed and in which the user has a part"
        raise _invalid(field, message)
    if wanted.target_id not in (UNSET, found.account.id):
        raise _invalid("target_id", "target_id is not the number of target")
    if found.suspended_at is not None:
        raise Forbidden("This installation has been suspended", code="suspended")
    return found


def _fault(field: str, message: str, code: str = "invalid") -> Fault:
    return Fault(field, code, message, resource=_RESOURCE)


def _invalid(field: str, message: str) -> Invalid:
    return Invalid(faults=[_fault(field, message)])
