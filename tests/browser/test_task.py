"""The page of a task in a browser: accessibility, previews, expandable parts, and concurrent changes by others."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.browser.checks import accessible, fits, keyboard, picture
from tests.browser.people import Team
from tests.browser.visits import Scheme, Visits, hold
from tests.harness.server import Server

TITLE = "Draw the new logo, and everything that somebody has pasted whole into the title " * 3
DESCRIPTION = """## What we need

A **calm** mark that works at *16 px*, see https://example.com/brief?version=2. Ask @{login} for `logo.svg`.

- [x] read the brief
- [ ] sketch three directions

| Place | Width | Colour | Background | Remark |
| --- | ---: | --- | --- | --- |
| Header of the site | 120 px | petrol | white | with the name |
| Favicon | 16 px | petrol | none | without |

> Less is more.

```
https://example.com/an/address/that/is/much/longer/than/any/telephone/is/wide?and=so&on=and-on
```
"""
LABELS = [f"label {number} {'of many ' * (number % 4)}".strip() for number in range(14)]
SECTIONS = {
    "Before it is shown to anybody": {"Three sketches": "complete", "One chosen": "complete", "A" * 200: "incomplete"},
    "Later": {"Print": "incomplete"},
}


def fill(server: Server, team: Team) -> dict[str, str]:
    """Create a task with all kinds of content and an empty one, and return their addresses."""
    with server.client(team.owner.token) as api, server.client(team.member.token) as other:

        def call(path: str, client: Any = api, **body: Any) -> Any:
            answer = client.post(f"/api/v1{path}", json=body)
            assert answer.is_success, answer.text
            return next(each for each in answer.json().values() if isinstance(each, dict))

        column = call(f"/projects/{team.world.project_id}/columns", title="In progress")["id"]
        call(f"/projects/{team.world.project_id}/columns", title="Done")
        facts = {"priority": "high", "deadline": "2026-01-31", "cover_url": "https://example.com/a/long/way/cover.png"}
        full = call(
            f"/columns/{column}/tasks",
            title=TITLE.strip()[:255],
            description=DESCRIPTION.format(login=team.member.login),
            labels=LABELS,
            sections=SECTIONS,
            fields={"Budget": "1,200 EUR", "Brief": "https://example.com/brief"},
            assignees=[team.owner.login, team.member.login],
            **facts,
        )["id"]
        empty = call(f"/columns/{column}/tasks", title="Logo")["id"]
        done = call(f"/projects/{team.world.project_id}/columns", title="Finished", finished=True)["id"]
        for title, place in ((TITLE.strip()[:255], column), ("Colours", done)):
            call(f"/columns/{place}/tasks", title=title, parent_id=full)
        blocker = call(f"/columns/{column}/tasks", title=TITLE.strip()[:255])["id"]
        waits = {"blocked_by": [blocker], "repeat": "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,TU,WE"}
        assert api.patch(f"/api/v1/tasks/{full}", json=waits).is_success
        files = {"file": ("a" * 200 + ".txt", b"a file", "text/plain")}
        path, on_task = f"/api/v1/projects/{team.world.project_id}/files", {"task_id": full, "private": "true"}
        assert api.post(path, files=files, data=on_task).is_success
        call(f"/tasks/{full}/task_comments", text="Looks good to me.")
        call(f"/tasks/{full}/task_comments", other, text=f"@{team.owner.login} not yet:\n\n1. the dot\n2. the *gap*")
        call(f"/tasks/{full}/task_comments", text="They pay late, so no extras.", private=True)
        call(f"/projects/{team.world.project_id}/timesheets", task_id=full)
    base = f"/{team.world.full_name}/tasks"
    return {"task": f"{base}/{full}", "task-empty": f"{base}/{empty}"}


async def _loaded(page: Page) -> None:
    await page.wait_for_function("() => document.documentElement.classList.contains('js')")


@pytest.mark.variants("name")
@pytest.mark.parametrize("name", ["task", "task-empty"])
async def test_the_page_is_accessible(
    visit: Visits, server: Server, team: Team, name: str, width: int, scheme: Scheme
) -> None:
    path = fill(server, team)[name]
    # Such a long page scrolls smoothly to the focus, which takes time.
    page = await visit(path, team.member, width=width, scheme=scheme, reduced_motion="reduce")
    await _loaded(page)
    await picture(page, name)
    await accessible(page)
    await fits(page)
    assert len(await keyboard(page)) > 10
    await page.locator("#history-section > summary").click()
    await expect(page.locator(".happened li").last).to_contain_text("created the task")
    await page.evaluate("document.querySelectorAll('details.unfolding').forEach(each => { each.open = true })")
    await accessible(page)
    await fits(page)
    await picture(page, f"{name}-open")


async def test_the_page_is_accessible_to_a_client(visit: Visits, server: Server, team: Team, width: int) -> None:
    page = await visit(fill(server, team)["task"], team.client, width=width)
    await expect(page.locator("#history-section")).to_have_count(0)
    await expect(page.get_by_text("They pay late")).to_have_count(0)
    await accessible(page)
    await fits(page)
    await picture(page, "task-client")


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "without-scripts"])
async def test_a_comment_is_previewed_before_it_is_sent(
    visit: Visits, server: Server, team: Team, scripts: bool
) -> None:
    path = fill(server, team)["task-empty"]
    page = await visit(path, team.owner, scripts=scripts)
    await page.get_by_label("Add a comment").fill("so **bold** <b>not</b>")
    form = page.locator("#form-comment")
    await form.get_by_label("Hide from clients").check()
    await form.get_by_role("button", name="Preview").click()
    shown = page.get_by_role("region", name="Preview")
    await expect(shown.locator("strong")).to_have_text("bold")
    await expect(shown).to_contain_text("<b>not</b>")
    if scripts:
        await expect(page.get_by_label("Add a comment")).to_have_value("so **bold** <b>not</b>")
    await page.get_by_role("button", name="Comment", exact=True).click()
    comment = page.locator(".comments > li")
    await expect(comment.locator("strong")).to_have_text("bold")
    await expect(comment).to_contain_text("Hidden from clients")
    assert page.url.partition("#")[0] == server.url + path
    if scripts:
        await expect(page.get_by_label("Add a comment")).to_have_value("")


async def test_typed_text_survives_changes_by_others(visit: Visits, server: Server, team: Team) -> None:
    path = fill(server, team)["task-empty"]
    page = await visit(path, team.member)
    await expect(page.locator("main")).to_have_attribute("data-live-state", "open")
    await page.locator("#history-section > summary").click()
    await expect(page.locator(".happened li")).to_have_count(1)
    await page.locator("#edit-description > summary").click()
    field = page.get_by_role("textbox", name="Description")
    await expect(field).to_be_focused()
    await field.fill("is being written")

    def rename() -> None:
        with server.client(team.owner.token) as api:
            answer = api.patch(f"/api/v1/tasks/{path.rpartition('/')[2]}", json={"title": "Mark"})
            assert answer.is_success, answer.text

    await asyncio.to_thread(rename)
    await expect(page.get_by_role("heading", level=1)).to_have_text("Mark")
    await expect(field).to_have_value("is being written")
    await expect(page.locator(".happened li")).to_have_count(2)
    await page.locator("#edit-description").get_by_role("button", name="Save").click()
    await expect(page.locator("#description-section .prose")).to_have_text("is being written")
    await expect(field).to_be_hidden()


@pytest.mark.parametrize("over", [False, True], ids=["page", "over-the-board"])
async def test_checklist_items_are_added_one_after_the_other(
    visit: Visits, server: Server, team: Team, over: bool
) -> None:
    path = fill(server, team)["task-empty"]
    page = await visit(path.rpartition("/tasks/")[0] if over else path, team.member)
    if over:
        await page.locator(f"a[href='{path}']").click()
    await page.locator("#new-checklist summary").click()
    await expect(page.locator("#checklist-section")).to_be_focused()
    await page.keyboard.type("Before Friday")
    await page.keyboard.press("Tab")
    await page.keyboard.type("Ask")
    await page.keyboard.press("Enter")
    items = page.get_by_role("region", name="Before Friday").locator(".items li")
    await expect(items).to_have_text(["Ask"])
    await expect(page.get_by_label("Add an item to Before Friday")).to_be_focused()
    for number, item in enumerate(("Time the tests", "Empty the bin"), 2):
        await page.keyboard.type(item)
        await page.keyboard.press("Enter")
        await expect(items).to_have_count(number)
    await expect(items).to_have_text(["Ask", "Time the tests", "Empty the bin"])
    await expect(page.locator(".top .running")).to_have_count(0)


async def test_a_part_expanded_before_its_script_has_loaded_opens_later(
    visit: Visits, server: Server, team: Team
) -> None:
    path = fill(server, team)["task-empty"]
    page = await visit("/", team.member)
    unfolded = await hold(page, re.compile(r"/task\b[^/]*\.js"))
    await page.goto(path, wait_until="domcontentloaded")
    await page.locator("#new-checklist summary").click()
    await expect(page.locator("#checklist-section")).to_be_visible()
    await expect(page.locator("#checklist-section")).not_to_be_focused()
    unfolded.set()
    await expect(page.locator("#checklist-section")).to_be_focused()


async def test_an_edit_can_be_canceled(visit: Visits, server: Server, team: Team) -> None:
    page = await visit(fill(server, team)["task"], team.member)
    edit = page.locator("#edit-title")
    await page.keyboard.press("e")
    await page.get_by_label("Title", exact=True).fill("Something else")
    await edit.get_by_role("button", name="Cancel").click()
    await expect(page.get_by_label("Title", exact=True)).to_be_hidden()
    await expect(edit.locator("summary")).to_be_focused()
    await page.keyboard.press("e")
    await expect(page.get_by_label("Title", exact=True)).not_to_have_value("Something else")


async def test_checklist_items_and_facts_are_changed_inline(visit: Visits, server: Server, team: Team) -> None:
    page = await visit(fill(server, team)["task"], team.member)
    later = page.get_by_role("region", name="Later")
    await expect(later).to_contain_text("0 of 1")
    await later.get_by_role("button", name="Done: Print").click()
    await expect(later).to_contain_text("1 of 1")
    await page.get_by_label("Priority").select_option("low")
    await expect(page.get_by_text("Saved.")).to_be_visible()
    await page.get_by_role("button", name="Undo").click()
    await expect(page.get_by_label("Priority")).to_have_value("high")
