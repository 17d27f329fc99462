"""Suggestions of people after typing "@": in a task, in a task over the board, and on a file."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import Locator, Page, expect

from tests.browser.checks import accessible, fits, picture
from tests.browser.people import Team
from tests.browser.test_task_over_board import Board, ready
from tests.browser.visits import Scheme, Visits
from tests.harness.server import Server


@pytest.fixture
def board(server: Server, team: Team) -> Board:
    return Board(server, team)


async def listening(page: Page) -> None:
    """Wait until the controller is running, because it loads after the page."""
    await page.wait_for_function("() => document.querySelector('[data-controller~=mention]')?.listens")


def suggestions(page: Page) -> Locator:
    return page.get_by_role("listbox", name="People")


async def chosen(page: Page, field: Locator) -> Locator:
    """Return the option that a screen reader announces."""
    await expect(field).to_have_attribute("aria-expanded", "true")
    return page.locator(f"#{await field.get_attribute('aria-activedescendant')}[aria-selected=true]")


async def test_a_person_is_mentioned_by_keyboard(
    visit: Visits, team: Team, board: Board, width: int, scheme: Scheme
) -> None:
    page = await visit(board.address(), team.owner, width=width, scheme=scheme, reduced_motion="reduce")
    await listening(page)
    field, people = page.get_by_label("Add a comment"), suggestions(page)
    await field.press_sequentially("Ask @")
    await expect(people.get_by_role("option")).to_have_count(2)
    await expect(await chosen(page, field)).to_contain_text(team.member.login)
    await accessible(page)
    await fits(page)
    await picture(page, "mention")
    await page.get_by_role("button", name="Comment", exact=True).click(trial=True)  # nothing covers it
    await page.keyboard.press("ArrowDown")
    await expect(await chosen(page, field)).to_contain_text(team.client.login)
    await page.keyboard.press("ArrowDown")
    await expect(await chosen(page, field)).to_contain_text(team.member.login)
    await page.keyboard.press("ArrowUp")
    await page.keyboard.press("Enter")
    await expect(field).to_have_value(f"Ask @{team.client.login} ")
    await expect(people).to_have_count(0)
    await expect(field).not_to_have_attribute("role", "combobox")
    await field.press_sequentially(f"@{team.member.login[:-1].upper()}")
    await expect(people.get_by_role("option")).to_have_count(1)
    await page.keyboard.press("Tab")
    await expect(field).to_have_value(f"Ask @{team.client.login} @{team.member.login} ")
    await expect(field).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(field).to_have_value(f"Ask @{team.client.login} @{team.member.login} \n")
    await page.get_by_role("button", name="Comment", exact=True).click()
    await expect(page.locator(".comments .mention")).to_have_count(2)


async def test_a_mention_links_from_the_start_page_to_the_comment(
    visit: Visits, team: Team, board: Board, width: int, scheme: Scheme
) -> None:
    text = f"**Look** at this, @{team.client.login}, {'and at all of the rest, ' * 20}"
    board.call(f"/tasks/{board.task}/task_comments", text=text)
    page = await visit("/", team.client, width=width, scheme=scheme, reduced_motion="reduce")
    block = page.get_by_role("region", name="Mentions")
    await expect(block).to_contain_text(f"Look at this, @{team.client.login}, and")
    await accessible(page)
    await fits(page)
    await picture(page, "start-mention")
    await block.get_by_role("link", name="Logo").click()
    await expect(page.locator(".comments .mention-me")).to_have_text(f"@{team.client.login}")
    await expect(page.locator(".comments > li")).to_be_in_viewport()
    assert page.url.startswith(f"{board.address()}#comment-")


async def test_nothing_is_suggested_inside_a_word_or_without_a_match(visit: Visits, team: Team, board: Board) -> None:
    page = await visit(board.address(), team.owner)
    await listening(page)
    field, people = page.get_by_label("Add a comment"), suggestions(page)
    await field.press_sequentially("ada@")
    await expect(people).to_have_count(0)
    await field.press_sequentially(" @")
    await expect(people).to_be_visible()
    await field.press_sequentially("nobody-is-called-so")
    await expect(people).to_have_count(0)
    await field.fill("")
    await field.press_sequentially("@")
    await expect(people).to_be_visible()
    await page.keyboard.press("ArrowLeft")
    await expect(people).to_have_count(0)
    await page.keyboard.press("End")
    await page.keyboard.press("Backspace")
    await field.press_sequentially("@")
    await expect(people).to_be_visible()
    await page.get_by_role("heading", level=1).click()
    await expect(people).to_have_count(0)


async def test_a_person_is_mentioned_by_click_and_the_list_survives_changes_by_others(
    visit: Visits, team: Team, board: Board
) -> None:
    page = await visit(board.address(), team.owner)
    await listening(page)
    await expect(page.locator("main[data-live-state=open]")).to_be_attached()
    await page.locator("#edit-description > summary").click()
    field, people = page.get_by_role("textbox", name="Description"), suggestions(page)
    await field.press_sequentially("\n@")
    await expect(people).to_be_visible()
    body = {"title": "Mark"}
    await asyncio.to_thread(board.call, f"/tasks/{board.task}", method="PATCH", person=team.member, **body)
    await expect(page.get_by_role("heading", level=1)).to_have_text("Mark")
    await expect(people).to_be_visible()
    await people.get_by_role("option", name=team.client.login).click()
    await expect(people).to_have_count(0)
    field = page.get_by_label("Description", exact=True).and_(page.locator("textarea"))
    await expect(field).to_be_focused()
    assert f"@{team.client.login} " in await field.input_value()


async def test_escape_closes_the_list_before_the_task_over_the_board(visit: Visits, team: Team, board: Board) -> None:
    page = await visit(board.base, team.client)
    await ready(page)
    dialog = await board.open(page)
    await listening(page)
    field, people = dialog.get_by_label("Add a comment"), suggestions(page)
    await field.press_sequentially("@")
    await expect(people.get_by_role("option")).to_have_count(2)  # the owner and the member
    await page.keyboard.press("Escape")
    await expect(people).to_have_count(0)
    await expect(dialog).to_be_visible()
    await field.press_sequentially(team.owner.login[0])  # no further match for this letter
    await expect(people).to_have_count(0)
    await field.press_sequentially(" @")
    await expect(people).to_be_visible()
    await page.keyboard.press("Enter")
    await expect(field).to_have_value(f"@{team.owner.login[0]} @{team.owner.login} ")
    await field.fill("")
    await page.keyboard.press("Escape")
    await expect(dialog).to_be_hidden()


async def test_a_person_is_mentioned_in_a_file_comment(visit: Visits, server: Server, team: Team, width: int) -> None:
    with server.client(team.owner.token) as api:
        files = {"file": ("plan.txt", b"x", "text/plain")}
        file = api.post(f"/api/v1/projects/{team.world.project_id}/files", files=files).json()["file"]["id"]
        answer = api.post(f"/api/v1/files/{file}/file_comments", json={"text": "Which?"})
        assert answer.is_success, answer.text
    page = await visit(f"/{team.world.full_name}/files/{file}", team.member, width=width)
    await listening(page)
    await page.get_by_text("Reply", exact=True).click()
    field, people = page.get_by_label("Write a reply"), suggestions(page)
    await field.press_sequentially("@")
    await expect(people.get_by_role("option")).to_have_count(2)
    await accessible(page)
    await fits(page)
    await picture(page, "mention-file")
    await page.keyboard.press("Enter")
    await expect(field).to_have_value(f"@{team.owner.login} ")
    await page.get_by_role("button", name="Send reply").click()
    await expect(page.locator(".replies .mention")).to_have_text(f"@{team.owner.login}")
