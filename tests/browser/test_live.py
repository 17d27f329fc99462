"""A live page while somebody is at work in it: what others do meanwhile takes nothing away."""

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
_GATHERED_MS = 2000  # more than a page waits for further events


async def _refuse(route: Route) -> None:
    await route.abort("internetdisconnected")


def add_column(api: httpx.Client, team: Team) -> str:
    """The address of its tasks."""
    made = api.post(f"/api/v1/projects/{team.world.project_id}/columns", json={"title": "To do"})
    return f"/api/v1/columns/{made.json()['column']['id']}/tasks"


async def test_a_form_on_its_way_is_not_given_up_for_the_change_of_another(
    visit: Visits, server: Server, team: Team
) -> None:
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


async def test_times_stay_those_of_the_reader_when_the_page_is_refreshed(
    visit: Visits, server: Server, team: Team
) -> None:
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


async def test_who_has_no_connection_is_told(visit: Visits, server: Server, team: Team) -> None:
    with server.client(team.owner.token) as api:
        add_column(api, team)
    visit.expect_trouble("ERR_INTERNET_DISCONNECTED")
    visit.expect_trouble("Failed to fetch")
    page = await visit(f"/{team.world.full_name}", team.member)
    await expect(page.locator("[data-live-state=open]")).to_be_attached()
    await page.route("**/*", _refuse)  # `set_offline` lets through what is sent before the browser has come to it
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
async def test_who_writes_without_a_connection_is_told_where_they_look(
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
    await told.click(trial=True)  # nothing lies over it
    await page.unroute("**/*", _refuse)
    await page.get_by_role("button", name="Comment", exact=True).click()
    await expect(page.locator(".comments > li")).to_contain_text("In a tunnel")
    await expect(told).to_have_count(0)


async def test_a_page_that_cannot_be_had_leaves_this_one_as_it_is(visit: Visits, server: Server, team: Team) -> None:
    """The browser believes that it has a connection."""
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
