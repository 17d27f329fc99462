"""People with various roles in an organization and its project, for tests of pages."""

from __future__ import annotations

from typing import Any

import httpx
import sqlalchemy as sa

from tests.harness.server import Server
from tests.harness.world import World
from tests.web.browser import Browser, Person, add_person
from workhook.core.clock import HOUR_MS, now_ms
from workhook.core.ids import new_id
from workhook.http.calls import Services
from workhook.identity import actions, queries
from workhook.identity.tables import sessions
from workhook.storage.metadata import bigint_param, insert_into
from workhook.work.kernel.tables import clients

_insert_client = insert_into(clients, "id", "repository_id", "user_id", "email", "created_at", "updated_at")
_age = (
    sa.update(sessions)
    .where(sessions.c.user_id == bigint_param("user_id"))
    .values(created_at=sessions.c.created_at - bigint_param("by"))
)


def join(server: Server, world: World, person: Person, place: str) -> Person:
    """Add the person to the organization (owner or member) or to the project (read, write, admin or client)."""

    async def run(services: Services) -> None:
        async with services.database.transaction() as tx:
            user = await queries.find_account(tx, person.login)
            organization = await queries.find_account(tx, world.organization)
            repository = await queries.find_repository(tx, world.organization, world.repository)
            assert user is not None
            assert organization is not None
            assert repository is not None
            if place in ("owner", "member"):
                await actions.set_member(tx, organization, user, place)
            elif place == "client":
                now = now_ms()
                values = {"id": new_id("cli"), "repository_id": repository.id, "user_id": user.id}
                await tx.execute(
                    _insert_client, {**values, "email": person.email, "created_at": now, "updated_at": now}
                )
            else:
                await actions.set_collaborator(tx, repository, user, place)

    server.run(run)
    return person


def leave(server: Server, world: World, person: Person) -> None:
    """Remove the person from the organization."""

    async def run(services: Services) -> None:
        async with services.database.transaction() as tx:
            user = await queries.find_account(tx, person.login)
            organization = await queries.find_account(tx, world.organization)
            assert user is not None
            assert organization is not None
            assert await actions.remove_member(tx, organization, user)

    server.run(run)


def owner_of(server: Server, world: World) -> Person:
    """Return the owner whose token `world` contains. They have no password."""

    async def run(services: Services) -> Person:
        user = await queries.find_account(services.database, world.owner)
        assert user is not None
        return Person(user.id, user.login, user.email or "")

    found: Person = server.run(run)
    return found


def add_in(server: Server, world: World, place: str) -> Person:
    return join(server, world, add_person(server), place)


def signed_in(server: Server, person: Person) -> Browser:
    browser = Browser(server)
    assert browser.sign_in(person).status_code == 303
    return browser


def made(response: httpx.Response) -> Any:
    """Return the object in an answer of the work API."""
    assert response.status_code == 200, response.text
    return next(each for each in response.json().values() if isinstance(each, dict))


def age_sign_in(server: Server, person: Person, by_ms: int = HOUR_MS) -> None:
    """Move the start of the person's sessions into the past."""

    async def run(services: Services) -> None:
        async with services.database.transaction() as tx:
            await tx.execute(_age, {"user_id": person.id, "by": by_ms})

    server.run(run)
