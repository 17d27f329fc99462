"""Creating a webhook while its app's access ends: no orphaned webhook remains."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.harness.concurrent_transactions import Beside
from workhook.core.errors import Unauthenticated
from workhook.hooks.actions import HookWrite, create_hook, update_hook
from workhook.hooks.bodies import parse_hook
from workhook.hooks.schemas import Hook, HookOwner, viewer_of
from workhook.hooks.tables import hooks
from workhook.http.calls import Services
from workhook.identity.apps import actions, app_api, installer
from workhook.identity.apps.app_schemas import AccessTokenBody, AppCreate, OauthAppCreate
from workhook.identity.apps.installer import uninstall
from workhook.identity.apps.schemas import Installation
from workhook.identity.oauth.grants import allow, revoke_grant
from workhook.identity.schemas import Account, Actor
from workhook.identity.tokens.issue import OAUTH, issue
from workhook.identity.tokens.lookup import find_actor
from workhook.storage import Transaction

SCOPES = frozenset({"admin:org_hook"})


async def _create(tx: Transaction, services: Services, actor: Actor, place: Account, number: int) -> Hook:
    body = {"name": "web", "config": {"url": f"http://127.0.0.1:9/{number}"}, "events": ["*"]}
    change = parse_hook(body, "organization", services.check_url, creating=True)
    there = HookOwner(place, viewer=viewer_of(actor))
    return await create_hook(HookWrite(tx, actor, there, services.vault, base="http://h.example"), change)


async def _urls(services: Services, *, active: bool) -> list[str]:
    rows = await services.database.fetch_all(
        sa.select(hooks.c.config).where(hooks.c.active == sa.bindparam("active", type_=sa.Boolean())),
        {"active": active},
    )
    return [row["config"] for row in rows]


async def test_uninstalling_an_app_with_its_webhooks_leaves_none(
    services: Services, beside: Beside, people: tuple[Account, Account]
) -> None:
    place, _ = people
    async with services.database.transaction() as tx:
        app, _, _ = await actions.create_app(
            tx, None, place, AppCreate(name=f"Robot {place.id}", permissions={"organization_hooks": "write"})
        )
        installation = await installer.install(tx, None, app, place)
        made = await app_api.create_access_token(tx, app, installation.id, AccessTokenBody())
        actor = await find_actor(tx, made.issued.token)
    assert actor is not None

    async with services.database.transaction() as tx:
        await _create(tx, services, actor, place, 1)
        leaving = await beside.begin(lambda other: _uninstall(other, installation))
    assert await leaving == [f"/orgs/{place.login}/hooks/1"]
    with pytest.raises(Unauthenticated):  # the guard had admitted the request before
        async with services.database.transaction() as tx:
            await _create(tx, services, actor, place, 2)
    assert await _urls(services, active=True) == []


async def _uninstall(tx: Transaction, installation: Installation) -> list[str]:
    return await uninstall(tx, None, installation, remove_webhooks=True)


async def test_an_app_without_access_cannot_activate_webhooks(
    services: Services, beside: Beside, people: tuple[Account, Account]
) -> None:
    place, user = people
    async with services.database.transaction() as tx:
        app, _, _ = await actions.create_app(
            tx, None, place, OauthAppCreate(name=f"Viewer {place.id}", callback_urls=["https://app.example.com/"])
        )
        await allow(tx, app, user.id, SCOPES)
        issued = await issue(tx, OAUTH, user.id, scopes=SCOPES, app_id=app.id)
        actor = await find_actor(tx, issued.token)
    assert actor is not None

    async with services.database.transaction() as tx:
        hook = await _create(tx, services, actor, place, 1)
        leaving = await beside.begin(lambda other: revoke_grant(other, app.id, user.id))
    assert await leaving
    there, on = HookOwner(place, viewer=viewer_of(actor)), {"active": True}
    change = parse_hook(on, "organization", services.check_url, creating=False)
    with pytest.raises(Unauthenticated):
        async with services.database.transaction() as tx:
            await update_hook(HookWrite(tx, actor, there, services.vault), hook.id, change)
    assert await _urls(services, active=True) == []
    assert len(await _urls(services, active=False)) == 1
