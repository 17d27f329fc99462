"""Apps in the organization of a world, created through the same actions that owners use."""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import httpx
from joserfc import jws
from joserfc.jwk import RSAKey

from tests.harness.server import Server
from tests.harness.waiting import finish
from tests.harness.world import World, must
from workhook.core import json
from workhook.http.calls import Services
from workhook.identity import queries
from workhook.identity.apps import actions, credentials, installer
from workhook.identity.apps.app_schemas import AppCreate
from workhook.identity.apps.queries import find_app
from workhook.identity.tokens.issue import APP_USER, issue
from workhook.storage import Transaction

PERMISSIONS: dict[str, Any] = {"repository_hooks": "write", "organization_hooks": "write", "work": "write"}

_numbers = itertools.count(1)


@dataclass
class Registered:
    """An app with its credentials. `installation_id` is 0 if it is not installed."""

    id: int
    client_id: str
    slug: str
    secret: str = field(repr=False)
    private_key: str = field(repr=False)
    installation_id: int = 0

    @property
    def bot(self) -> str:
        return f"{self.slug}[bot]"

    def jwt(self, *, issuer: object = None, **claims: Any) -> str:
        """Return a JWT as GitHub's clients sign it. `claims` are added or override the defaults."""
        now = int(time.time())
        usual = {"iat": now - 60, "exp": now + 540, "iss": str(self.id) if issuer is None else issuer}
        return signed(self.private_key, {**usual, **claims})

    def client(self, server: Server) -> httpx.Client:
        """Return a client that authenticates as the app itself."""
        return server.client(self.jwt(), verify=False)

    def token(self, server: Server, **narrowed: Any) -> str:
        """Create an installation access token."""
        with self.client(server) as client:
            answer = client.post(f"/app/installations/{self.installation_id}/access_tokens", json=narrowed)
            assert answer.status_code == 201, answer.text
            return str(answer.json()["token"])


def signed(private_key: str, claims: Mapping[str, Any], **header: Any) -> str:
    return jws.serialize_compact(
        {"alg": "RS256", "typ": "JWT", **header}, json.encode(dict(claims)), _read(private_key)
    )


@cache
def _read(private_key: str) -> RSAKey:
    """Parse a key. Cached because the validation takes a hundred times as long as signing."""
    return RSAKey.import_key(private_key)


@cache
def _key() -> credentials.NewKey:
    """Create a key, which is slow. Apps of a test run share it unless they need different ones."""
    return finish(credentials.new_key)


def make_app(
    server: Server,
    world: World,
    *,
    permissions: dict[str, Any] | None = None,
    granted: Mapping[str, str] | None = None,
    repositories: Collection[str] | None = None,
    installed: bool = True,
    public: bool = False,
    own_key: bool = False,
) -> Registered:
    """Create an app in the world's organization, and install it on all its repositories or on those named."""

    key = finish(credentials.new_key) if own_key else _key()

    async def make(services: Services) -> Registered:
        async with services.database.transaction() as tx:
            organization = must(await queries.find_account(tx, world.organization))
            app, secret, pem = await actions.create_app(
                tx,
                None,
                organization,
                AppCreate(
                    name=f"Robot {next(_numbers)} {organization.id}",
                    permissions=permissions or PERMISSIONS,
                    public=public,
                ),
                key=key,
            )
            made = Registered(app.id, app.client_id, app.slug, secret, pem)
            if installed:
                ids = None if repositories is None else [await _repository(tx, world, each) for each in repositories]
                done = await installer.install(tx, None, app, organization, permissions=granted, repository_ids=ids)
                made.installation_id = done.id
        return made

    registered: Registered = server.run(make)
    return registered


def install(server: Server, app: Registered, world: World, **more: Any) -> int:
    """Install the app on another organization, and return the installation's ID."""

    async def put(services: Services) -> int:
        async with services.database.transaction() as tx:
            organization = must(await queries.find_account(tx, world.organization))
            found = must(await find_app(tx, app.id))
            return (await installer.install(tx, None, found, organization, **more)).id

    return int(server.run(put))


def user_token(server: Server, app: Registered, login: str) -> str:
    """Create an app user access token, as issued when the user authorizes the app."""

    async def make(services: Services) -> str:
        async with services.database.transaction() as tx:
            user = must(await queries.find_account(tx, login))
            return (await issue(tx, APP_USER, user.id, app_id=app.id)).token

    return str(server.run(make))


def new_repository(server: Server, world: World, name: str) -> tuple[int, str]:
    """Create another repository in the world's organization. Return its number and its ID in the work API."""
    with server.client(world.token) as client:
        made = client.post("/api/v1/projects", json={"title": name, "organization": world.organization})
        assert made.status_code == 200, made.text
        project_id = made.json()["project"]["id"]
        repository = client.get(f"/repos/{world.organization}/{name}")
        assert repository.status_code == 200, made.text
        return repository.json()["id"], project_id


async def _repository(tx: Transaction, world: World, name: str) -> int:
    found = must(await queries.find_repository(tx, world.organization, name))
    return found.id
