"""Write operations on OAuth apps and apps. Callers check the rights.

If a concurrent change takes the same name or installs the same app, retry after `UniqueViolation` for the proper error.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec import UNSET

from workhook.core import json
from workhook.core.clock import now_ms
from workhook.core.errors import Fault, Invalid, NotFound, must_be, require_found, say
from workhook.http.calls import Call
from workhook.identity import audit, removal
from workhook.identity import queries as account_queries
from workhook.identity.apps import queries, schemas
from workhook.identity.apps.app_schemas import AppCreate, OauthAppCreate, OauthAppEdit
from workhook.identity.apps.credentials import NewKey, new_client_id, new_key, own_key
from workhook.identity.apps.installer import reduce_permissions, uninstall
from workhook.identity.apps.schemas import App, AppKey, AppSecret, Installation
from workhook.identity.authenticator import named_organization
from workhook.identity.schemas import Account, Actor
from workhook.identity.tables import (
    accounts,
    app_keys,
    app_secrets,
    apps,
    authorization_codes,
    device_codes,
    grants,
    memberships,
    refresh_tokens,
)
from workhook.identity.tokens.issue import digest_of, forget_after_commit, revoke_of
from workhook.storage import Reader, Transaction
from workhook.storage.metadata import bigint_param
from workhook.storage.record_rows import assigned

SECRETS_MAX = 2  # for a rotation without a gap
KEYS_MAX = 10

_COLUMNS = tuple(name for name in queries.APP_COLUMNS if name != "id")
_EDITABLE = tuple(name for name in _COLUMNS if name not in ("kind", "account_id", "client_id", "bot_id", "created_at"))
_update = sa.update(apps).where(apps.c.id == bigint_param("app_id")).values(assigned(_EDITABLE))
_delete = sa.delete(apps).where(apps.c.id == bigint_param("app_id"))
_rename_bot = sa.update(accounts).where(accounts.c.id == bigint_param("bot_id"))
_rename_bot = _rename_bot.values(assigned(("login", "login_key", "name", "updated_at")))
_leave_all = sa.delete(memberships).where(memberships.c.user_id == bigint_param("bot_id"))
_delete_secret = sa.delete(app_secrets).where(app_secrets.c.id == bigint_param("id"))
_delete_key = sa.delete(app_keys).where(app_keys.c.id == bigint_param("id"))
# Rows that could become a token, in locking order.
_forget = [
    sa.delete(table).where(table.c.app_id == bigint_param("app_id"))
    for table in (grants, authorization_codes, device_codes, refresh_tokens)
]


async def create_app(
    tx: Transaction, actor: Actor | None, organization: Account, create: OauthAppCreate, *, key: NewKey | None = None
) -> tuple[App, str, str]:
    """Create an app. Returns it with its client secret and its private key (PEM, or empty). Raises `Invalid`."""
    now, kind = now_ms(), "app" if isinstance(create, AppCreate) else "oauth"
    fields: dict[str, Any] = {"public": False, "permissions": {}, **msgspec.structs.asdict(create)}
    fields.pop("public_key", None)
    fields |= {"slug": schemas.slug_of(create.name), "callback_urls": tuple(dict.fromkeys(create.callback_urls))}
    fields |= {"account_id": organization.id, "client_id": new_client_id(kind), "created_at": now, "updated_at": now}
    app = App(id=0, kind=kind, bot_id=None, **fields)
    await _check(tx, app)
    if not app.is_oauth:
        bot = {**_bot_values(app), "kind": "bot", "created_at": app.created_at}
        app = msgspec.structs.replace(app, bot_id=await tx.insert(accounts, bot))
    app = msgspec.structs.replace(app, id=await tx.insert(apps, _stored(app, _COLUMNS)))
    await _audit(tx, actor, app, "create", **_settings(app))
    _, secret = await _insert_new_secret(tx, app)
    if app.is_oauth:
        return app, secret, ""
    key = key or await new_key()
    await _insert_new_key(tx, app, key)
    return app, secret, key.private_key or ""


async def edit_app(tx: Transaction, actor: Actor | None, app: App, change: OauthAppEdit) -> App:
    """Edit an app. Raises `Invalid` and `NotFound`.

    A new name also changes the slug and the bot's login. Additional permissions take effect once an owner accepts them,
    while permissions that are dropped are lost immediately.
    """
    old = await _lock(tx, app)
    values: dict[str, Any] = {k: v for k, v in msgspec.structs.asdict(change).items() if v is not UNSET}
    if "name" in values:
        values["slug"] = schemas.slug_of(values["name"])
    if "callback_urls" in values:
        values["callback_urls"] = tuple(dict.fromkeys(values["callback_urls"]))
    new = msgspec.structs.replace(old, **values)
    await _check(tx, new)
    if old.public and not new.public:
        installed = (await queries.list_installations_of(tx, app.id))[0]
        if any(each.account.id != app.account_id for each in installed):
            raise _refused(new, "public", "other organizations have installed the app, so it cannot become private")
    if new == old:
        return old
    new = msgspec.structs.replace(new, updated_at=now_ms())
    await tx.execute(_update, {**_stored(new, _EDITABLE), "app_id": new.id})
    if new.bot_id is not None and new.name != old.name:
        await tx.execute(_rename_bot, {**_bot_values(new), "bot_id": new.bot_id})
    await _audit(tx, actor, new, "update", **_settings(new))
    if new.permissions != old.permissions:
        await reduce_permissions(tx, actor, new)
    forget_after_commit(tx)
    return new


async def delete_app(tx: Transaction, actor: Actor | None, app: App) -> None:
    """Delete an app and all its data. Its bot is kept as an author, under a login that no app can have."""
    app = await _lock(tx, app)
    await _forget_consents(tx, app)
    for installation in (await queries.list_installations_of(tx, app.id))[0]:
        await uninstall(tx, actor, installation)
    await revoke_of(tx, app_id=app.id)
    for forget in removal.apps:
        await forget(tx, app.id)
    await tx.execute(_delete, {"app_id": app.id})
    if app.bot_id is not None:
        await tx.execute(_leave_all, {"bot_id": app.bot_id})
        gone = msgspec.structs.replace(app, slug=f"{app.slug}.{app.bot_id}", updated_at=now_ms())
        await tx.execute(_rename_bot, {**_bot_values(gone), "bot_id": app.bot_id})
    await _audit(tx, actor, app, "delete")
    forget_after_commit(tx)


async def revoke_tokens(tx: Transaction, actor: Actor | None, app: App) -> int:
    """Revoke the app's tokens, and delete everything that could become one. Returns how many tokens were valid."""
    app = await _lock(tx, app)  # issuing a token takes the same lock, so none is missed
    await _forget_consents(tx, app)
    count = await revoke_of(tx, app_id=app.id)
    await removal.rights_lost(tx, None, app_id=app.id, actor=actor)
    await _audit(tx, actor, app, "revoke_tokens", tokens=count)
    return count


