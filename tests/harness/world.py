"""People and organizations for tests, created through the same actions as the command line uses."""

from __future__ import annotations

import asyncio
import itertools
import threading
import uuid
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from tests.harness.waiting import finish
from workhook.bootstrap import open_services
from workhook.core.clock import now_ms
from workhook.core.config import load
from workhook.core.ids import new_id
from workhook.http.calls import Services
from workhook.identity import actions, queries, removal
from workhook.identity.policy import SCOPES
from workhook.identity.tables import projects
from workhook.identity.tokens.lookup import find_actor
from workhook.storage.metadata import insert_into
from workhook.work.kernel.tables import clients

T = TypeVar("T")

_numbers = itertools.count(1)
_insert_project = insert_into(
    projects,
    "id", "account_id", "name", "name_key", "title", "private", "archive", "created_at", "updated_at",
).returning(projects.c.repository_id)  # fmt: skip

_insert_client = insert_into(clients, "id", "repository_id", "user_id", "email", "created_at", "updated_at")


def must(found: T | None) -> T:
    """Return a lookup's result, which must exist."""
    assert found is not None
    return found


@dataclass
class World:
    """An organization with a repository, its owner and a token. The names are unique among all tests."""

    organization: str
    repository: str  # the name without the organization
    owner: str
    token: str  # the owner's token with every scope
    project_id: str

    @property
    def full_name(self) -> str:
        return f"{self.organization}/{self.repository}"

    @property
    def repo_path(self) -> str:
        return f"/repos/{self.full_name}"

    @property
    def org_path(self) -> str:
        return f"/orgs/{self.organization}"


async def make_world(services: Services) -> World:
    unique = f"{next(_numbers)}-{uuid.uuid4().hex[:6]}"
    async with services.database.transaction() as tx:
        owner = await actions.create_account(tx, "user", f"octo-{unique}", name="Octo", email="octo@example.com")
        place = await actions.create_account(tx, "organization", f"acme-{unique}", name="Acme", email=None)
        await actions.set_member(tx, place, owner, "owner")
        token = await actions.issue_token(tx, owner, list(SCOPES))
        now, project_id = now_ms(), new_id("prj")
        await tx.fetch_one(
            _insert_project,
            {
                "id": project_id,
                "account_id": place.id,
                "name": "website",
                "name_key": "website",
                "title": "Website",
                "private": False,
                "archive": False,
                "created_at": now,
                "updated_at": now,
            },
        )
    return World(place.login, "website", owner.login, token.token, project_id)


async def add_user(services: Services, world: World, *, member: str | None = None, role: str | None = None) -> str:
    """Create a user and return a token with every scope. The user is a member, a collaborator, or neither."""
    return await add_token(services, world, list(SCOPES), member=member, role=role)


async def add_token(
    services: Services, world: World, scopes: list[str], *, member: str | None = None, role: str | None = None
) -> str:
    """Create a user like `add_user`, and return a token with the given scopes."""
    login = f"user-{next(_numbers)}-{uuid.uuid4().hex[:6]}"
    async with services.database.transaction() as tx:
        user = await actions.create_account(tx, "user", login, name=None, email=f"{login}@example.com")
        if member is not None:
            organization = must(await queries.find_account(tx, world.organization))
            await actions.set_member(tx, organization, user, member)
        if role is not None:
            repository = must(await queries.find_repository(tx, world.organization, world.repository))
            await actions.set_collaborator(tx, repository, user, role)
        return (await actions.issue_token(tx, user, scopes)).token


async def add_client(services: Services, world: World) -> str:
    """Create a client of the project, and return a token with every scope."""
    token = await add_user(services, world)
    async with services.database.transaction() as tx:
        repository = must(await queries.find_repository(tx, world.organization, world.repository))
        actor = must(await find_actor(tx, token))
        now = now_ms()
        values = {"id": new_id("cli"), "repository_id": repository.id, "user_id": actor.user.id}
        await tx.execute(_insert_client, {**values, "email": actor.user.email, "created_at": now, "updated_at": now})
    return token


def with_services(settings: dict[str, Any], work: Any) -> Any:
    """Run `work(services)` on the database of a running server, and return its result."""

    async def run() -> Any:
        async with open_services(load(settings, {})) as services:
            return await work(services)

    return finish(run)


class KeptServices:
    """Services that stay open until `close`, in their own thread and event loop, because opening them takes 20 to 40
    ms."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kept-services", daemon=True)
        self._thread.start()
        self._opening = open_services(load(settings, {}))
        self._services = self._finish(self._opening.__aenter__())

    def run(self, work: Any) -> Any:
        """Run `work(services)`, and return its result."""
        removal.links_start_with(self._services.base)  # process-wide, so others may have changed it
        return self._finish(work(self._services))

    def close(self) -> None:
        try:
            self._finish(self._opening.__aexit__(None, None, None))
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _finish(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
