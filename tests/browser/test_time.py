"""The week of a project's time in a browser."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.browser.checks import accessible, fits, keyboard, picture
from tests.browser.people import Team
from tests.browser.visits import Scheme, Visits
from tests.harness.server import Server


def add_task(server: Server, team: Team) -> None:
    with server.client(team.owner.token) as api:
        made = api.post(f"/api/v1/projects/{team.world.project_id}/columns", json={"title": "Doing"})
        column = made.json()["column"]["id"]
        assert api.post(f"/api/v1/columns/{column}/tasks", params={"title": "Draw the page"}).status_code == 200


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "without-scripts"])
async def test_a_timer_runs_and_is_finished(visit: Visits, server: Server, team: Team, scripts: bool) -> None:
    add_task(server, team)
    page = await visit(f"/{team.world.full_name}/time", team.member, scripts=scripts)
    await page.get_by_role("button", name="Start the timer").click()
    running = page.get_by_role("region", name="A timer runs")
    await expect(running).to_contain_text("Draw the page")
    await running.get_by_role("button", name="Finish").click()
    await expect(page.get_by_role("region", name="A timer runs")).to_have_count(0)
    await expect(page.get_by_role("link", name="Edit the entry: Draw the page")).to_be_visible()


async def test_the_page_has_the_days_of_the_browsers_zone(visit: Visits, server: Server, team: Team) -> None:
    add_task(server, team)
    page = await visit(f"/{team.world.full_name}/time", team.owner, timezone_id="Pacific/Auckland")
    await expect(page.get_by_text("time zone Pacific/Auckland")).to_be_visible()


async def test_the_week_is_for_everybody(visit: Visits, server: Server, team: Team, width: int, scheme: Scheme) -> None:
    add_task(server, team)
    path = f"/{team.world.full_name}/time"
    page = await visit(path, team.owner, width=width, scheme=scheme)
    await page.get_by_text("Add time that was spent", exact=True).click()
    await page.get_by_role("button", name="Add the time").click()
    await expect(page.get_by_role("table")).to_contain_text("1:00")
    await page.locator("#toasts .toast").wait_for()
    await page.reload()
    await accessible(page)
    await fits(page)
    assert len(await keyboard(page)) > 10
    await picture(page, "time")
