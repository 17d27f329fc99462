"""Files, subtasks and blockers of a task in a browser, with and without scripts."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from tests.browser.checks import accessible, fits
from tests.browser.people import Team
from tests.browser.visits import Visits
from tests.harness.server import Server


def make(server: Server, team: Team) -> tuple[str, str]:
    """Create two tasks on a board, and return the addresses of the board and of one task."""
    with server.client(team.owner.token) as api:
        project = f"/api/v1/projects/{team.world.project_id}"
        todo = api.post(f"{project}/columns", json={"title": "To do"}).json()["column"]["id"]
        api.post(f"{project}/columns", json={"title": "Done", "finished": True})
        tasks = f"/api/v1/columns/{todo}/tasks"
        made = api.post(tasks, json={"title": "Launch"}).json()["task"]["id"]
        api.post(tasks, json={"title": "Write the texts"})
    base = f"/{team.world.full_name}"
    return base, f"{base}/tasks/{made}"


async def _ready(page: Page) -> None:
    await page.wait_for_function("() => document.documentElement.classList.contains('js')")


async def test_files_are_attached_to_a_task(visit: Visits, server: Server, team: Team) -> None:
    board, task = make(server, team)
    page = await visit(task, team.member)
    await _ready(page)
    await expect(page.locator("#upload-file[multiple]")).to_have_count(1)
    files = [{"name": f"plan {number}.txt", "mimeType": "text/plain", "buffer": b"x"} for number in (1, 2)]
    await page.locator("#upload-file").set_input_files(files)  # type: ignore[arg-type]  # Playwright's format
    await expect(page.locator("#files .rows li").filter(has_text="plan")).to_have_count(2)
    await accessible(page)
    await fits(page)
    await page.get_by_role("button", name="Remove plan 1.txt from the task").click()
    await expect(page.get_by_role("button", name="Remove plan 1.txt from the task")).to_have_count(0)
    await page.goto(board)
    await expect(page.locator(".board-card", has_text="Launch")).to_contain_text("Files: 1")


async def test_a_subtask_is_added_with_enter_and_completed(visit: Visits, server: Server, team: Team) -> None:
    _, task = make(server, team)
    page = await visit(task, team.member)
    await _ready(page)
    field = page.get_by_label("Add a subtask")
    for title in ("Pictures", "Texts"):
        await field.fill(title)
        await field.press("Enter")
        await expect(page.locator("#subtasks .items li", has_text=title)).to_have_count(1)
        await expect(field).to_have_value("")
    await page.get_by_role("button", name="Done: Pictures").click()
    await expect(page.get_by_role("button", name="Done: Pictures")).to_have_attribute("aria-pressed", "true")
    await expect(page.locator("#subtasks .checklist-head")).to_contain_text("1 of 2")
    await accessible(page)
    await fits(page)


@pytest.mark.parametrize("scripts", [True, False])
async def test_a_blocker_is_searched_and_added(visit: Visits, server: Server, team: Team, scripts: bool) -> None:
    _, task = make(server, team)
    page = await visit(task, team.member, scripts=scripts)
    if scripts:
        await _ready(page)
    await page.get_by_label("Search for a blocking task").fill("texts")
    await page.locator("#form-waits button").click()
    await page.get_by_role("button", name="Write the texts").click()
    await expect(page.locator("#waits")).to_contain_text("Complete these tasks first")
    if scripts:
        await accessible(page)
    await fits(page)


async def test_a_recurrence_is_selected(visit: Visits, server: Server, team: Team) -> None:
    _, task = make(server, team)
    page = await visit(task, team.member)
    await _ready(page)
    await page.get_by_label("Repeat", exact=True).select_option("FREQ=DAILY")
    await expect(page.locator("#repeat-words")).to_contain_text("creates the next one, due")
    await fits(page)
