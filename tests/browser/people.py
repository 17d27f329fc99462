"""Who looks at the pages: the people of an organization, each of whom can sign in."""

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
    """Somebody with a token of every scope, for what a test does beside the browser."""

    token: str


@dataclass(frozen=True)
class Team:
    """An organization with a project, and who has to do with it."""

    world: World
    owner: Insider  # of the organization
    member: Insider  # of the organization
    client: Insider  # from outside, who was given the project to look into

    @property
    def everybody(self) -> dict[str, Insider]:
        return {"owner": self.owner, "member": self.member, "client": self.client}


async def make_team(services: Services) -> Team:
    """For `Server.run`. Nobody has a password: `sign_in` needs none."""
    world = await make_world(services)
    member, client = await add_user(services, world, member="member"), await add_client(services, world)
    return Team(world, *[await _insider(services, token) for token in (world.token, member, client)])


async def _insider(services: Services, token: str) -> Insider:
    actor = await find_actor(services.database, token)
    assert actor is not None
    return Insider(actor.user.id, actor.user.login, actor.user.email or "", token)


async def sign_in(context: BrowserContext, server: Server, person: Person) -> None:
    """By a link that is made for the person. The browser sends the form as the page would, but shows no page."""
    path = add_link(server, person)
    shown = await context.request.get(path)
    found = _CSRF.search(await shown.text())
    assert found is not None, await shown.text()
    sent = {"Origin": "null", "Sec-Fetch-Site": "same-origin"}
    answer = await context.request.post(path, form={"csrf": found[1]}, headers=sent, max_redirects=0)
    assert answer.status == 303, await answer.text()
