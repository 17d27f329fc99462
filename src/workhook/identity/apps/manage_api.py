"""How owners of an organization manage its OAuth apps and apps: their registration, secrets, keys and tokens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from msgspec import UNSET

from workhook.core.errors import Fault, Invalid, NotFound
from workhook.http.calls import NOT_KEPT, Call
from workhook.http.endpoints import Created, Every, Paged, Retry, Routes
from workhook.http.operations import WEBHOOK_API
from workhook.identity.apps import actions, queries
from workhook.identity.apps import manage_schemas as s
from workhook.identity.apps.credentials import NewKey, new_key, own_key
from workhook.identity.apps.schemas import App, AppKey, AppSecret
from workhook.identity.authenticator import actor_of, named_organization
from workhook.identity.context import Write
from workhook.identity.schemas import shape_of
from workhook.storage import Reader, Transaction
from workhook.storage.database import UniqueViolation
from workhook.storage.pages import Page

R = TypeVar("R")
H = TypeVar("H", AppSecret, AppKey)

TAG, OWNERS = "app management", "organization.admin"
oauth_apps = Routes(WEBHOOK_API, TAG, read=OWNERS, write=OWNERS, resource="OauthApp")
apps = Routes(WEBHOOK_API, TAG, read=OWNERS, write=OWNERS, resource="App")
both = Every(
    (oauth_apps, "/orgs/{org}/oauth-apps/{client_id}", "oauth_apps", "OAuth app"),
    (apps, "/orgs/{org}/apps/{slug}", "apps", "app"),
)


async def change(call: Call, step: Callable[[Transaction], Awaitable[R]]) -> R:
    """`step` in a transaction. If somebody else does the same at the same time it runs again, and now sees that."""
    try:
        return await call.database.in_transaction(step)
    except UniqueViolation:
        return await call.database.in_transaction(step)


async def find_named_app(call: Call, reader: Reader) -> App:
    """The OAuth app or app of the path. Raises `NotFound`, also for one of another organization."""
    if "client_id" in call.request.path_params:
        app = await queries.find_client(reader, call.path("client_id"))
        oauth = True
    else:
        app = await queries.find_slug(reader, call.path("slug"))
        oauth = False
    if app is None or app.is_oauth != oauth:
        raise NotFound()
    if app.account_id != named_organization(call).account.id:
        call.record.touches(app.account_id, hidden=True)
        raise NotFound()
    return app


async def _with_secrets(call: Call, reader: Reader, app: App) -> s.OauthAppShape:
    shape = s.app_shape(app, named_organization(call).account, call.base)
    shape.secrets = [shape_of(s.SecretShape, each) for each in await queries.list_secrets(reader, app.id)]
    return shape


async def _with_keys(call: Call, reader: Reader, app: App) -> s.AppShape:
    shape = await _with_secrets(call, reader, app)
    assert isinstance(shape, s.AppShape), "an app is no OAuth app"
    shape.keys = [shape_of(s.KeyShape, each) for each in await queries.list_keys(reader, app.id)]
    return shape


def _with_id(found: Sequence[H], number: int) -> H:
    for each in found:
        if each.id == number:
            return each
    raise NotFound()


def _own_key(public_key: str) -> NewKey:
    try:
        return own_key(public_key)
    except ValueError as error:
        message = f"public_key must be {error}"
        raise Invalid(faults=[Fault("public_key", "custom", message, resource="App")]) from None


def _listed(call: Call, found: tuple[list[App], int]) -> Paged[list[Any]]:
    organization = named_organization(call).account
    return Paged([s.app_shape(each, organization, call.base) for each in found[0]], found[1])


@oauth_apps.get("/orgs/{org}/oauth-apps")
async def oauth_apps_list(call: Call, page: Page) -> Paged[list[s.OauthAppShape]]:
    """List the OAuth apps of the organization."""
    place = named_organization(call).account
    return _listed(call, await queries.list_apps(call.database, place.id, "oauth", page))


@apps.get("/orgs/{org}/apps")
async def apps_list(call: Call, page: Page) -> Paged[list[s.AppShape]]:
    """List the apps of the organization."""
    return _listed(call, await queries.list_apps(call.database, named_organization(call).account.id, "app", page))


@oauth_apps.post("/orgs/{org}/oauth-apps", retry=Retry(UniqueViolation))
async def oauth_apps_create(write: Write, create: s.OauthAppCreate) -> Created[s.OauthAppShape]:
    """Register an OAuth app."""
    organization = named_organization(write.call).account
    app, secret = await actions.create_oauth_app(write.tx, write.actor, organization, create)
    shape = await _with_secrets(write.call, write.tx, app)
    shape.client_secret = secret
    return Created(shape, shape.url, NOT_KEPT)


@apps.post("/orgs/{org}/apps")
async def apps_create(call: Call, create: s.AppCreate) -> Created[s.AppShape]:
    """Register an app."""
    shape = await change(call, await creation(call, create))
    return Created(shape, shape.url, NOT_KEPT)


async def creation(call: Call, create: s.AppCreate) -> Callable[[Transaction], Awaitable[s.AppShape]]:
    """Make the key of an app, which takes a while. Answers what registers the app in a transaction."""
    key = await new_key() if create.public_key is None else _own_key(create.public_key)
    organization = named_organization(call).account

    async def step(tx: Transaction) -> s.AppShape:
        app, secret, pem = await actions.create_app(tx, actor_of(call), organization, create, key=key)
        shape = await _with_keys(call, tx, app)
        shape.client_secret, shape.pem = secret, pem or UNSET
        return shape

    return step


@oauth_apps.get("/orgs/{org}/oauth-apps/{client_id}")
async def oauth_apps_get(call: Call) -> s.OauthAppShape:
    """Get an OAuth app."""
    return await _with_secrets(call, call.database, await find_named_app(call, call.database))


@apps.get("/orgs/{org}/apps/{slug}")
async def apps_get(call: Call) -> s.AppShape:
    """Get an app."""
    return await _with_keys(call, call.database, await find_named_app(call, call.database))


async def _edited(write: Write, edit: s.OauthAppEdit) -> App:
    return await actions.edit_app(write.tx, write.actor, await find_named_app(write.call, write.tx), edit)


@oauth_apps.patch("/orgs/{org}/oauth-apps/{client_id}", retry=Retry(UniqueViolation))
async def oauth_apps_update(write: Write, edit: s.OauthAppEdit) -> s.OauthAppShape:
    """Change an OAuth app."""
    return await _with_secrets(write.call, write.tx, await _edited(write, edit))


@apps.patch("/orgs/{org}/apps/{slug}", retry=Retry(UniqueViolation))
async def apps_update(write: Write, edit: s.AppEdit) -> s.AppShape:
    """Change an app."""
    return await _with_keys(write.call, write.tx, await _edited(write, edit))


@oauth_apps.delete(
    "/orgs/{org}/oauth-apps/{client_id}",
    name="oauth_apps_delete",
    summary="Delete an OAuth app",
    description="Its tokens, the consents of its users, and the webhooks that it alone sees are deleted, too.",
)
@apps.delete("/orgs/{org}/apps/{slug}")
async def apps_delete(write: Write) -> None:
    """Delete an app.

    Its installations, its tokens and the consents of its users are deleted, too.
    """
    await actions.delete_app(write.tx, write.actor, await find_named_app(write.call, write.tx))


@both.post("/secrets", problems=(422,))
async def create_secret(write: Write) -> Created[s.SecretShape]:
    """Make another client secret.

    An app has at most two, so that you can rotate them without a gap.
    """
    app = await find_named_app(write.call, write.tx)
    made, secret = await actions.add_secret(write.tx, write.actor, app)
    shape = shape_of(s.SecretShape, made)
    shape.client_secret = secret
    return Created(shape, f"{_url(write.call, app)}/secrets/{made.id}", NOT_KEPT)


@both.get("/secrets/{secret_id}")
async def get_secret(call: Call, secret_id: int) -> s.SecretShape:
    """Get the facts about a client secret, without the secret."""
    app = await find_named_app(call, call.database)
    return shape_of(s.SecretShape, _with_id(await queries.list_secrets(call.database, app.id), secret_id))


@both.delete("/secrets/{secret_id}")
async def delete_secret(write: Write, secret_id: int) -> None:
    """Delete a client secret."""
    await actions.remove_secret(write.tx, write.actor, await find_named_app(write.call, write.tx), secret_id)


@both.delete("/tokens")
async def revoke_tokens(write: Write) -> None:
    """Revoke every token of an {called}.

    Users have to authorise it again.
    """
    await actions.revoke_tokens(write.tx, write.actor, await find_named_app(write.call, write.tx))


@apps.get("/orgs/{org}/apps/{slug}/keys")
async def apps_list_keys(call: Call) -> list[s.KeyShape]:
    """List the keys of an app."""
    app = await find_named_app(call, call.database)
    return [shape_of(s.KeyShape, each) for each in await queries.list_keys(call.database, app.id)]


@apps.post("/orgs/{org}/apps/{slug}/keys")
async def apps_create_key(call: Call, create: s.KeyCreate) -> Created[s.KeyShape]:
    """Add a key to an app."""
    app = await find_named_app(call, call.database)  # before the work of making a key
    shape = await call.database.in_transaction(await key_creation(call, app, create))
    return Created(shape, f"{_url(call, app)}/keys/{shape.id}", NOT_KEPT)


async def key_creation(call: Call, app: App, create: s.KeyCreate) -> Callable[[Transaction], Awaitable[s.KeyShape]]:
    """Make a key, which takes a while. Answers what adds it to the app in a transaction."""
    key = await new_key() if create.public_key is None else _own_key(create.public_key)

    async def step(tx: Transaction) -> s.KeyShape:
        shape = shape_of(s.KeyShape, await actions.add_key(tx, actor_of(call), app, key))
        shape.pem = key.private_key or UNSET
        return shape

    return step


@apps.get("/orgs/{org}/apps/{slug}/keys/{key_id}")
async def apps_get_key(call: Call, key_id: int) -> s.KeyShape:
    """Get a key of an app."""
    app = await find_named_app(call, call.database)
    return shape_of(s.KeyShape, _with_id(await queries.list_keys(call.database, app.id), key_id))


@apps.delete("/orgs/{org}/apps/{slug}/keys/{key_id}", problems=(422,))
async def apps_delete_key(write: Write, key_id: int) -> None:
    """Delete a key of an app.

    The last key cannot be deleted: an app calls with a key.
    """
    await actions.remove_key(write.tx, write.actor, await find_named_app(write.call, write.tx), key_id)


def _url(call: Call, app: App) -> str:
    return f"{call.base}{s.app_path(app, named_organization(call).account)}"
