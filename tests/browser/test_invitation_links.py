"""Invitation links in a browser: an owner creates one, and a new user joins with it."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.browser.checks import accessible, fits, keyboard, picture
from tests.browser.people import Team
from tests.browser.visits import Scheme, Visits
from tests.harness.server import Server
from tests.web.browser import PASSWORD

EMAIL = "a.rather.long.address.of.somebody@subdomain.example.com"


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "without-scripts"])
async def test_a_client_joins_with_a_link(visit: Visits, team: Team, scripts: bool) -> None:
    visit.expect_trouble("status of 404")
    visit.expect_trouble("status of 422")
    owner = await visit(f"/{team.world.full_name}/settings", team.owner, scripts=scripts)
    clients = owner.get_by_role("region", name="Clients")
    await clients.get_by_label("E-mail address").fill(EMAIL)
    await clients.get_by_role("button", name="Invite by link").click()
    link = await owner.locator("#link").inner_text()
    await owner.get_by_role("link", name="Continue").click()
    await expect(clients.get_by_text(EMAIL)).to_be_visible()
    page = await visit(link, None, scripts=scripts)
    await page.get_by_label("Login").fill("settings")
    await page.get_by_label("Your name").fill("Grace")
    await page.get_by_label("Password", exact=True).fill(PASSWORD)
    await page.get_by_label("Repeat password").fill(PASSWORD)
    await page.get_by_role("button", name="Create account and accept").click()
    await expect(page.get_by_text("login settings is reserved")).to_be_visible()
    await expect(page.get_by_label("Your name")).to_have_value("Grace")
    login = f"grace-{team.world.organization[-8:]}-{'js' if scripts else 'plain'}"
    await page.get_by_label("Login").fill(login)
    await page.get_by_label("Password", exact=True).fill(PASSWORD)
    await page.get_by_label("Repeat password").fill(PASSWORD)
    await page.get_by_role("button", name="Create account and accept").click()
    await page.wait_for_url(f"**/{team.world.full_name}")
    await owner.reload()
    await expect(clients.get_by_text("Grace", exact=True)).to_be_visible()
    await page.goto(link)
    await expect(page.get_by_text("This link is invalid")).to_be_visible()


@pytest.mark.whole
async def test_the_pages_of_invitation_links_are_accessible(
    visit: Visits, server: Server, team: Team, width: int, scheme: Scheme
) -> None:
    visit.expect_trouble("status of 404")
    visit.expect_trouble("status of 422")
    owner = await visit(f"/{team.world.organization}/people", team.owner, width=width, scheme=scheme)
    await owner.get_by_label("Login or e-mail address").fill(EMAIL)
    await owner.get_by_role("button", name="Invite by link").click()
    link = await owner.locator("#link").inner_text()
    await accessible(owner)
    await fits(owner)
    await keyboard(owner)
    await picture(owner, "link-made")
    await owner.get_by_role("link", name="Continue").click()
    await accessible(owner)
    await fits(owner)
    await picture(owner, "people-with-link")
    page = await visit(link, None, width=width, scheme=scheme)
    await accessible(page)
    await fits(page)
    await keyboard(page)
    await picture(page, "link-stranger")
    await page.get_by_label("Login").fill("settings")
    await page.get_by_label("Password", exact=True).fill("password123")
    await page.get_by_label("Repeat password").fill("password124")
    await page.get_by_role("button", name="Create account and accept").click()
    await page.get_by_text("is reserved").wait_for()
    await accessible(page)
    await fits(page)
    await picture(page, "link-stranger-faults")
    visitor = await visit(link, team.client, width=width, scheme=scheme)
    await accessible(visitor)
    await fits(visitor)
    await keyboard(visitor)
    await picture(visitor, "link-visitor")
    await visitor.get_by_role("button", name="Decline").click()
    await expect(visitor.get_by_role("status")).to_contain_text("Invitation declined.")
    await page.goto(link)
    await accessible(page)
    await fits(page)
    await picture(page, "link-gone")
