"""The board in a browser: drag and drop, keyboard, selection, two concurrent visitors, and its appearance."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from playwright.async_api import CDPSession, Locator, Page, expect

from tests.browser.checks import accessible, fits, keyboard, picture
from tests.browser.people import Team
from tests.browser.visits import Scheme, Visits, wait_for_scripts
from tests.harness.server import Server
from tests.harness.waiting import WAIT_S
from workhook.core.clock import DAY_MS, now_ms, to_seconds_text

LONG = "A long title that somebody has pasted whole from a briefing " * 4


class Filled:
    """A board with three columns, two of which have cards."""

    def __init__(self, server: Server, team: Team) -> None:
        self.base = f"/{team.world.full_name}"
        with server.client(team.owner.token) as api:

            def call(path: str, **body: Any) -> Any:
                answer = api.post(f"/api/v1{path}", json=body)
                assert answer.is_success, answer.text
                return next(each for each in answer.json().values() if isinstance(each, dict))

            project = f"/projects/{team.world.project_id}"
            self.columns = [call(f"{project}/columns", title=each)["id"] for each in ("To do", "Doing", "Done")]
            late, soon = (to_seconds_text(now_ms() + days * DAY_MS)[:10] for days in (-2, 3))
            facts: list[dict[str, Any]] = [
                {"title": "Logo", "labels": ["print", "urgent"], "priority": "high", "deadline": late},
                {"title": "Flyer", "assignees": [team.member.login, team.owner.login], "deadline": soon},
                {"title": LONG.strip()[:255], "sections": {"Steps": {"Ask": "complete", "Draw": "incomplete"}}},
                {"title": "<b>Poster</b>", "labels": ["a label that is as long as labels get " * 6]},
            ]
            self.tasks = [call(f"/columns/{self.columns[0]}/tasks", **each)["id"] for each in facts]
            call(f"/tasks/{self.tasks[0]}/task_comments", text="Which colour?")
            self.other = call(f"/columns/{self.columns[1]}/tasks", title="Website")["id"]

    def card(self, page: Page, task_id: str, column: int) -> Any:
        return page.locator(f"#{self.columns[column]} #{task_id}")


@pytest.fixture
def filled(server: Server, team: Team) -> Filled:
    return Filled(server, team)


async def ready(page: Page) -> None:
    """Wait until all scripts of the board are running. They load one after the other."""
    await page.wait_for_function("() => document.querySelector('.cards')?.sortable")
    await wait_for_scripts(page)


@pytest.mark.variants("role")
@pytest.mark.parametrize("role", ["owner", "client"])
async def test_the_board_is_accessible(
    visit: Visits, team: Team, filled: Filled, width: int, scheme: Scheme, role: str
) -> None:
    page = await visit(filled.base, team.everybody[role], width=width, scheme=scheme)
    await accessible(page)
    await fits(page)
    if role == "owner":
        assert len(await keyboard(page)) > 10
    await picture(page, f"board-{role}")


async def test_a_dragged_card_moves_for_other_visitors_too(visit: Visits, team: Team, filled: Filled) -> None:
    other = await visit(filled.base, team.member)
    await expect(other.locator("[data-live-state=open]")).to_be_attached()
    page = await visit(filled.base, team.owner)
    await ready(page)
    await page.locator(f"#{filled.tasks[0]} .card-facts").drag_to(page.locator(f"#{filled.other}"))
    await expect(filled.card(page, filled.tasks[0], 1)).to_be_visible()
    await expect(page.get_by_text("“Logo” was moved to position")).to_be_visible()
    await expect(filled.card(other, filled.tasks[0], 1)).to_be_visible()
    await page.get_by_role("button", name="Undo").click()
    await expect(filled.card(other, filled.tasks[0], 0)).to_be_visible()


class Finger:
    """A finger that touches the page. Playwright's own can only tap."""

    def __init__(self, page: Page, session: CDPSession) -> None:
        self.page, self._session = page, session

    async def down(self, on: Locator) -> None:
        self._at = await self._middle(on)
        await self._send("touchStart", [self._at])

    async def move(self, to: Locator, *, steps: int = 12) -> None:
        begin, end = self._at, await self._middle(to)
        for step in range(1, steps + 1):
            self._at = {axis: begin[axis] + (end[axis] - begin[axis]) * step / steps for axis in ("x", "y")}
            await self._send("touchMove", [self._at])

    async def swipe(self, on: Locator, to: Locator) -> None:
        """Scroll without resting, because a finger that rests on a card picks it up."""
        begin, end = await self._middle(on), await self._middle(to)
        between = [
            {axis: begin[axis] + (end[axis] - begin[axis]) * step / 12 for axis in ("x", "y")} for step in range(1, 13)
        ]
        await asyncio.gather(
            self._send("touchStart", [begin]), *(self._send("touchMove", [point]) for point in between)
        )

    async def up(self) -> None:
        await self._send("touchEnd", [])

    async def _send(self, kind: str, points: list[dict[str, float]]) -> None:
        await self._session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    async def _middle(self, of: Locator) -> dict[str, float]:
        box = await of.bounding_box()
        assert box is not None
        return {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}


