"""People of an organization, the settings of a project and the audit log in a browser."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import expect

from tests.browser.checks import accessible, fits, keyboard, picture
from tests.browser.people import Team
from tests.browser.visits import Scheme, Visits
from tests.harness.server import Server
from tests.web.browser import Person, add_person


@pytest.fixture
async def guest(server: Server) -> Person:
    """Somebody from outside with a long name."""
    return await asyncio.to_thread(add_person, server, password=None, name="Maximiliane von und zu Hohenstein-Ober")


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "without-scripts"])
async def test_somebody_is_invited_and_comes(visit: Visits, team: Team, guest: Person, scripts: bool) -> None:
    owner = await visit(f"/{team.world.organization}", team.owner, scripts=scripts)
    await owner.get_by_role("navigation", name="Organization").get_by_role("link", name="People").click()
    await owner.get_by_label("Login or e-mail address").fill(guest.login)
    await owner.get_by_role("button", name="Invite", exact=True).click()
    await expect(owner.get_by_text(f"{guest.login} is invited.")).to_be_visible()
    page = await visit("/", guest, scripts=scripts)
    await page.get_by_role("button", name="Accept the invitation to Acme").click()
    await expect(page.get_by_role("status")).to_contain_text(f"You are in {team.world.organization} now.")
    await owner.reload()
    row = owner.locator(f"#person-{guest.login}")
    await row.locator("summary").click()
    await row.get_by_role("link", name="Remove …").click()
    await owner.get_by_role("button", name="Remove", exact=True).click()
    await expect(owner.get_by_text(f"{guest.login} was removed.")).to_be_visible()
    await expect(owner.locator(f"#person-{guest.login}")).to_have_count(0)


async def test_the_people_are_for_everybody(
    visit: Visits, server: Server, team: Team, guest: Person, width: int, scheme: Scheme
) -> None:
    with server.client(team.owner.token) as api:
        for body in ({"email": "a.rather.long.address.of.somebody@subdomain.example.com"}, {"email": guest.email}):
            assert api.post(f"/orgs/{team.world.organization}/invitations", json=body).status_code == 201
    page = await visit(f"/{team.world.organization}/people", team.owner, width=width, scheme=scheme)
    await accessible(page)
    await fits(page)
    await keyboard(page)
    await picture(page, "people")
    await page.locator(f"#person-{team.member.login} summary").click()
    await accessible(page)
    await fits(page)
    await page.get_by_role("link", name="Remove …").click()
    await page.get_by_role("button", name="Remove", exact=True).wait_for()
    await accessible(page)
    await fits(page)
    await picture(page, "people-remove")
    home = await visit("/", guest, width=width, scheme=scheme)
    await accessible(home)
    await fits(home)
    await picture(home, "invited")
