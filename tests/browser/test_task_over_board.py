"""A task over its board: opening and closing, concurrent changes by others, and accessibility."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.async_api import Dialog, Locator, Page, expect

from tests.browser.checks import accessible, fits, picture
from tests.browser.people import Insider, Team
from tests.browser.visits import Scheme, Visits, wait_for_scripts
from tests.harness.server import Server


class Board:
    """A board of two columns, with enough cards that the board and a column both scroll."""

    def __init__(self, server: Server, team: Team) -> None:
        self.server = server
        self.team = team
        self.base = f"/{team.world.full_name}"
        self.columns = [
            self.call(f"/projects/{team.world.project_id}/columns", title=each)["id"] for each in ("To do", "Doing")
        ]
        self.task = self.add("Logo", description="A **calm** mark", sections={"Steps": {"Ask": "incomplete"}})
        self.others = [self.add(f"Card {number}") for number in range(20)]

    def add(self, title: str, **facts: Any) -> str:
        made: str = self.call(f"/columns/{self.columns[0]}/tasks", title=title, **facts)["id"]
        return made

    def call(self, path: str, *, method: str = "POST", person: Insider | None = None, **body: Any) -> Any:
        with self.server.client((person or self.team.owner).token) as api:
            answer = api.request(method, f"/api/v1{path}", json=body)
            assert answer.is_success, answer.text
            return next((each for each in answer.json().values() if isinstance(each, dict)), {}) if body else {}

    def address(self, task: str | None = None) -> str:
        return f"{self.server.url}{self.base}/tasks/{task or self.task}"

    def card(self, page: Page, task: str | None = None) -> Locator:
        return page.locator(f"#title-{task or self.task}")

    async def open(self, page: Page, task: str | None = None) -> Locator:
        """Open the dialog and wait for the task in it."""
        await ready(page)
        await self.card(page, task).click()
        return await loaded(page)


@pytest.fixture
def board(server: Server, team: Team) -> Board:
    return Board(server, team)


async def ready(page: Page) -> None:
    """Wait until the scripts of the board are running."""
    await page.wait_for_function("() => document.getElementById('over')?.listens")
    await wait_for_scripts(page)


async def loaded(page: Page) -> Locator:
    dialog = page.locator("#over")
    await expect(dialog).to_be_visible()
    await expect(dialog.locator("#task")).to_be_visible()
    return dialog


async def live(page: Page) -> None:
    await expect(page.locator("main[data-live-state=open]")).to_be_attached()


def answer(page: Page, *, leave: bool) -> list[str]:
    """Answer every dialog of the page from now on, and return the growing list of questions."""
    asked: list[str] = []

    async def reply(dialog: Dialog) -> None:
        asked.append(dialog.message)
        await (dialog.accept() if leave else dialog.dismiss())

    page.on("dialog", reply)
    return asked


@pytest.mark.variants("role")
@pytest.mark.parametrize("role", ["owner", "client"])
async def test_the_dialog_is_accessible(
    visit: Visits, team: Team, board: Board, width: int, scheme: Scheme, role: str
) -> None:
    page = await visit(
        board.base, team.everybody[role], width=width, scheme=scheme, touch=width == 360, reduced_motion="reduce"
    )
    dialog = await board.open(page)
    await expect(page).to_have_url(board.address())
    await expect(page).to_have_title("Logo · Workhook")
    await expect(dialog.locator("strong", has_text="calm")).to_be_visible()
    await accessible(page)
    await fits(page)
    await picture(page, f"task-over-board-{role}")
    box = await dialog.bounding_box()
    assert box is not None
    assert (box["width"] == 360) == (width == 360), "the whole window of a telephone"


async def test_all_controls_are_reachable_by_keyboard(visit: Visits, team: Team, board: Board) -> None:
    page = await visit(board.base, team.owner, reduced_motion="reduce")
    await ready(page)
    await page.keyboard.press("j")
    await expect(board.card(page)).to_be_focused()
    await page.keyboard.press("Enter")
    dialog = await loaded(page)
    assert await dialog.evaluate("dialog => dialog.contains(document.activeElement)")
    await page.keyboard.press("Escape")
    await expect(dialog).to_be_hidden()
    await expect(board.card(page)).to_be_focused()
    await expect(page).to_have_url(f"{board.server.url}{board.base}")
    await expect(page).to_have_title(re.compile(f"^{re.escape(await page.locator('h1').first.inner_text())} · "))


@pytest.mark.parametrize("way", ["back", "button", "escape", "beside"])
async def test_closing_the_dialog_leaves_the_board_unchanged(visit: Visits, team: Team, board: Board, way: str) -> None:
    page = await visit(board.base, team.owner)
    await ready(page)
    await page.evaluate("document.documentElement.dataset.same = 'yes'")
    await page.locator(f"#{board.others[0]} .choose").check()
    await page.locator(f"#{board.columns[0]} .add-card input[name=title]").fill("half a sen")
    await board.card(page, board.others[9]).scroll_into_view_if_needed()
    before = await page.evaluate("scrollY")
    assert before > 0
    dialog = await board.open(page, board.others[9])
    await expect(dialog.get_by_role("heading", name="Card 9")).to_be_visible()
    if way == "back":
        await page.go_back()
    elif way == "button":
        await dialog.get_by_role("button", name="Close task").click()
    elif way == "escape":
        await page.keyboard.press("Escape")
    else:
        await page.mouse.click(10, 400)
    await expect(dialog).to_be_hidden()
    await expect(page).to_have_url(f"{board.server.url}{board.base}")
    assert await page.evaluate("scrollY") == before
    await expect(page.locator(f"#{board.others[0]} .choose")).to_be_checked()
    await expect(page.locator(f"#{board.columns[0]} .add-card input[name=title]")).to_have_value("half a sen")
    await expect(board.card(page, board.others[9])).to_be_focused()
    await page.go_forward()
    await expect(dialog.get_by_role("heading", name="Card 9")).to_be_visible()
    assert await page.evaluate("document.documentElement.dataset.same") == "yes"


async def test_a_tap_anywhere_on_a_card_opens_it(visit: Visits, team: Team, board: Board) -> None:
    page = await visit(board.base, team.member, width=360, touch=True)
    await ready(page)
    await page.locator(f"#{board.task} .card-facts").tap()
    await loaded(page)
    await expect(page).to_have_url(board.address())


async def test_the_dialog_has_the_address_of_the_task_page(visit: Visits, team: Team, board: Board) -> None:
    page = await visit(f"{board.base}?q=logo", team.owner)
    await board.open(page)
    await page.reload()
    await expect(page.locator("main.task")).to_be_visible()
    await expect(page.locator("#over")).to_have_count(0)
    await expect(page).to_have_url(board.address())
    await page.go_back()
    await expect(page).to_have_url(f"{board.server.url}{board.base}?q=logo")
    await expect(page.locator(".board-card")).to_have_count(1)
    await ready(page)
    await live(page)
    # Otherwise the card would be replaced during the click.
    await expect(page.locator("html[aria-busy]")).to_have_count(0)
    await board.card(page).hover()
    async with page.context.expect_page() as opened:
        await board.card(page).click(modifiers=["ControlOrMeta"])
    await expect(await opened.value).to_have_url(board.address())


async def test_without_scripts_the_card_links_to_the_page(visit: Visits, team: Team, board: Board) -> None:
    page = await visit(board.base, team.owner, scripts=False)
    await board.card(page).click()
    await expect(page.locator("main.task")).to_be_visible()


async def test_typed_text_survives_changes_by_others(visit: Visits, team: Team, board: Board) -> None:
    page = await visit(board.base, team.member)
    other = await visit(board.base, team.owner)
    await live(page)
    dialog, others = await board.open(page), await board.open(other)
    field = dialog.get_by_label("Add a comment")
    await field.press_sequentially("I would ra")
    await others.get_by_label("Priority").select_option("high")
    await others.get_by_label("Add a comment").fill("Which blue?")
    await others.get_by_role("button", name="Comment", exact=True).click()
    await expect(others.locator(".comments .prose")).to_have_text("Which blue?")
    await expect(others.get_by_label("Add a comment")).to_have_value("")
    await expect(dialog.locator(".comments .prose")).to_have_text("Which blue?")
    await expect(dialog.get_by_label("Priority")).to_have_value("high")
    await expect(page.locator(f"#{board.task}")).to_contain_text("High")
    await expect(field).to_be_focused()
    await field.press_sequentially("ther not")
    await expect(field).to_have_value("I would rather not")
    await expect(page).to_have_url(board.address())
    await dialog.get_by_role("button", name="Comment", exact=True).click()
    await expect(dialog.locator(".comments > li")).to_have_count(2)
    await expect(others.locator(".comments > li")).to_have_count(2)
    await expect(field).to_have_value("")


async def test_a_change_is_confirmed_in_the_dialog_and_visible_on_the_board(
    visit: Visits, team: Team, board: Board
) -> None:
    page = await visit(board.base, team.owner)
    await page.evaluate("document.documentElement.dataset.same = 'yes'")
    dialog = await board.open(page)
    await dialog.get_by_label("Add a comment").fill("not yet sent")
    await dialog.get_by_role("button", name="Done: Ask").click()
    await expect(dialog.get_by_role("button", name="Done: Ask")).to_have_attribute("aria-pressed", "true")
    await expect(page.locator(f"#{board.task} .card-facts")).to_contain_text("1/1")
    await dialog.get_by_label("Column").select_option("Doing")
    await expect(dialog.get_by_text("The task was moved.")).to_be_visible()
    await expect(page.locator(f"#{board.columns[1]} #{board.task}")).to_be_attached()
    await dialog.get_by_role("button", name="Undo").click()
    await expect(page.locator(f"#{board.columns[0]} #{board.task}")).to_be_attached()
    await dialog.locator("#edit-title > summary").click()
    await dialog.get_by_label("Title").fill("Word mark")
    await page.keyboard.press("Enter")
    await expect(dialog.get_by_role("heading", name="Word mark")).to_be_visible()
    await expect(board.card(page)).to_have_text("Word mark")
    await expect(page).to_have_title("Word mark · Workhook")
    await dialog.get_by_role("button", name="Start timer").click()
    await expect(dialog.get_by_role("button", name="Pause")).to_be_visible()
    await expect(page.locator(f"#{board.task} .chip.good")).to_be_attached()
    await expect(dialog.get_by_label("Add a comment")).to_have_value("not yet sent")
    await expect(page).to_have_url(board.address())
    await dialog.get_by_label("Add a comment").fill("")
    await page.keyboard.press("Escape")  # no unsaved text remains, so closing needs no confirmation
    await expect(dialog).to_be_hidden()
    assert await page.evaluate("document.documentElement.dataset.same") == "yes"


async def test_a_comment_by_a_client_is_counted_on_the_card(visit: Visits, team: Team, board: Board) -> None:
    """Clients receive no live updates except about their own actions."""
    page = await visit(board.base, team.client)
    dialog = await board.open(page)
    await dialog.get_by_label("Add a comment").fill("Like it")
    await dialog.get_by_role("button", name="Comment", exact=True).click()
    await expect(dialog.locator(".comments .prose")).to_have_text("Like it")
    await expect(page.locator(f"#{board.task} .card-facts")).to_contain_text("Comments: 1")
    await page.keyboard.press("Escape")
    await expect(dialog).to_be_hidden()


async def test_a_refused_change_is_reported_in_the_dialog(visit: Visits, team: Team, board: Board) -> None:
    page = await visit(board.base, team.owner)
    dialog = await board.open(page)
    visit.expect_trouble("status of 422")
    field = dialog.get_by_label("Add a label")
    await field.evaluate("field => { field.maxLength = 999 }")
    await field.fill("x" * 300)
    await page.keyboard.press("Enter")
    await expect(dialog.get_by_role("alert")).to_be_visible()
    await expect(field).to_have_value("x" * 300)
    await expect(dialog.get_by_role("heading", name="Logo")).to_be_visible()


async def test_a_conflict_shows_both_versions(visit: Visits, team: Team, board: Board) -> None:
    page = await visit(board.base, team.member)
    await live(page)
    dialog = await board.open(page)
    visit.expect_trouble("status of 409")
    await dialog.locator("#edit-title > summary").click()
    await dialog.get_by_label("Title").fill("Mine")
    board.call(f"/tasks/{board.task}", method="PATCH", title="Theirs")
    await expect(dialog.get_by_role("heading", name="Theirs")).to_be_visible()
    await page.keyboard.press("Enter")
    await expect(dialog.get_by_text("Your change wasn’t saved.")).to_be_visible()
    await dialog.get_by_role("button", name="Save my version").click()
    await expect(dialog.get_by_role("heading", name="Mine")).to_be_visible()
    await expect(board.card(page)).to_have_text("Mine")


async def test_a_task_is_deleted_and_restored(visit: Visits, team: Team, board: Board) -> None:
    page = await visit(f"{board.base}?q=logo", team.owner)
    await page.evaluate("document.documentElement.dataset.same = 'yes'")
    dialog = await board.open(page)
    await dialog.locator("#task-menu > summary").click()
    await dialog.get_by_role("button", name="Delete", exact=True).click()
    await expect(dialog).to_be_hidden()
    await expect(page.get_by_text("“Logo” was deleted.")).to_be_visible()
    await expect(page.locator(".board-card")).to_have_count(0)
    await expect(page).to_have_url(f"{board.server.url}{board.base}?q=logo")
    assert await page.evaluate("document.documentElement.dataset.same") == "yes"
    await page.get_by_role("button", name="Undo").click()
    await expect(page.get_by_role("heading", name="Logo")).to_be_visible()


async def test_a_copy_replaces_the_open_task(visit: Visits, team: Team, board: Board) -> None:
    page = await visit(board.base, team.owner)
    dialog = await board.open(page)
    await dialog.locator("#task-menu > summary").click()
    await dialog.get_by_role("button", name="Duplicate").click()
    await expect(dialog.get_by_role("heading", name="Copy of Logo")).to_be_visible()
    await expect(page).not_to_have_url(board.address())
    await expect(page.get_by_role("link", name="Copy of Logo")).to_be_attached()
    await page.keyboard.press("Escape")
    await expect(dialog).to_be_hidden()
    await expect(page).to_have_url(f"{board.server.url}{board.base}")


async def test_deletion_by_another_user_is_reported(visit: Visits, team: Team, board: Board) -> None:
    page = await visit(board.base, team.member)
    await live(page)
    dialog = await board.open(page)
    await dialog.get_by_label("Add a comment").fill("a long thought")
    visit.expect_trouble("status of 404")
    board.call(f"/tasks/{board.task}", method="DELETE")
    await expect(dialog.get_by_text("It may have been deleted.")).to_be_visible()
    await expect(dialog.get_by_label("Add a comment")).to_have_value("a long thought")
    await expect(board.card(page)).to_have_count(0)


@pytest.mark.parametrize("way", ["back", "button", "escape", "link"])
async def test_closing_asks_before_typed_text_is_lost(visit: Visits, team: Team, board: Board, way: str) -> None:
    page = await visit(board.base, team.owner)
    board.call(f"/tasks/{board.task}/task_comments", text=f"See {board.server.url}{board.base}/list")
    dialog = await board.open(page)
    field = dialog.get_by_label("Add a comment")

    async def leave() -> None:
        if way == "back":
            await page.evaluate("history.back()")
        elif way == "button":
            await dialog.get_by_role("button", name="Close task").click()
        elif way == "escape":
            await page.keyboard.press("Escape")
        else:
            await dialog.locator(".comments .prose a").click()

    await field.fill("half a sen")
    stays = answer(page, leave=False)
    async with page.expect_event("dialog"):
        await leave()
    await expect(dialog).to_be_visible()
    await expect(field).to_have_value("half a sen")
    await expect(page).to_have_url(board.address())
    assert len(stays) == 1
    assert "unsaved changes" in stays[0]
    await field.fill("")
    await leave()
    await expect(dialog).to_be_hidden()
    await expect(page).to_have_url(f"{board.server.url}{board.base}{'/list' if way == 'link' else ''}")
    assert len(stays) == 1


async def test_closing_asks_only_once_despite_changes_by_others(visit: Visits, team: Team, board: Board) -> None:
    page = await visit(board.base, team.owner)
    await live(page)
    dialog = await board.open(page)
    await dialog.get_by_label("Add a comment").fill("half a sen")
    await page.evaluate("""() => {
      const forward = history.forward.bind(history);
      history.forward = () => { window.goForward = forward; };
    }""")
    stays = answer(page, leave=False)
    async with page.expect_event("dialog"):
        await page.evaluate("history.back()")
    await page.wait_for_function("() => 'goForward' in window")
    new = board.add("Meanwhile")
    await expect(board.card(page, new)).to_be_attached()
    await page.evaluate("goForward()")
    await expect(page).to_have_url(board.address())
    await expect(dialog.get_by_label("Add a comment")).to_have_value("half a sen")
    assert len(stays) == 1


async def test_escape_first_collapses_expanded_parts(visit: Visits, team: Team, board: Board) -> None:
    page = await visit(board.base, team.owner)
    dialog = await board.open(page)
    await page.keyboard.press("e")
    await expect(dialog.get_by_label("Title")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(dialog.get_by_label("Title")).to_be_hidden()
    await expect(dialog).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(dialog).to_be_hidden()


async def test_a_key_on_a_card_opens_a_part_of_its_task(visit: Visits, team: Team, board: Board) -> None:
    page = await visit(board.base, team.owner)
    await ready(page)
    await page.keyboard.press("j")
    await page.keyboard.press("e")
    dialog = await loaded(page)
    await expect(dialog.get_by_label("Title")).to_be_focused()
    await page.go_back()
    await expect(board.card(page)).to_be_focused()
    await page.keyboard.press("a")
    await expect(dialog.get_by_label("Assign someone")).to_be_focused()


async def test_returning_from_another_page_shows_the_whole_board(visit: Visits, team: Team, board: Board) -> None:
    board.call(f"/tasks/{board.task}/task_comments", text=f"See {board.server.url}{board.base}/list")
    page = await visit(board.base, team.owner)
    dialog = await board.open(page)
    await dialog.locator(".comments .prose a").click()
    await expect(page).to_have_url(f"{board.server.url}{board.base}/list")
    await page.go_back()
    await expect(page.locator("main.task")).to_be_visible()
    await page.go_back()
    await expect(page.locator("#board")).to_be_visible()
    await expect(page.locator("#over")).to_be_hidden()
    await board.open(page)
