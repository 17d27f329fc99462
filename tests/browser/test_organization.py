"""The settings of an organization in a browser: apps, their secrets, installations and deleted projects."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.browser.checks import accessible, fits, keyboard, picture
from tests.browser.people import Team
from tests.browser.visits import Scheme, Visits
from tests.harness.server import Server


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "without-scripts"])
async def test_an_app_is_created_installed_and_deleted(visit: Visits, team: Team, scripts: bool) -> None:
    name = f"Keeper {team.owner.id}"
    page = await visit(f"/{team.world.organization}", team.owner, scripts=scripts)
    await page.get_by_role("navigation", name="Organization", exact=True).get_by_role("link", name="Settings").click()
    sections = page.get_by_role("navigation", name="Organization settings")
    await sections.get_by_role("link", name="Apps", exact=True).click()
    await page.get_by_role("link", name="New app").click()
    await page.get_by_label("Name", exact=True).fill(name)
    await page.get_by_label("Work projects").select_option("write")
    await page.get_by_role("button", name="Create app").click()
    await expect(page.get_by_text("They won’t be shown again.")).to_be_visible()
    shown = await page.locator("#private-key").text_content()
    assert shown is not None
    assert shown.startswith("-----BEGIN RSA PRIVATE KEY-----")
    if scripts:
        async with page.expect_download() as downloading:
            await page.get_by_role("button", name="Download private key").click()
        download = await downloading.value
        assert download.suggested_filename == f"keeper-{team.owner.id}.pem"
        assert await asyncio.to_thread(Path(await download.path()).read_text) == shown
    await page.get_by_role("link", name="Continue").click()
    await page.get_by_role("link", name="Install…").click()
    await page.get_by_label("All current and future projects").check()
    await page.get_by_role("button", name=f"Install {name}").click()
    await expect(page).to_have_title(re.compile(f"{name} is installed"))
    await page.goto(f"/{team.world.organization}/settings/installations")
    await page.get_by_role("link", name=name).click()
    await page.get_by_role("button", name="Suspend").click()
    await page.get_by_role("button", name="Undo").click()
    await expect(page.get_by_role("button", name="Suspend")).to_be_visible()
    await page.get_by_role("link", name="Uninstall…").click()
    await page.get_by_role("button", name="Uninstall", exact=True).click()
    await expect(page.get_by_text(f"{name} uninstalled.")).to_be_visible()
    await (
        page.get_by_role("navigation", name="Organization settings")
        .get_by_role("link", name="Apps", exact=True)
        .click()
    )
    await page.get_by_role("link", name=name).click()
    await page.get_by_role("link", name="Delete…").click()
    await page.get_by_label(f"Type {name} to confirm").fill(name)
    await page.get_by_role("button", name="Delete app").click()
    await expect(page.get_by_text(f"“{name}” was deleted.")).to_be_visible()


@pytest.mark.whole
async def test_the_organization_settings_are_accessible(
    visit: Visits, server: Server, team: Team, width: int, scheme: Scheme
) -> None:
    visit.expect_trouble("status of 422")
    org = team.world.org_path
    unique = f"{team.owner.id} {width} {scheme}"
    body = {"callback_urls": ["https://a-rather-long-name.of.a.client.example/with/a/long/path/to/its/callback"]}
    with server.client(team.owner.token) as api:
        oauth = api.post(f"{org}/oauth-apps", json={**body, "name": f"Reports {unique}"}).json()
        asked = {"permissions": {"work": "read"}, "public": True, "description": "Keeps the time of everybody."}
        app = api.post(f"{org}/apps", json={**body, **asked, "name": f"Keeper {unique}"}).json()
        made = api.post(f"{org}/installations", json={"app": app["slug"]}).json()
        more = {"permissions": {"work": "write", "organization_hooks": "read"}}
        api.patch(f"{org}/apps/{app['slug']}", json=more).raise_for_status()
        api.put(f"{org}/installations/{made['id']}/suspended").raise_for_status()
        gone = api.post("/api/v1/projects", json={"title": "Gone", "organization": team.world.organization}).json()
        api.delete(f"/api/v1/projects/{gone['project']['id']}").raise_for_status()
    settings = f"/{team.world.organization}/settings"
    page = await visit(settings, team.owner, width=width, scheme=scheme)
    for name, path in (
        ("organization", settings),
        ("oauth-apps", f"{settings}/oauth-apps"),
        ("oauth-app", f"{settings}/oauth-apps/{oauth['client_id']}"),
        ("app", f"{settings}/apps/{app['slug']}"),
        ("app-delete", f"{settings}/apps/{app['slug']}/delete"),
        ("installations", f"{settings}/installations"),
        ("installation", f"{settings}/installations/{made['id']}"),
        ("uninstall", f"{settings}/installations/{made['id']}/uninstall"),
        ("deleted-projects", f"/{team.world.organization}/-/trash"),
        ("your-data", "/settings/account"),
        ("your-account-cannot-be-deleted", "/settings/account/delete"),
    ):
        await page.goto(path)
        await accessible(page)
        await fits(page)
        await picture(page, name)
    await page.goto(f"{settings}/apps/{app['slug']}")
    await keyboard(page)
    await page.locator("#secrets").locator("xpath=..").get_by_text("Delete…").click()
    await accessible(page)
    await fits(page)
    await page.goto(f"{settings}/new-app")
    await page.get_by_label("Name", exact=True).fill("\U0001f419")
    await page.get_by_role("button", name="Create app").click()
    await page.get_by_role("alert").first.wait_for()
    await accessible(page)
    await fits(page)
    await picture(page, "app-new")
    await page.get_by_label("Name", exact=True).fill(f"New {unique}")
    await page.get_by_role("button", name="Create app").click()
    await page.get_by_text("They won’t be shown again.").wait_for()
    await accessible(page)
    await fits(page)
    await keyboard(page)
    await picture(page, "app-secrets")