@pytest.mark.parametrize(("width", "onto"), [(360, 0), (768, 1)], ids=["within", "between"])
async def test_a_card_is_dragged_by_touch(visit: Visits, team: Team, filled: Filled, width: int, onto: int) -> None:
    """On a phone within its column, on a tablet to the next one."""
    page = await visit(filled.base, team.owner, width=width, touch=True)
    await ready(page)
    card = page.locator(f"#{filled.tasks[0]}")
    target = page.locator(f"#{filled.other if onto else filled.tasks[1]}")
    finger = Finger(page, await page.context.new_cdp_session(page))
    await finger.down(card.locator(".card-facts"))
    await expect(card).to_have_class(re.compile("sortable-chosen"))
    await finger.move(target)
    await expect(page.locator("[data-busy]")).to_be_attached()
    await finger.up()
    await expect(page.get_by_text("“Logo” was moved to position")).to_be_visible()
    await expect(filled.card(page, filled.tasks[0], onto)).to_be_visible()


async def test_a_card_is_dragged_to_the_last_column_after_scrolling_by_touch(
    visit: Visits, server: Server, team: Team, filled: Filled
) -> None:
    """Scrolling while dragging does not drop the card, and the board scrolls when a card reaches its edge."""
    with server.client(team.owner.token) as api:
        for number in range(12):
            api.post(f"/api/v1/columns/{filled.columns[0]}/tasks", json={"title": f"Card {number}"}).raise_for_status()
    page = await visit(filled.base, team.owner, width=360, touch=True)
    await ready(page)
    finger = Finger(page, await page.context.new_cdp_session(page))
    low, high = page.get_by_role("link", name="Card 1", exact=True), page.locator(f"#{filled.tasks[0]} .card-facts")
    await finger.swipe(low, high)
    await page.wait_for_function("() => scrollY > 0")
    await finger.up()
    await page.evaluate(_STILL)
    card = page.locator(f"#{filled.tasks[2]}")
    await card.scroll_into_view_if_needed()
    await page.evaluate(_STILL)
    await finger.down(card.locator(".card-facts"))
    await expect(card).to_have_class(re.compile("sortable-chosen"))
    await page.evaluate(_EDGES)
    await finger.move(page.locator(f"#{filled.tasks[3]}"))
    await expect(page.locator("[data-busy]")).to_be_attached()
    last = page.locator(f"#{filled.columns[2]} .cards")
    async with asyncio.timeout(WAIT_S):  # a real finger never rests completely, and scrolling depends on its moves
        while await last.evaluate("list => list.getBoundingClientRect().right > innerWidth + 40"):
            for edge in ("#testing-edge", "#testing-edge-below"):
                await finger.move(page.locator(edge), steps=1)
        while not await last.locator(".board-card").count():
            await finger.move(last, steps=2)
    await finger.up()
    await expect(filled.card(page, filled.tasks[2], 2)).to_be_visible()
    await expect(page.get_by_text("was moved to position 1 in “Done”.")).to_be_visible()


# Resolves when the page has not moved for twenty frames, because it keeps scrolling after the finger is lifted.
_STILL = """async () => {
  const at = () => [scrollX, scrollY, document.querySelector('.board').scrollLeft].join()
  for (let still = 0, before = at(); still < 20;) {
    await new Promise(requestAnimationFrame)
    still = at() === before ? still + 1 : 0
    before = at()
  }
}"""

# Two spots at the right edge of the window, one slightly below the other.
_EDGES = """() => {
  for (const [id, top] of [['testing-edge', '60%'], ['testing-edge-below', '61%']]) {
    const edge = document.createElement('i')
    edge.id = id
    edge.style.cssText = `position: fixed; right: 6px; top: ${top}; width: 4px; height: 4px; pointer-events: none`
    document.body.append(edge)
  }
}"""


