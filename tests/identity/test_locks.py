"""Issuing a token while it is being revoked: no token escapes a revocation, and no caller gets a database error.

See docs/contributors/decisions/0025-one-actor.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import sqlalchemy as sa

from tests.harness.concurrent_transactions import Beside
from workhook.core.errors import NotFound
from workhook.http.calls import Services
from workhook.identity.apps import actions, app_api, installer
from workhook.identity.apps.app_schemas import AccessTokenBody, AppCreate, OauthAppCreate
from workhook.identity.apps.schemas import App, Installation
from workhook.identity.oauth.codes import create_code, redeem_code
from workhook.identity.oauth.grants import Refusal, TokenAnswer, allow
from workhook.identity.schemas import Account
from workhook.identity.tables import tokens
from workhook.identity.tokens.issue import CLASSIC, issue, revoke
from workhook.identity.tokens.lookup import find_actor
from workhook.storage import Transaction

REDIRECT = "https://app.example.com/callback"

Ends = Callable[[Transaction, App], Awaitable[object]]


async def _app(tx: Transaction, place: Account, kind: str) -> App:
    name = f"{kind} {place.login}"
    if kind == "oauth":
        return (await actions.create_app(tx, None, place, OauthAppCreate(name=name, callback_urls=[REDIRECT])))[0]
    return (await actions.create_app(tx, None, place, AppCreate(name=name, permissions={"work": "read"})))[0]


async def _revoke_tokens(tx: Transaction, app: App) -> object:
    return await actions.revoke_tokens(tx, None, app)


async def _delete_app(tx: Transaction, app: App) -> object:
    await actions.delete_app(tx, None, app)
    return None


async def _redeem(tx: Transaction, app: App, code: str) -> TokenAnswer | Refusal:
    return await redeem_code(tx, app, code, redirect_uri=None, verifier=None, secret_shown=True)


@pytest.mark.parametrize("kind", ["oauth", "app"])
@pytest.mark.parametrize("ends", [_revoke_tokens, _delete_app])
async def test_a_code_is_exchanged_while_all_tokens_of_its_app_are_revoked(
    services: Services, beside: Beside, people: tuple[Account, Account], ends: Ends, kind: str
) -> None:
    place, user = people
    async with services.database.transaction() as tx:
        app = await _app(tx, place, kind)
        await allow(tx, app, user.id, frozenset())
        first, second = [
            await create_code(tx, app, user.id, redirect_uri=REDIRECT, scopes=frozenset(), challenge=None)
            for _ in range(2)
        ]
    async with services.database.transaction() as tx:
        issued = await _redeem(tx, app, first)
        ending = await beside.begin(lambda other: ends(other, app))
        again = await _redeem(tx, app, second)  # the issuing transaction already has every lock it needs
    await ending
    for each in (issued, again):
        assert isinstance(each, TokenAnswer)
        assert await find_actor(services.database, str(each.access_token)) is None


@pytest.mark.parametrize("kind", ["oauth", "app"])
async def test_a_code_is_refused_after_all_tokens_of_its_app_were_revoked(
    services: Services, beside: Beside, people: tuple[Account, Account], kind: str
) -> None:
    place, user = people
    async with services.database.transaction() as tx:
        app = await _app(tx, place, kind)
        await allow(tx, app, user.id, frozenset())
        code = await create_code(tx, app, user.id, redirect_uri=REDIRECT, scopes=frozenset(), challenge=None)
    async with services.database.transaction() as tx:
        await _revoke_tokens(tx, app)
        redeeming = await beside.begin(lambda other: _redeem(other, app, code))
    assert isinstance(await redeeming, Refusal)


async def _uninstall(tx: Transaction, installation: Installation) -> object:
    await installer.uninstall(tx, None, installation)
    return None


async def _revoke_all(tx: Transaction, installation: Installation) -> object:
    return await actions.revoke_tokens(tx, None, installation.app)


@pytest.mark.parametrize("ends", [_uninstall, _revoke_all])
async def test_an_installation_token_created_during_a_revocation_is_revoked(
    services: Services,
    beside: Beside,
    people: tuple[Account, Account],
    ends: Callable[[Transaction, Installation], Awaitable[object]],
) -> None:
    place, _ = people
    async with services.database.transaction() as tx:
        app = await _app(tx, place, "app")
        installation = await installer.install(tx, None, app, place)
    async with services.database.transaction() as tx:
        made = await app_api.create_access_token(tx, installation.app, installation.id, AccessTokenBody())
        ending = await beside.begin(lambda other: ends(other, installation))
    await ending
    assert await find_actor(services.database, made.issued.token) is None


async def test_the_second_of_two_concurrent_uninstallations_is_not_found(
    services: Services, beside: Beside, people: tuple[Account, Account]
) -> None:
    place, _ = people
    async with services.database.transaction() as tx:
        installation = await installer.install(tx, None, await _app(tx, place, "app"), place)
    async with services.database.transaction() as tx:
        await _uninstall(tx, installation)
        second = await beside.begin(lambda other: _uninstall(other, installation))
    with pytest.raises(NotFound):
        await second


async def _revoke(tx: Transaction, token_id: int, services: Services) -> int:
    """Revoke the token.

    On PostgreSQL the plan is forced to find rows in physical order, which the planner may choose at any time.
    """
    if services.settings.database_url is not None:
        for name in ("indexscan", "bitmapscan", "nestloop"):
            await tx.execute(sa.text(f"SET LOCAL enable_{name} = off"))
    return await revoke(tx, [token_id])


async def test_concurrent_revocations_lock_tokens_in_the_same_order(
    services: Services, beside: Beside, people: tuple[Account, Account]
) -> None:
    """Both lock a family's first token before the next one; otherwise they would deadlock."""
    _, user = people
    async with services.database.transaction() as tx:
        first = await issue(tx, CLASSIC, user.id)
        second = await issue(tx, CLASSIC, user.id, parent_id=first.id)
    chosen = sa.update(tokens).where(tokens.c.id == first.id)
    async with services.database.transaction() as tx:
        await tx.execute(chosen.values(note="lies behind the other one now"))
    async with services.database.transaction() as tx:
        await tx.execute(chosen.values(note="held"))
        revoking = await beside.begin(lambda other: _revoke(other, first.id, services))
        await tx.execute(sa.update(tokens).where(tokens.c.id == second.id).values(note="held"))
    assert await revoking == 2
    assert [await find_actor(services.database, each.token) for each in (first, second)] == [None, None]
