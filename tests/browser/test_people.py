"""The people of an organization, the project settings and the audit log in a browser."""

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
    """Provide an outsider with a long name."""
    return await asyncio.to_thread(add_person, server, password=None, name="Maximiliane von und zu Hohenstein-Ober")


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "without-scripts"])
async def test_an_invited_user_joins(visit: Visits, team: Team, guest: Person, scripts: bool) -> None:
    owner = await visit(f"/{team.world.organization}", team.owner, scripts=scripts)
    await owner.get_by_role("navigation", name="Organization").get_by_role("link", name="People").click()
    await owner.get_by_label("Login or e-mail address").fill(guest.login)
    await owner.get_by_role("button", name="Invite", exact=True).click()
    await expect(owner.get_by_text(f"{guest.login} invited.")).to_be_visible()
    page = await visit("/", guest, scripts=scripts)
    await page.get_by_role("button", name="Accept the invitation to Acme").click()
    await expect(page.get_by_role("status")).to_contain_text(f"Welcome to {team.world.organization}.")
    await owner.reload()
    row = owner.locator(f"#person-{guest.login}")
    await row.locator("summary").click()
    await row.get_by_role("link", name="Remove…").click()
    await owner.get_by_role("button", name="Remove", exact=True).click()
    await expect(owner.get_by_text(" removed.")).to_be_visible()
    await expect(owner.locator(f"#person-{guest.login}")).to_have_count(0)


async def test_the_people_page_is_accessible(
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
    await page.get_by_role("link", name="Remove…").click()
    await page.get_by_role("button", name="Remove", exact=True).wait_for()
    await accessible(page)
    await fits(page)
    await picture(page, "people-remove")
    home = await visit("/", guest, width=width, scheme=scheme)
    await accessible(home)
    await fits(home)
    await picture(home, "invited")


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "without-scripts"])
async def test_a_project_is_renamed_archived_and_deleted(visit: Visits, team: Team, scripts: bool) -> None:
    page = await visit(f"/{team.world.full_name}/list", team.owner, scripts=scripts)
    await page.get_by_role("navigation", name="Project").get_by_role("link", name="Settings").click()
    await page.get_by_label("Title").fill("The new homepage")
    await page.get_by_role("region", name="Project").get_by_role("button", name="Save").click()
    await expect(page.get_by_text("The project was saved.")).to_be_visible()
    await page.get_by_role("button", name="Archive").click()
    await expect(page.get_by_text("This project is archived.")).to_be_visible()
    await page.get_by_role("button", name="Undo").click()
    await expect(page.get_by_text("This project is archived.")).to_have_count(0)
    await expect(page.get_by_label("Title")).to_have_value("The new homepage")
    await page.get_by_role("link", name="Delete…").click()
    await page.get_by_label("type the project’s title: The new homepage").fill("the new homepage")
    await page.get_by_role("button", name="Delete project").click()
    await expect(page.get_by_text("“The new homepage” was deleted.")).to_be_visible()
    await page.get_by_role("button", name="Undo").click()
    await expect(page.get_by_text("The project was restored.")).to_be_visible()


async def test_the_project_settings_are_accessible(
    visit: Visits, server: Server, team: Team, guest: Person, width: int, scheme: Scheme
) -> None:
    visit.expect_trouble("status of 422")
    with server.client(team.owner.token) as api:
        for login in (guest.login, team.member.login):
            assert api.put(f"{team.world.repo_path}/collaborators/{login}", json={}).status_code in (201, 204)
    page = await visit(f"/{team.world.full_name}/settings", team.owner, width=width, scheme=scheme)
    await accessible(page)
    await fits(page)
    await keyboard(page)
    await picture(page, "project-settings")
    await page.get_by_label("Login").fill("nobody-at-all")
    await page.get_by_role("button", name="Invite", exact=True).click()
    await page.get_by_role("alert").wait_for()
    await accessible(page)
    await fits(page)
    await page.goto(f"/{team.world.full_name}/settings/delete")
    await accessible(page)
    await fits(page)
    await picture(page, "project-delete")


async def test_the_audit_log_is_accessible(
    visit: Visits, server: Server, team: Team, width: int, scheme: Scheme
) -> None:
    with server.client(team.owner.token) as api:
        made = api.post(f"/api/v1/projects/{team.world.project_id}/columns", json={"title": "Doing"})
        column = made.json()["column"]["id"]
        for title in ("Logo", "Homepage"):
            assert api.post(f"/api/v1/columns/{column}/tasks", json={"title": title}).status_code == 200
    page = await visit(f"/{team.world.organization}/audit", team.owner, width=width, scheme=scheme)
    await page.get_by_text("Details").first.click()
    await accessible(page)
    await fits(page)
    await keyboard(page)
    await picture(page, "audit")
    await page.get_by_label("Action").fill("column")
    await page.get_by_label("Action").blur()
    await expect(page.locator(".audit > li")).to_have_count(1)