async def test_a_card_is_moved_by_keyboard(visit: Visits, team: Team, filled: Filled) -> None:
    page = await visit(filled.base, team.owner)
    await ready(page)
    await page.keyboard.press("j")
    await expect(page.locator(f"#{filled.tasks[0]} .card-title a")).to_be_focused()
    await page.keyboard.press("ArrowDown")
    await expect(page.locator(f"#{filled.tasks[1]} .card-title a")).to_be_focused()
    await page.keyboard.press("Shift+ArrowRight")
    await expect(page.get_by_text("“Flyer” was moved to position 2 in “Doing”.")).to_be_visible()
    await expect(filled.card(page, filled.tasks[1], 1).locator(".card-title a")).to_be_focused()
    await page.keyboard.press("u")
    await expect(filled.card(page, filled.tasks[1], 0)).to_be_visible()


async def test_starting_a_timer_from_a_card_keeps_the_filtered_board(visit: Visits, team: Team, filled: Filled) -> None:
    page = await visit(f"{filled.base}?priority=high", team.owner)
    await ready(page)
    await page.keyboard.press("j")
    await page.keyboard.press("t")
    await expect(filled.card(page, filled.tasks[0], 0).get_by_text("A timer is running")).to_be_attached()
    await expect(page.locator(".top .running")).to_be_visible()
    assert page.url.endswith(f"{filled.base}?priority=high")


async def test_escape_moves_the_focus_from_a_new_card_to_the_other_cards(
    visit: Visits, team: Team, filled: Filled
) -> None:
    page = await visit(filled.base, team.owner)
    await ready(page)
    await page.keyboard.press("c")
    await page.keyboard.type("Not yet")
    await page.keyboard.press("Escape")
    await expect(page.locator(f"#{filled.tasks[3]} .card-title a")).to_be_focused()
    await expect(page.get_by_label("Add a card to To do")).to_have_value("Not yet")


async def test_on_a_phone_the_current_tab_is_visible_and_filters_are_collapsed(
    visit: Visits, team: Team, filled: Filled
) -> None:
    page = await visit(f"{filled.base}/billing", team.owner, width=360)
    tab = page.get_by_role("navigation", name="Project").get_by_role("link", name="Billing")
    await expect(tab).to_be_in_viewport(ratio=1)
    await page.goto(filled.base)
    await ready(page)
    filters, choice = page.get_by_role("button", name="Filter", exact=True), page.get_by_label("Priority").first
    await expect(choice).to_be_hidden()
    await expect(filters).to_have_attribute("aria-expanded", "false")
    await filters.click()
    await choice.select_option("high")
    await expect(page.locator(".board-card")).to_have_count(1)
    await expect(filters).to_have_attribute("aria-expanded", "true")
    await expect(choice).to_be_visible()


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "without-scripts"])
async def test_selected_cards_get_a_label(visit: Visits, team: Team, filled: Filled, scripts: bool) -> None:
    page = await visit(filled.base, team.owner, scripts=scripts)
    bar = page.get_by_role("form", name="Change selected cards")
    await expect(bar).to_be_visible(visible=not scripts)
    for task in filled.tasks[:2]:
        await page.locator(f"#{task} .choose").check()
    await expect(bar).to_be_visible()
    await bar.get_by_label("Label").fill("summer")
    await bar.get_by_role("button", name="Add").click()
    await expect(page.get_by_text("2 cards were updated.")).to_be_visible()
    await expect(page.locator(".board-card .chip", has_text="summer")).to_have_count(2)


async def test_cards_are_selected_by_touch(visit: Visits, team: Team, filled: Filled) -> None:
    page = await visit(filled.base, team.owner, width=360, touch=True, is_mobile=True)
    await ready(page)
    bar, boxes = page.get_by_role("form", name="Change selected cards"), page.locator(".choose:visible")
    await expect(boxes).to_have_count(0)
    await page.locator(f"#{filled.columns[0]}-menu > summary").tap()
    await page.get_by_role("button", name="Select cards").locator("visible=true").tap()
    await expect(bar).to_be_visible()
    await page.locator(f"#{filled.tasks[0]} .choose").tap()
    await expect(bar.get_by_text("1 selected")).to_be_visible()
    await bar.get_by_role("button", name="Clear selection").tap()
    await expect(bar).to_be_hidden()
    await expect(boxes).to_have_count(0)


