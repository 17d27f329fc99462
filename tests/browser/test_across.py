"""The lists of all tasks and all invoices in a browser."""

from __future__ import annotations

from playwright.async_api import expect

from tests.browser.checks import accessible, fits, keyboard, picture
from tests.browser.people import Team
from tests.browser.visits import Scheme, Visits
from tests.harness.server import Server


def add_work(server: Server, team: Team) -> None:
    """Add tasks and drafts to the team's project and to another one."""
    with server.client(team.owner.token) as api:
        made = api.post("/api/v1/projects", json={"title": "Elsewhere", "organization": team.world.organization})
        for project in (team.world.project_id, made.json()["project"]["id"]):
            path = f"/api/v1/projects/{project}"
            column = api.post(f"{path}/columns", json={"title": "Doing"}).json()["column"]["id"]
            for title in ("Draw the page", "Build it " * 12):
                more = {"title": title, "deadline": "2020-01-01", "labels": ["home", "garden"], "priority": "high"}
                assert api.post(f"/api/v1/columns/{column}/tasks", json=more).is_success
            assert api.post(f"{path}/invoices", json={"bill_to": "Somebody " * 20}).is_success


async def test_all_tasks_are_accessible(visit: Visits, server: Server, team: Team, width: int, scheme: Scheme) -> None:
    add_work(server, team)
    page = await visit("/", team.member, width=width, scheme=scheme)
    await page.get_by_role("main").get_by_role("link", name="All tasks").click()
    await expect(page.get_by_role("heading", name="All tasks")).to_be_visible()
    await expect(page.get_by_role("link", name="Draw the page")).to_have_count(2)
    await accessible(page)
    await fits(page)
    assert len(await keyboard(page)) > 10
    await picture(page, "all-tasks")


async def test_selecting_a_project_filters_the_tasks(visit: Visits, server: Server, team: Team) -> None:
    add_work(server, team)
    page = await visit("/tasks", team.owner)
    await page.get_by_label("Project", exact=True).select_option(label=f"Elsewhere ({team.world.organization})")
    await expect(page.get_by_role("link", name="Draw the page")).to_have_count(1)
    await page.get_by_role("link", name="Clear filters").click()
    await expect(page.get_by_role("link", name="Draw the page")).to_have_count(2)


async def test_all_invoices_are_accessible(
    visit: Visits, server: Server, team: Team, width: int, scheme: Scheme
) -> None:
    add_work(server, team)
    page = await visit("/", team.owner, width=width, scheme=scheme)
    await page.locator("summary", has_text="Account menu").click()
    await page.get_by_role("link", name="All invoices").click()
    await expect(page.get_by_role("heading", name="All invoices")).to_be_visible()
    await expect(page.get_by_role("link", name="Draft invoice")).to_have_count(2)
    await accessible(page)
    await fits(page)
    await picture(page, "all-invoices")
