"""The callers of the lists in `rows_people.py`. They are created together with the rows of the tables."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

import httpx

from tests.harness.apps import PERMISSIONS, Registered
from tests.harness.world import World
from tests.plans import filled, filled_people
from tests.plans.filled import Fill
from workhook.http.calls import Services
from workhook.identity import queries
from workhook.identity.apps import actions, credentials, installer
from workhook.identity.apps.app_schemas import AppCreate
from workhook.identity.apps.schemas import App
from workhook.identity.policy import SCOPES
from workhook.identity.schemas import Account
from workhook.identity.tokens.issue import APP_USER, CLASSIC, INSTALLATION, issue
from workhook.storage import Transaction


@dataclass(frozen=True)
class Callers:
    auth: dict[str, httpx.Auth]
    installation_id: int


class _Token(httpx.Auth):
    def __init__(self, token: str) -> None:
        self._token = token

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response]:
        request.headers["Authorization"] = f"Bearer {self._token}"
        yield request


class _App(httpx.Auth):
    """Signs each request, because a signature is valid for a few minutes only."""

    def __init__(self, app: Registered) -> None:
        self._app = app

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response]:
        request.headers["Authorization"] = f"Bearer {self._app.jwt()}"
        yield request


async def make_callers(services: Services, world: World, fills: Sequence[Fill]) -> Callers:
    """Fill the tables and create the callers.

    The rows refer to the apps, and the callers to accounts among the rows.
    """
    key = await credentials.new_key()
    async with services.database.transaction() as tx:
        owner = await queries.find_account(tx, world.organization)
        assert owner is not None
        everywhere, _ = await _app(tx, owner, "Everywhere", key)
        somewhere, registered = await _app(tx, owner, "Somewhere", key)
    first = (*filled.FIRST, *filled_people.FIRST)
    await filled.fill(services, world, first, fills, everywhere=everywhere.id, somewhere=somewhere.id)
    async with services.database.transaction() as tx:
        place = await queries.find_account(tx, filled_people.FEW_ORG)
        assert place is not None
        installation = await installer.install(tx, None, everywhere, place)
        few, bot = filled_people.FEW_ID, everywhere.bot_id or installation.app.bot_id
        assert bot is not None
        tokens = {
            "few": await issue(tx, CLASSIC, few, scopes=SCOPES),
            "app_user": await issue(tx, APP_USER, few, app_id=everywhere.id),
            "installation": await issue(
                tx, INSTALLATION, bot, account_id=place.id, app_id=everywhere.id, installation_id=installation.id
            ),
        }
    auth: dict[str, httpx.Auth] = {name: _Token(issued.token) for name, issued in tokens.items()}
    return Callers({**auth, "app": _App(registered)}, installation.id)


async def _app(tx: Transaction, owner: Account, name: str, key: credentials.NewKey) -> tuple[App, Registered]:
    app, secret, pem = await actions.create_app(
        tx, None, owner, AppCreate(name=name, permissions=PERMISSIONS, public=True), key=key
    )
    return app, Registered(app.id, app.client_id, app.slug, secret, pem)