async def _forget_consents(tx: Transaction, app: App) -> None:
    for statement in _forget:
        await tx.execute(statement, {"app_id": app.id})


async def add_secret(tx: Transaction, actor: Actor | None, app: App) -> tuple[AppSecret, str]:
    """Add a secret. Returns its record and the secret, shown only once. Raises `Invalid` beyond the maximum."""
    app = await _lock(tx, app)
    if len(await queries.list_secrets(tx, app.id)) >= SECRETS_MAX:
        message = say("an app can have at most {} secrets; delete an unused one first", SECRETS_MAX)
        raise _refused(app, "secrets", message)
    made, secret = await _insert_new_secret(tx, app)
    await _audit(tx, actor, app, "create_secret", secret_id=made.id)
    return made, secret


async def remove_secret(tx: Transaction, actor: Actor | None, app: App, secret_id: int) -> None:
    """Delete a secret. An app without a secret cannot authenticate as a client. Raises `NotFound`."""
    app = await _lock(tx, app)
    if secret_id not in [each.id for each in await queries.list_secrets(tx, app.id)]:
        raise NotFound()
    await tx.execute(_delete_secret, {"id": secret_id})
    await _audit(tx, actor, app, "delete_secret", secret_id=secret_id)


async def add_key(tx: Transaction, actor: Actor | None, app: App, key: NewKey) -> AppKey:
    """Add a key. Raises `Invalid` if the app already has it, or beyond `KEYS_MAX`."""
    app = await _lock(tx, app)
    known = await queries.list_keys(tx, app.id)
    if any(each.fingerprint == key.fingerprint for each in known):
        raise _refused(app, "public_key", "the app already has this key", "already_exists")
    if len(known) >= KEYS_MAX:
        message = say("an app can have at most {} keys; delete an unused one first", KEYS_MAX)
        raise _refused(app, "keys", message)
    made = await _insert_new_key(tx, app, key)
    await _audit(tx, actor, app, "create_key", key_id=made.id, fingerprint=key.fingerprint)
    return made