async def test_selection_and_typed_text_survive_changes_by_others(
    visit: Visits, server: Server, team: Team, filled: Filled
) -> None:
    page = await visit(filled.base, team.owner)
    await ready(page)
    await expect(page.locator("[data-live-state=open]")).to_be_attached()
    await page.locator(f"#{filled.tasks[0]} .choose").check()
    await page.locator(f"#{filled.columns[2]} .add-card input[name=title]").fill("half a sen")
    with server.client(team.owner.token) as api:
        api.post(f"/api/v1/columns/{filled.columns[1]}/tasks", json={"title": "From afar"})
    await expect(page.get_by_role("link", name="From afar")).to_be_visible()
    await expect(page.locator(f"#{filled.tasks[0]} .choose")).to_be_checked()
    await expect(page.locator(f"#{filled.columns[2]} .add-card input[name=title]")).to_have_value("half a sen")
    await page.keyboard.press("Enter")
    await expect(page.locator(f"#{filled.columns[2]}").get_by_role("link", name="half a sen")).to_be_visible()


async def test_an_unchanged_select_is_updated(visit: Visits, server: Server, team: Team, filled: Filled) -> None:
    """A browser selects the first option if the page selects none, which must not count as user input."""
    page = await visit(filled.base, team.owner)
    await expect(page.locator("[data-live-state=open]")).to_be_attached()
    choice = page.locator(f"#{filled.columns[0]}-to option")
    await expect(choice).to_have_text(["Doing", "Done"])
    with server.client(team.owner.token) as api:
        api.post(f"/api/v1/projects/{team.world.project_id}/columns", json={"title": "Later"})
    await expect(choice).to_have_text(["Doing", "Done", "Later"])


async def test_filters_are_kept_until_cleared(visit: Visits, team: Team, filled: Filled) -> None:
    page = await visit(filled.base, team.owner)
    await ready(page)
    await page.get_by_label("Priority").first.select_option("high")
    await expect(page.get_by_text("1 of 5 cards")).to_be_visible()
    await expect(page.locator(".board-card")).to_have_count(1)
    telephone = await visit(filled.base, team.owner, width=360)
    await ready(telephone)
    await expect(telephone.locator(".board-card")).to_have_count(1)
    await telephone.get_by_label("Priority").first.select_option("low")
    await expect(telephone.get_by_text("0 of 5 cards")).to_be_visible()
    await telephone.get_by_role("button", name="Clear filters").click()
    await expect(telephone.locator(".board-card")).to_have_count(5)
    await expect(telephone.get_by_label("Priority").first).to_have_value("")
    await page.goto(filled.base)
    await expect(page.locator(".board-card")).to_have_count(5)


async def test_remembered_filters_are_cleared_one_by_one(visit: Visits, team: Team, filled: Filled) -> None:
    page = await visit(filled.base, team.owner)
    await ready(page)
    await page.get_by_label("Priority").first.select_option("high")
    await expect(page.locator(".board-card")).to_have_count(1)
    await page.goto(filled.base)
    await ready(page)
    await page.get_by_label("Priority").first.select_option("")
    await expect(page.locator(".board-card")).to_have_count(5)
    await expect(page.get_by_role("button", name="Clear filters")).to_have_count(0)


async def test_a_collapsed_column_stays_collapsed(visit: Visits, team: Team, filled: Filled) -> None:
    page = await visit(filled.base, team.owner)
    await ready(page)
    await page.get_by_role("button", name="Collapse Doing").click()
    await expect(page.locator(f"#{filled.other}")).to_be_hidden()
    await page.reload()
    await expect(page.locator(f"#{filled.other}")).to_be_hidden()


async def test_a_column_is_renamed_in_its_menu(visit: Visits, team: Team, filled: Filled) -> None:
    page = await visit(filled.base, team.owner)
    await page.locator(f"#{filled.columns[0]}-menu > summary").click()
    menu = page.locator(f"#{filled.columns[0]}-menu")
    await menu.get_by_label("Name").fill("Ideas")
    await menu.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("heading", name="Ideas")).to_be_visible()


async def test_a_board_with_few_cards_fits_on_a_screen(visit: Visits, team: Team, filled: Filled) -> None:
    page = await visit(filled.base, team.owner)
    assert await page.evaluate("document.documentElement.scrollHeight <= innerHeight")


async def test_a_new_column_is_scrolled_into_view(visit: Visits, team: Team, filled: Filled) -> None:
    page = await visit(f"/{team.world.full_name}", team.owner, width=360)
    field = page.get_by_label("Add a column")
    await field.fill("Later")
    await field.press("Enter")
    await expect(page.get_by_role("heading", name="Later")).to_be_in_viewport(ratio=0.9)
