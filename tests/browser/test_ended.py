"""A page whose session ends while the user is typing, and messages about the last action."""

from __future__ import annotations

from playwright.async_api import Page, expect

from tests.browser.people import Insider, Team, sign_in
from tests.browser.visits import Visits
from tests.harness.server import Server

ENDED = "You’ve been signed out."


def add_task(server: Server, team: Team) -> str:
    """Create a task and return the path of its page."""
    with server.client(team.owner.token) as api:
        column = api.post(f"/api/v1/projects/{team.world.project_id}/columns", json={"title": "To do"}).json()["column"]
        task = api.post(f"/api/v1/columns/{column['id']}/tasks", json={"title": "Draw the page"}).json()["task"]["id"]
    return f"/{team.world.full_name}/tasks/{task}"


async def sign_out_elsewhere(page: Page) -> None:
    """Sign out in another tab."""
    other = await page.context.new_page()
    await other.goto("/settings")
    await other.locator("header details.menu summary").click()
    await other.get_by_role("button", name="Sign out").click()
    await expect(other.get_by_label("Login or e-mail address")).to_be_visible()
    await other.close()


async def come_back(page: Page, server: Server, person: Insider) -> None:
    await sign_in(page.context, server, person)
    await page.evaluate("window.dispatchEvent(new Event('focus'))")


async def test_typed_text_is_sent_after_signing_in_again(visit: Visits, server: Server, team: Team) -> None:
    visit.expect_trouble("403")
    path = add_task(server, team)
    page = await visit(path, team.member)
    comment = page.get_by_label("Add a comment")
    await comment.fill("Written for an hour")
    await sign_out_elsewhere(page)
    await page.get_by_role("button", name="Comment", exact=True).click()
    ended = page.get_by_role("alert").filter(has_text=ENDED)
    await expect(ended.get_by_role("link", name="Sign in")).to_have_attribute("target", "_blank")
    await come_back(page, server, team.member)
    await expect(page.get_by_text("You’re signed in again.")).to_be_visible()
    await expect(comment).to_have_value("Written for an hour")
    await page.get_by_role("button", name="Comment", exact=True).click()
    await expect(page.locator(".comments > li")).to_contain_text("Written for an hour")
    await expect(page.get_by_role("alert")).to_have_count(0)


async def test_typed_text_is_not_sent_as_another_user(visit: Visits, server: Server, team: Team) -> None:
    visit.expect_trouble("403")
    page = await visit(add_task(server, team), team.member)
    await page.get_by_label("Add a comment").fill("Mine")
    await sign_out_elsewhere(page)
    await page.get_by_role("button", name="Comment", exact=True).click()
    await expect(page.get_by_text(ENDED)).to_be_visible()
    async with page.expect_response(lambda answer: answer.status == 200 and answer.request.resource_type == "fetch"):
        await come_back(page, server, team.owner)
    await page.get_by_role("button", name="Comment", exact=True).click()
    await expect(page.get_by_text(ENDED)).to_be_visible()
    await expect(page.locator(".comments > li")).to_have_count(0)


async def test_a_page_without_live_updates_says_why(visit: Visits, server: Server, team: Team) -> None:
    visit.expect_trouble("404")
    page = await visit(add_task(server, team), team.member)
    await expect(page.locator("[data-live-state=open]")).to_be_attached()
    await sign_out_elsewhere(page)
    await expect(page.get_by_text(ENDED)).to_be_visible()


async def test_deliveries_without_live_updates_say_why(visit: Visits, server: Server, team: Team) -> None:
    visit.expect_trouble("404")
    with server.client(team.owner.token) as api:
        config = {"url": "http://127.0.0.1:9/", "content_type": "json"}
        hook = api.post(f"/repos/{team.world.full_name}/hooks", json={"config": config, "active": False}).json()["id"]
    page = await visit(f"/{team.world.full_name}/webhooks/{hook}/deliveries", team.owner)
    await sign_out_elsewhere(page)
    await expect(page.get_by_text(ENDED)).to_be_visible()


async def test_undo_applies_to_the_last_action(visit: Visits, server: Server, team: Team) -> None:
    add_task(server, team)
    page = await visit(f"/{team.world.full_name}/time", team.member)
    await page.get_by_text("Add time manually", exact=True).click()
    await page.get_by_role("button", name="Add time entry").click()
    await page.get_by_role("link", name="Edit time entry: Draw the page").click()
    await page.get_by_role("button", name="Delete time entry").click()
    messages = page.locator(".toast")
    await expect(messages).to_have_text(["The time entry was deleted. Undo"])
    await page.get_by_role("button", name="Start timer").click()
    await expect(messages).to_have_text(["The timer was started."])
    await expect(page.get_by_role("button", name="Undo")).to_have_count(0)


async def test_a_browser_setting_survives_changes_by_others(visit: Visits, server: Server, team: Team) -> None:
    path = add_task(server, team)
    page = await visit(path, team.member)
    await expect(page.locator("[data-live-state=open]")).to_be_attached()
    await page.keyboard.press("?")
    keys = page.get_by_label("Use single-key shortcuts in this browser")
    await expect(keys).to_be_checked()
    with server.client(team.owner.token) as api:
        task = path.rpartition("/")[2]
        api.post(f"/api/v1/tasks/{task}/task_comments", json={"text": "From afar"}).raise_for_status()
    await expect(page.locator(".comments > li")).to_contain_text("From afar")
    await expect(keys).to_be_checked()
