"""With many rows, every statement of identity that requests wait for uses an index."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import asyncpg
import pytest
import sqlalchemy as sa

from tests.delivery.test_plans import Asked, asked, plans
from tests.harness.world import World, make_world
from workhook.core.clock import DAY_MS, now_ms
from workhook.http.calls import Services
from workhook.identity import audit_queries, members, queries, rate
from workhook.identity.apps import actions, app_api, credentials, installer
from workhook.identity.apps import queries as apps
from workhook.identity.apps.app_schemas import AccessTokenBody, AppCreate
from workhook.identity.audit_queries import Selection
from workhook.identity.oauth import codes
from workhook.identity.oauth.codes import create_code, redeem_code
from workhook.identity.oauth.grants import TokenAnswer, allow, renew, revoke_grant
from workhook.identity.signin import identities, sessions, throttle
from workhook.identity.signin import passwords as signin
from workhook.identity.signin.oidc import Claims, SignInRefused
from workhook.identity.tables import accounts, audit_log, authorization_codes, refresh_tokens, tokens
from workhook.identity.tables import sessions as session_table
from workhook.identity.tokens import issue
from workhook.identity.tokens import personal as token_queries
from workhook.identity.tokens.lookup import find_actor
from workhook.storage import Database, Transaction
from workhook.storage.metadata import insert_into
from workhook.storage.pages import Page
from workhook.work.people.members import find_accounts_of

ROWS = 20_000  # with fewer rows, PostgreSQL prefers a sequential scan
LARGE = ("accounts", "tokens", "audit_log", "sessions", "authorization_codes", "refresh_tokens")
NOW = now_ms()

__all__ = ["asked"]


def _digest(number: int) -> bytes:
    return hashlib.sha256(str(number).encode()).digest()


async def _fill(tx: Transaction, app_id: int, user_id: int) -> None:
    """Insert rows of another user, and codes and refresh tokens of the app itself."""
    common = {"user_id": user_id, "created_at": NOW, "expires_at": NOW + DAY_MS}
    rows: dict[sa.Table, list[dict[str, Any]]] = {
        accounts: [
            {"kind": "user", "login": f"u{n}", "login_key": f"u{n}", "email": f"U{n}@example.com", "created_at": NOW,
             "updated_at": NOW}
            for n in range(ROWS)
        ],
        tokens: [
            {**common, "kind": "classic", "digest": _digest(n), "scopes": "", "app_id": 1000 + n, "family": str(n),
             "installation_id": n, "parent_id": n}
            for n in range(ROWS)
        ],
        audit_log: [
            {"at": NOW, "account_id": n % 500, "action": "hook.create", "times": 1, "target": "", "detail": "{}"}
            for n in range(ROWS)
        ],
        session_table: [{**common, "digest": _digest(n), "seen_at": NOW} for n in range(ROWS)],
        authorization_codes: [
            {**common, "digest": _digest(n), "app_id": app_id, "redirect_uri": "", "scopes": "", "family": "f"}
            for n in range(ROWS)
        ],
        refresh_tokens: [
            {**common, "digest": _digest(n), "app_id": app_id, "family": str(n), "public": False}
            for n in range(ROWS)
        ],
    }  # fmt: skip
    for table, values in rows.items():
        await tx.execute_many(insert_into(table, *values[0]), values)


@pytest.fixture
async def world(services: Services) -> World:
    return await make_world(services)


async def _ask_who_is_where(database: Database, world: World) -> None:
    actor = await find_actor(database, world.token)
    assert actor is not None
    repository = await queries.find_repository(database, world.organization, world.repository, actor.user.id)
    organization = await queries.find_organization(database, world.organization, actor.user.id)
    assert repository is not None
    assert organization is not None
    page = Page(1)
    assert (
        await members.find_visible(database, actor, members.visible_by_login, login_key=actor.user.login.lower())
        == actor.user
    )
    of_login = {"login_key": queries.key_of(world.owner)}
    by_login, by_id = members.visible_by_login, members.visible_by_id
    assert await members.find_visible(database, actor, by_login, **of_login) == actor.user
    assert await members.find_visible(database, actor, by_id, id=actor.user.id) == actor.user
    assert (await members.list_shared(database, actor, actor.user.id, page))[1] == 1
    assert (await members.list_seen(database, actor, members.all_seen, page))[1] == 1
    assert (
        await members.list_seen(database, actor, members.seen_of_account, page, account_id=organization.account.id)
    )[1] == 1
    assert (await members.list_people(database, organization.account.id, page))[1] == 1
    assert await members.find_member(database, organization.account.id, world.owner) is not None
    assert (await members.list_own(database, actor, page))[1] == 1
    for affiliation, number in (("all", 1), ("direct", 0), ("outside", 0)):
        found = await members.list_collaborators(database, repository, affiliation, "read", page)  # type: ignore[arg-type]  # each value is valid
        assert found[1] == number
    assert await members.find_somebody(database, actor, repository, world.owner) is not None


async def test_every_statement_uses_an_index(services: Services, world: World, asked: Asked) -> None:
    database = services.database
    async with database.transaction() as tx:
        place, user = [await queries.find_account(tx, each) for each in (world.organization, world.owner)]
        assert place is not None
        assert user is not None
        app, secret, _ = await actions.create_app(
            tx, None, place, AppCreate(name=world.owner, permissions={}, device_flow=True)
        )
        installation = await installer.install(tx, None, app, place)
        await _fill(tx, app.id, place.id)
    if services.settings.database_url is not None:
        connection = await asyncpg.connect(services.settings.database_url)
        await connection.execute("ANALYZE")
        await connection.close()
    asked.clear()
    await _ask_who_is_where(database, world)
    await sessions.find(database, "secret")
    await sessions.list_of(database, user.id)
    await sessions.find_link(database, "secret")
    await credentials.authenticate_client(database, app.client_id, secret)
    actor = await find_actor(database, world.token)
    assert actor is not None
    await token_queries.list_own(database, actor, Page(30))
    await signin._find_user(database, "OCTO@example.com")
    for selection in (Selection(account_id=7), Selection(account_id=7, action="task.create")):
        await audit_queries.read(database, selection, limit=31)
    await audit_queries.actions_of(database, place.id)
    assert user.id in await find_accounts_of(database, place.id, {user.id})
    await apps.list_installations_of(database, app.id, Page(30))
    await apps.list_installations_on(database, place.id, Page(30))
    await apps.list_of_user(database, app.id, user.id, Page(30))
    await rate.RateLimiter(100, database).hit("token:1")
    await throttle.begin(database, "octo", "127.0.0.1")
    await issue.prune(database, NOW)
    async with database.transaction() as tx:
        assert await token_queries.count_living(tx, user.id) == 1
        with pytest.raises(SignInRefused):
            await identities.find_or_add(tx, Claims("https://id.example.com", "7", "zoe@example.com"), create=False)
        await sessions.start(tx, user, address=None, user_agent=None)
        made = await app_api.create_access_token(tx, app, installation.id, AccessTokenBody())
        await allow(tx, app, user.id, frozenset())
        code = await create_code(tx, app, user.id, redirect_uri="https://a/", scopes=frozenset(), challenge=None)
        got = await redeem_code(tx, app, code, redirect_uri=None, verifier=None, secret_shown=True)
        assert isinstance(got, TokenAnswer)
        await renew(tx, app, str(got.refresh_token), secret_shown=True)
        begun = await codes.create_device_code(tx, app, frozenset())
        assert isinstance(begun, tuple)
        await codes.poll(tx, app, begun[0])
        await issue.revoke(tx, [made.issued.id])
        await revoke_grant(tx, app.id, user.id)
        await installer.uninstall(tx, None, installation)
        await sessions.end_others(tx, user.id)
    scans = [
        (sql, line)
        for sql, lines in await plans(services, asked, possible=False)
        for line in lines
        if (found := re.search(r"\bSeq Scan on (\w+)", line) or re.match(r"SCAN (\w+)", line)) and found[1] in LARGE
    ]
    assert scans == []
