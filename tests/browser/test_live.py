"""A live page in use: changes by others take nothing away from the user."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from playwright.async_api import Route, expect

from tests.browser.people import Team
from tests.browser.visits import Visits
from tests.harness.server import Server

_EARS = """window.heard = 0
window.EventSource = class extends EventSource {
  constructor(...given) {
    super(...given)
    this.addEventListener('changed', () => { window.heard += 1 })
  }
}"""
_GATHERED_MS = 2000  # longer than a page waits for further events


async def _refuse(route: Route) -> None:
    await route.abort("internetdisconnected")


def add_column(api: httpx.Client, team: Team) -> str:
    """Create a column and return the address of its tasks."""
    made = api.post(f"/api/v1/projects/{team.world.project_id}/columns", json={"title": "To do"})
    return f"/api/v1/columns/{made.json()['column']['id']}/tasks"


async def test_a_pending_form_survives_changes_by_others(visit: Visits, server: Server, team: Team) -> None:
    with server.client(team.owner.token) as api:
        tasks = add_column(api, team)
        page = await visit("/", team.member)
        await page.add_init_script(_EARS)
        await page.clock.install()
        await page.goto(f"/{team.world.full_name}")
        await expect(page.locator("[data-live-state=open]")).to_be_attached()
        go_on = asyncio.Event()

        async def hold(route: Route) -> None:
            if route.request.method == "POST":
                await go_on.wait()
            await route.continue_()

        await page.route("**/*", hold)
        await page.get_by_label("Add a card").fill("Slowly sent")
        await page.keyboard.press("Enter")
        await expect(page.locator("form[aria-busy=true]")).to_be_attached()
        before = await page.evaluate("window.heard")
        api.post(tasks, json={"title": "From afar"}).raise_for_status()
        await page.wait_for_function("before => window.heard > before", arg=before)
        await page.clock.run_for(_GATHERED_MS)
        go_on.set()
        await expect(page.get_by_role("link", name="Slowly sent")).to_be_visible()
        await page.clock.run_for(_GATHERED_MS)
        await expect(page.get_by_role("link", name="From afar")).to_be_visible()
        there = api.get(tasks).json()["tasks"]
        assert sorted(each["title"] for each in there) == ["From afar", "Slowly sent"]


async def test_times_stay_localized_after_a_refresh(visit: Visits, server: Server, team: Team) -> None:
    with server.client(team.owner.token) as api:
        tasks = add_column(api, team)
        body = {"title": "Due", "deadline": "2031-05-06T12:00:00Z"}
        api.post(tasks, json=body).raise_for_status()
        page = await visit(f"/{team.world.full_name}", team.member)
        await expect(page.locator("[data-live-state=open]")).to_be_attached()
        await expect(page.locator(".board-card time")).to_have_text("6 May 2031")
        api.post(tasks, json={**body, "title": "From afar", "position": 0})
        await expect(page.get_by_role("link", name="From afar")).to_be_visible()
        await expect(page.locator(".board-card time")).to_have_text(["6 May 2031", "6 May 2031"])


async def test_a_lost_connection_is_reported(visit: Visits, server: Server, team: Team) -> None:
    with server.client(team.owner.token) as api:
        add_column(api, team)
    visit.expect_trouble("ERR_INTERNET_DISCONNECTED")
    visit.expect_trouble("Failed to fetch")
    page = await visit(f"/{team.world.full_name}", team.member)
    await expect(page.locator("[data-live-state=open]")).to_be_attached()
    await page.route("**/*", _refuse)  # `set_offline` still lets through requests sent before it takes effect
    await page.context.set_offline(True)
    await page.get_by_label("Add a card").fill("In a tunnel")
    await page.keyboard.press("Enter")
    told = page.get_by_text("The server didn’t respond.")
    await expect(told).to_be_visible()
    await page.get_by_role("link", name="List").click()
    await expect(told).to_be_visible()
    await expect(page.get_by_label("Add a card")).to_have_value("In a tunnel")
    await page.context.set_offline(False)
    await page.unroute("**/*", _refuse)
    await page.get_by_label("Add a card").press("Enter")
    await expect(page.get_by_role("link", name="In a tunnel")).to_be_visible()
    await expect(told).to_have_count(0)


@pytest.mark.variants("phone")
@pytest.mark.parametrize("phone", [False, True], ids=["desk", "telephone"])
@pytest.mark.parametrize("over", [False, True], ids=["page", "over-the-board"])
async def test_a_lost_connection_is_reported_where_the_user_is_typing(
    visit: Visits, server: Server, team: Team, over: bool, phone: bool
) -> None:
    with server.client(team.owner.token) as api:
        tasks = add_column(api, team)
        task = api.post(tasks, json={"title": "Tunnel"}).json()["task"]["id"]
    visit.expect_trouble("ERR_INTERNET_DISCONNECTED")
    visit.expect_trouble("Failed to fetch")
    base = f"/{team.world.full_name}"
    page = await visit(base if over else f"{base}/tasks/{task}", team.member, width=360 if phone else 1440)
    if over:
        await page.get_by_role("link", name="Tunnel").click()
    comment = page.get_by_label("Add a comment")
    await comment.fill("In a tunnel")
    await page.route("**/*", _refuse)
    await page.get_by_role("button", name="Comment", exact=True).click()
    told = page.get_by_text("The server didn’t respond.")
    await expect(told).to_be_visible()
    await told.click(trial=True)  # nothing covers it
    await page.unroute("**/*", _refuse)
    await page.get_by_role("button", name="Comment", exact=True).click()
    await expect(page.locator(".comments > li")).to_contain_text("In a tunnel")
    await expect(told).to_have_count(0)


async def test_a_page_that_cannot_be_loaded_leaves_the_current_one_intact(
    visit: Visits, server: Server, team: Team
) -> None:
    """The browser believes that it is online."""
    with server.client(team.owner.token) as api:
        add_column(api, team)
    visit.expect_trouble("ERR_INTERNET_DISCONNECTED")
    visit.expect_trouble("Failed to fetch")
    page = await visit(f"/{team.world.full_name}", team.member)
    await page.get_by_label("Add a card").fill("Half a tho")
    await page.route("**/*", _refuse)
    await page.get_by_role("link", name="Calendar").click()
    await expect(page.get_by_text("The server didn’t respond.")).to_be_visible()
    await expect(page.get_by_label("Add a card")).to_have_value("Half a tho")
    await page.unroute("**/*", _refuse)
    await page.get_by_role("link", name="Calendar").click()
    await expect(page).to_have_url(f"{server.url}/{team.world.full_name}/calendar")
