"""A live page while somebody is at work in it: what others do meanwhile takes nothing away."""

from __future__ import annotations

import asyncio

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


async def test_a_form_on_its_way_is_not_given_up_for_the_change_of_another(
    visit: Visits, server: Server, team: Team
) -> None:
    with server.client(team.owner.token) as api:
        columns = f"/api/v1/projects/{team.world.project_id}/columns"
        column = api.post(columns, json={"title": "To do"}).json()["column"]["id"]
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
        api.post(f"/api/v1/columns/{column}/tasks", json={"title": "From afar"}).raise_for_status()
        await page.wait_for_function("before => window.heard > before", arg=before)
        await page.clock.run_for(_GATHERED_MS)
        go_on.set()
        await expect(page.get_by_role("link", name="Slowly sent")).to_be_visible()
        await page.clock.run_for(_GATHERED_MS)
        await expect(page.get_by_role("link", name="From afar")).to_be_visible()
        tasks = api.get(f"/api/v1/columns/{column}/tasks").json()["tasks"]
        assert sorted(each["title"] for each in tasks) == ["From afar", "Slowly sent"]