async def remove_key(tx: Transaction, actor: Actor | None, app: App, key_id: int) -> None:
    """Delete a key. Raises `NotFound`, or `Invalid` if it is the only key: the app could no longer authenticate."""
    app = await _lock(tx, app)
    known = {each.id: each for each in await queries.list_keys(tx, app.id)}
    if key_id not in known:
        raise NotFound()
    if len(known) == 1:
        raise _refused(app, "keys", "this is the app's last key: add another one first")
    await tx.execute(_delete_key, {"id": key_id})
    await _audit(tx, actor, app, "delete_key", key_id=key_id, fingerprint=known[key_id].fingerprint)


async def _lock(tx: Transaction, app: App) -> App:
    return require_found(await queries.find_app(tx, app.id, for_update=True))


async def _check(tx: Transaction, app: App) -> None:
    faults = [
        *schemas.name_faults(app.name),
        *schemas.description_faults(app.description),
        *schemas.homepage_faults(app.homepage_url),
        *schemas.callback_faults(app.callback_urls, required=app.is_oauth and not app.device_flow),
        *schemas.permission_faults(app.permissions),
    ]
    other = await queries.find_slug(tx, app.slug)
    if other is not None and other.id != app.id:
        faults.append(Fault("name", "already_exists", say("an app named {} already exists", app.slug)))
    if faults:
        raise _invalid(app, faults)


def _invalid(app: App, faults: list[Fault]) -> Invalid:
    return Invalid(faults=[Fault(each.field, each.code, each.message, resource=app.resource) for each in faults])


def _refused(app: App, field: str, message: str, code: str = "custom") -> Invalid:
    return _invalid(app, [Fault(field, code, message)])


def _stored(app: App, columns: Sequence[str]) -> dict[str, Any]:
    values = {name: getattr(app, name) for name in columns}
    values["callback_urls"] = json.encode_text(list(app.callback_urls))
    values["permissions"] = json.encode_text(dict(app.permissions))
    return values


def _bot_values(app: App) -> dict[str, Any]:
    login = app.slug + schemas.BOT_SUFFIX
    key = account_queries.key_of(login)
    return {"login": login, "login_key": key, "name": app.name, "updated_at": app.updated_at}


async def _insert_new_secret(tx: Transaction, app: App) -> tuple[AppSecret, str]:
    secret, now = secrets.token_hex(20), now_ms()
    values = {"app_id": app.id, "digest": digest_of(secret), "last_eight": secret[-8:], "created_at": now}
    return AppSecret(await tx.insert(app_secrets, values), secret[-8:], now, None), secret


async def _insert_new_key(tx: Transaction, app: App, key: NewKey) -> AppKey:
    now = now_ms()
    values = {"app_id": app.id, "public_key": key.public_key, "fingerprint": key.fingerprint, "created_at": now}
    return AppKey(await tx.insert(app_keys, values), key.public_key, key.fingerprint, now)


def _settings(app: App) -> dict[str, object]:
    names = ("name", "callback_urls", "device_flow", "public", "permissions")
    return {name: getattr(app, name) for name in names}


async def _audit(tx: Transaction, actor: Actor | None, app: App, action: str, **detail: object) -> None:
    group = "oauth_app" if app.is_oauth else "app"
    detail = {"client_id": app.client_id, **detail}
    await audit.record(tx, actor, f"{group}.{action}", app.slug, account_id=app.account_id, detail=detail)


async def find_named_app(call: Call, reader: Reader) -> App:
    """Return the app in the path. Raises `NotFound` if it does not exist or belongs to another organization."""
    oauth = "client_id" in call.request.path_params
    find, name = (queries.find_client, "client_id") if oauth else (queries.find_slug, "slug")
    app = await find(reader, call.path(name))
    if app is None or app.is_oauth != oauth:
        raise NotFound()
    if app.account_id != named_organization(call).account.id:
        call.record.set_subject(app.account_id, hidden=True)
        raise NotFound()
    return app


async def create_key(public_key: str | None) -> NewKey:
    """Create a key, which takes a while, or use the caller's own. Raises `Invalid`."""
    if public_key is None:
        return await new_key()
    try:
        return own_key(public_key)
    except ValueError as error:
        message = must_be("public_key", error)
        raise Invalid(faults=[Fault("public_key", "custom", message, resource="App")]) from None


async def find_named_installation(call: Call, reader: Reader, number: int) -> Installation:
    """Return an installation. Raises `NotFound` if it does not exist or is on another organization."""
    found = require_found(await queries.find_installation(reader, number))
    if found.account.id != named_organization(call).account.id:
        call.record.set_subject(found.account.id, hidden=True)
        raise NotFound()
    return found
