"""The first page after signing in, and the settings that it links to."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.browser.checks import accessible, fits, keyboard, picture
from tests.browser.people import Team
from tests.browser.visits import Scheme, Visits
from tests.harness.server import Server
from tests.web.browser import PASSWORD, add_person

PAGES = {"/": "start", "/settings/password": "password", "/login/device": "device"}


async def test_each_user_sees_their_own_work(visit: Visits, team: Team) -> None:
    for person in team.everybody.values():
        page = await visit("/", person)
        await page.locator("header details.menu > summary").click()
        await expect(page.get_by_role("banner")).to_contain_text(person.login)
        await page.get_by_role("link", name="Settings").click()
        await page.get_by_role("link", name="Password").click()
        await expect(page.get_by_role("heading", name="Set a password")).to_be_visible()


@pytest.mark.parametrize("path", PAGES)
async def test_the_pages_are_accessible(visit: Visits, team: Team, path: str, width: int, scheme: Scheme) -> None:
    page = await visit(path, team.owner, width=width, scheme=scheme)
    await accessible(page)
    await fits(page)
    assert len(await keyboard(page)) > 3
    await picture(page, PAGES[path])


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "without-scripts"])
async def test_a_browser_ends_the_session_of_another_browser(visit: Visits, team: Team, scripts: bool) -> None:
    here = await visit("/settings", team.member, scripts=scripts)
    elsewhere = await visit("/settings", team.member, scripts=scripts)
    await here.reload()
    await here.get_by_role("button", name="Sign out: session from").click()
    await expect(here.get_by_role("button", name="Sign out: session from")).to_have_count(0)
    await elsewhere.reload()
    await expect(elsewhere.get_by_role("heading", name="Sign in")).to_be_visible()


async def test_a_changed_password_signs_in(visit: Visits, server: Server) -> None:
    person, new = add_person(server), "another horse, and no battery"
    page = await visit("/settings/password", person)
    for label, text in (("Current password", PASSWORD), ("New password", new), ("Repeat new password", new)):
        await page.get_by_label(label, exact=True).fill(text)
    await page.get_by_role("button", name="Change password").click()
    await expect(page).to_have_url(f"{server.url}/settings")
    other = await visit("/login")
    await other.get_by_label("Login or e-mail address").fill(person.login)
    await other.get_by_label("Password").fill(new)
    await other.get_by_role("button", name="Sign in").click()
    await expect(other).to_have_url(f"{server.url}/")
