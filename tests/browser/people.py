"""Visitors of the pages: the people of an organization, each of whom can sign in."""

from __future__ import annotations

import re
from dataclasses import dataclass

from playwright.async_api import BrowserContext

from tests.harness.server import Server
from tests.harness.world import World, add_client, add_user, make_world
from tests.web.browser import Person, add_link
from workhook.http.calls import Services
from workhook.identity.tokens.lookup import find_actor

_CSRF = re.compile(r'name="csrf" value="([^"]+)"')


@dataclass(frozen=True)
class Insider(Person):
    """A person with a token of every scope, for the requests that a test makes outside the browser."""

    token: str


@dataclass(frozen=True)
class Team:
    """An organization with a project, and the people involved."""

    world: World
    owner: Insider  # owner of the organization
    member: Insider  # member of the organization
    client: Insider  # outsider with access to the project as a client

    @property
    def everybody(self) -> dict[str, Insider]:
        return {"owner": self.owner, "member": self.member, "client": self.client}


async def make_team(services: Services) -> Team:
    """Create the team, for use with `Server.run`. The people have no passwords, because `sign_in` needs none."""
    world = await make_world(services)
    member, client = await add_user(services, world, member="member"), await add_client(services, world)
    return Team(world, *[await _insider(services, token) for token in (world.token, member, client)])


async def _insider(services: Services, token: str) -> Insider:
    actor = await find_actor(services.database, token)
    assert actor is not None
    return Insider(actor.user.id, actor.user.login, actor.user.email or "", token)


async def sign_in(context: BrowserContext, server: Server, person: Person) -> None:
    """Sign in with a link created for the person. Submits the form like the page would, without opening the page."""
    path = add_link(server, person)
    shown = await context.request.get(path)
    found = _CSRF.search(await shown.text())
    assert found is not None, await shown.text()
    sent = {"Origin": "null", "Sec-Fetch-Site": "same-origin"}
    answer = await context.request.post(path, form={"csrf": found[1]}, headers=sent, max_redirects=0)
    assert answer.status == 303, await answer.text()
