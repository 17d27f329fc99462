"""How owners of an organization manage its OAuth apps and apps: their registration, secrets, keys and tokens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET

from workhook.core.errors import Fault, Invalid, NotFound
from workhook.http import parameters
from workhook.http.calls import NOT_KEPT, Answer, Call, concerns
from workhook.http.operations import Handler
from workhook.http.paging import page_link, page_of
from workhook.identity.apps import actions, queries
from workhook.identity.apps import manage_schemas as s
from workhook.identity.apps.keys import NewKey, new_key, own_key
from workhook.identity.apps.schemas import App, AppChange, Secret
from workhook.identity.guard import actor_of, caller_of
from workhook.identity.schemas import Account
from workhook.storage import Reader, Transaction
from workhook.storage.database import UniqueViolation

T = TypeVar("T", bound=msgspec.Struct)
R = TypeVar("R")

_RESOURCES = {"oauth": "OauthApp", "app": "App"}


def organization_of(call: Call) -> Account:
    """That the path names; the guard has found it, and that the caller owns it."""
    organization = caller_of(call).organization
    assert organization is not None, "the operation's rule names an organization"
    return organization.account


async def read_body(call: Call, shape: type[T], resource: str) -> T:
    """The JSON body. Raises `Invalid` with every fault, in the shape of the webhook API."""
    return parameters.gather(shape, {}, await call.json_object(), resource=resource)


async def change(call: Call, step: Callable[[Transaction], Awaitable[R]]) -> R:
    """`step` in a transaction. If somebody else does the same at the same time it runs again, and now sees that."""
    try:
        return await call.database.in_transaction(step)
    except UniqueViolation:
        return await call.database.in_transaction(step)


async def _app_of(call: Call, reader: Reader) -> App:
    """Raises `NotFound` for one of another organization."""
    if "client_id" in call.request.path_params:
        app = await queries.find_client(reader, call.path("client_id"))
        oauth = True
    else:
        app = await queries.find_slug(reader, call.path("slug"))
        oauth = False
    if app is None or app.is_oauth != oauth:
        raise NotFound()
    if app.account_id != organization_of(call).id:
        concerns(app.account_id, hidden=True)
        raise NotFound()
    return app


async def _shape(call: Call, reader: Reader, app: App) -> s.OauthAppShape:
    """With its secrets and keys, as far as they are known."""
    shape = s.app_shape(app, organization_of(call), call.base)
    shape.secrets = [s.secret_shape(each) for each in await queries.list_secrets(reader, app.id)]
    if isinstance(shape, s.AppShape):
        shape.keys = [s.key_shape(each) for each in await queries.list_keys(reader, app.id)]
    return shape


def _own_key(public_key: str) -> NewKey:
    try:
        return own_key(public_key)
    except ValueError as error:
        message = f"public_key must be {error}"
        raise Invalid(faults=[Fault("public_key", "custom", message, resource="App")]) from None


def lister(kind: str) -> Handler:
    async def list_apps(call: Call) -> Answer:
        organization = organization_of(call)
        page, per_page = page_of(call)
        offset = (page - 1) * per_page
        found, total = await queries.list_apps(call.database, organization.id, kind, limit=per_page, offset=offset)
        shapes = [s.app_shape(each, organization, call.base) for each in found]
        return Answer(shapes, headers=page_link(call, page=page, per_page=per_page, total=total))

    return list_apps


async def create_oauth_app(call: Call) -> Answer:
    body = await read_body(call, s.OauthAppCreate, "OauthApp")

    async def step(tx: Transaction) -> s.OauthAppShape:
        app, secret = await actions.create_oauth_app(
            tx, actor_of(call), organization_of(call), **msgspec.structs.asdict(body)
        )
        shape = await _shape(call, tx, app)
        shape.client_secret = secret
        return shape

    shape = await change(call, step)
    return Answer(shape, status=201, headers={"Location": shape.url, **NOT_KEPT})


async def create_app(call: Call) -> Answer:
    given: dict[str, Any] = msgspec.structs.asdict(await read_body(call, s.AppCreate, "App"))
    public_key = given.pop("public_key")
    key = await new_key() if public_key is None else _own_key(public_key)

    async def step(tx: Transaction) -> s.OauthAppShape:
        app, secret, pem = await actions.create_app(tx, actor_of(call), organization_of(call), key=key, **given)
        shape = await _shape(call, tx, app)
        assert isinstance(shape, s.AppShape)
        shape.client_secret, shape.pem = secret, pem or UNSET
        return shape

    shape = await change(call, step)
    return Answer(shape, status=201, headers={"Location": shape.url, **NOT_KEPT})


async def get_app(call: Call) -> Answer:
    return Answer(await _shape(call, call.database, await _app_of(call, call.database)))


def editor(kind: str) -> Handler:
    body: type[s.OauthAppEdit] = s.OauthAppEdit if kind == "oauth" else s.AppEdit

    async def edit_app(call: Call) -> Answer:
        given = msgspec.structs.asdict(await read_body(call, body, _RESOURCES[kind]))
        if given["callback_urls"] is not UNSET:
            given["callback_urls"] = tuple(given["callback_urls"])

        async def step(tx: Transaction) -> Answer:
            app = await actions.edit_app(tx, actor_of(call), await _app_of(call, tx), AppChange(**given))
            return Answer(await _shape(call, tx, app))

        return await change(call, step)

    return edit_app


async def delete_app(call: Call) -> Answer:
    async def step(tx: Transaction) -> None:
        await actions.delete_app(tx, actor_of(call), await _app_of(call, tx))

    await call.database.in_transaction(step)
    return Answer(status=204)


async def create_secret(call: Call) -> Answer:
    async def step(tx: Transaction) -> tuple[App, Secret, str]:
        app = await _app_of(call, tx)
        return app, *await actions.add_secret(tx, actor_of(call), app)

    app, made, secret = await call.database.in_transaction(step)
    shape = s.secret_shape(made)
    shape.client_secret = secret
    location = f"{call.base}{s.app_path(app, organization_of(call))}/secrets/{made.id}"
    return Answer(shape, status=201, headers={"Location": location, **NOT_KEPT})


async def get_secret(call: Call) -> Answer:
    app, secret_id = await _app_of(call, call.database), call.path_integer("secret_id")
    for each in await queries.list_secrets(call.database, app.id):
        if each.id == secret_id:
            return Answer(s.secret_shape(each))
    raise NotFound()


async def delete_secret(call: Call) -> Answer:
    async def step(tx: Transaction) -> None:
        await actions.remove_secret(tx, actor_of(call), await _app_of(call, tx), call.path_integer("secret_id"))

    await call.database.in_transaction(step)
    return Answer(status=204)


async def list_keys(call: Call) -> Answer:
    app = await _app_of(call, call.database)
    return Answer([s.key_shape(each) for each in await queries.list_keys(call.database, app.id)])


async def create_key(call: Call) -> Answer:
    body = await read_body(call, s.KeyCreate, "App")
    app = await _app_of(call, call.database)  # before the work of making a key
    key = await new_key() if body.public_key is None else _own_key(body.public_key)
    made = await call.database.in_transaction(lambda tx: actions.add_key(tx, actor_of(call), app, key))
    shape = s.key_shape(made)
    shape.pem = key.private_key or UNSET
    location = f"{call.base}{s.app_path(app, organization_of(call))}/keys/{made.id}"
    return Answer(shape, status=201, headers={"Location": location, **NOT_KEPT})


async def get_key(call: Call) -> Answer:
    app, key_id = await _app_of(call, call.database), call.path_integer("key_id")
    for each in await queries.list_keys(call.database, app.id):
        if each.id == key_id:
            return Answer(s.key_shape(each))
    raise NotFound()


async def delete_key(call: Call) -> Answer:
    async def step(tx: Transaction) -> None:
        await actions.remove_key(tx, actor_of(call), await _app_of(call, tx), call.path_integer("key_id"))

    await call.database.in_transaction(step)
    return Answer(status=204)


async def revoke_tokens(call: Call) -> Answer:
    async def step(tx: Transaction) -> None:
        await actions.revoke_tokens(tx, actor_of(call), await _app_of(call, tx))

    await call.database.in_transaction(step)
    return Answer(status=204)
