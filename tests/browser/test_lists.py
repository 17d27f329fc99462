"""The list, calendar, activity, search and trash in a browser: inline changes, drag and drop, and accessibility."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from typing import Any

import pytest
from playwright.async_api import Route, expect

from tests.browser.checks import accessible, fits, keyboard, picture
from tests.browser.people import Team
from tests.browser.visits import Scheme, Visits, hold
from tests.harness.server import Server
from workhook.web.frame.formats import today

PLACES = {"list": "/list?group=column", "calendar": "/calendar", "activity": "/activity", "trash": "/trash"}
TITLES = ("Logo", "A long title that somebody has pasted whole from a briefing " * 4, "<b>Flyer</b>")


def fill(server: Server, team: Team) -> list[str]:
    """Create three tasks due today and one in the trash, and return their IDs."""
    with server.client(team.owner.token) as api:

        def call(method: str, path: str, **body: Any) -> Any:
            answer = api.request(method, f"/api/v1{path}", json=body or None)
            assert answer.is_success, answer.text
            return answer.json()

        columns = [
            call("POST", f"/projects/{team.world.project_id}/columns", title=title)["column"]["id"]
            for title in ("To do", "Doing")
        ]
        facts = {"deadline": today().isoformat(), "labels": ["print", "urgent"], "assignees": [team.member.login]}
        tasks = [call("POST", f"/columns/{columns[0]}/tasks", title=title.strip()[:255], **facts) for title in TITLES]
        gone = call("POST", f"/columns/{columns[0]}/tasks", title="Gone")
        call("DELETE", f"/tasks/{gone['task']['id']}")
        return [each["task"]["id"] for each in tasks]


@pytest.mark.parametrize("name", [*PLACES, "search"])
async def test_the_pages_are_accessible(
    visit: Visits, server: Server, team: Team, name: str, width: int, scheme: Scheme
) -> None:
    fill(server, team)
    path = "/search?q=logo" if name == "search" else f"/{team.world.full_name}{PLACES[name]}"
    page = await visit(path, team.member, width=width, scheme=scheme)
    await accessible(page)
    await fits(page)
    assert len(await keyboard(page)) > 3
    await picture(page, name)


async def test_on_a_phone_the_filters_of_the_list_are_collapsed(visit: Visits, server: Server, team: Team) -> None:
    fill(server, team)
    path = f"/{team.world.full_name}/list"
    page = await visit(path, team.member, width=360)
    group = page.get_by_label("Group by")
    await expect(group).to_be_hidden()
    await expect(page.get_by_label("Search tasks")).to_be_visible()
    await page.get_by_role("button", name="Filter").click()
    await group.select_option("column")
    await page.wait_for_url("**group=column**")
    await expect(group).to_be_visible()  # active filters are visible
    await accessible(page)
    await fits(page)
    wide = await visit(path, team.member)
    await expect(wide.get_by_label("Group by")).to_be_visible()
    await expect(wide.get_by_role("button", name="Filter")).to_be_hidden()


async def test_a_click_before_its_script_has_loaded_takes_effect_later(
    visit: Visits, server: Server, team: Team
) -> None:
    fill(server, team)
    page = await visit("/", team.member, width=360)
    pressed = await hold(page, "**/filters*")
    await page.goto(f"/{team.world.full_name}/list", wait_until="domcontentloaded")
    await page.get_by_role("button", name="Filter").click()
    await expect(page.get_by_label("Group by")).to_be_hidden()
    pressed.set()
    await expect(page.get_by_label("Group by")).to_be_visible()


@pytest.mark.variants("locale", "shown")
@pytest.mark.parametrize(("locale", "shown"), [("en-GB", "24 Nov"), ("en-US", "Nov 24"), ("fr-FR", None)])
async def test_dates_follow_the_region_of_the_reader(
    visit: Visits, server: Server, team: Team, locale: str, shown: str | None
) -> None:
    with server.client(team.owner.token) as api:
        column = api.post(f"/api/v1/projects/{team.world.project_id}/columns", json={"title": "To do"}).json()["column"]
        given = {"title": "Logo", "deadline": f"{today().year}-11-24", "assignees": [team.member.login]}
        api.post(f"/api/v1/columns/{column['id']}/tasks", json=given)
    page = await visit("/", team.member, locale=locale)
    await expect(page.locator(".work-list time")).to_have_text(shown or "Nov 24")


async def test_a_priority_is_changed_inline_and_undone(visit: Visits, server: Server, team: Team) -> None:
    fill(server, team)
    page = await visit(f"/{team.world.full_name}/list", team.member)
    await page.get_by_label("Priority of Logo").select_option("high")
    await expect(page.get_by_text("“Logo” was updated.")).to_be_visible()
    await page.get_by_role("button", name="Undo").click()
    await expect(page.get_by_label("Priority of Logo")).to_have_value("")


async def test_a_change_made_before_its_script_has_loaded_is_sent(visit: Visits, server: Server, team: Team) -> None:
    fill(server, team)
    page, came = await visit("/", team.member), asyncio.Event()

    async def wait(route: Route) -> None:
        await came.wait()
        await route.continue_()

    await page.route(re.compile(r"/cell\b[^/]*\.js"), wait)
    await page.goto(f"/{team.world.full_name}/list", wait_until="domcontentloaded")
    await page.get_by_label("Priority of Logo").select_option("high")
    came.set()
    await expect(page.get_by_text("“Logo” was updated.")).to_be_visible()


async def test_assignees_are_selected_in_a_menu(visit: Visits, server: Server, team: Team) -> None:
    [task, *_] = fill(server, team)
    page = await visit(f"/{team.world.full_name}/list", team.owner)
    row = page.locator(f"#row-{task}-1")
    await row.locator("summary").click()
    await row.get_by_label("Octo", exact=True).check()
    await row.get_by_role("button", name="Save").click()
    await expect(row.locator("summary").get_by_role("img", name="Octo")).to_be_visible()


async def test_filters_are_applied_on_selection(visit: Visits, server: Server, team: Team) -> None:
    fill(server, team)
    page = await visit(f"/{team.world.full_name}/list", team.member)
    await page.get_by_label("Priority", exact=True).select_option("high")
    await expect(page).to_have_url(f"{server.url}/{team.world.full_name}/list?priority=high")
    await expect(page.get_by_text("No tasks match these filters.")).to_be_visible()


async def test_a_task_is_dragged_to_another_day(visit: Visits, server: Server, team: Team) -> None:
    [task, *_] = fill(server, team)
    now = today()
    other = now - timedelta(days=1) if now.weekday() else now + timedelta(days=1)
    page = await visit(f"/{team.world.full_name}/calendar?week={now}", team.member)
    await expect(page.locator(f"#day-{now} #due-{task}")).to_be_visible()
    await page.wait_for_function("day => document.querySelector(`#day-${day} ul`).sortable", arg=str(now))
    await page.locator(f"#due-{task} a").drag_to(page.locator(f"#day-{other} ul"))
    await expect(page.locator(f"#day-{other} #due-{task}")).to_be_visible()
    await expect(page.get_by_text("“Logo” is due on")).to_be_visible()


async def test_searches_are_kept_in_the_browser_until_cleared(visit: Visits, team: Team) -> None:
    page = await visit("/search?q=logo", team.member)
    await page.wait_for_function("() => Object.values(localStorage).some(each => each.includes('logo'))")
    await page.goto("/search")
    recent = page.get_by_role("region", name="Recent searches")
    await recent.get_by_role("link", name="logo").click()
    await expect(page).to_have_url("/search?q=logo")
    await page.goto("/search")
    await recent.get_by_role("button", name="Clear recent searches").click()
    await page.reload()
    await expect(page.get_by_role("heading", name="Search")).to_be_visible()
    await expect(recent).to_be_hidden()


async def test_a_calendar_link_is_created_and_turned_off(visit: Visits, team: Team, width: int, scheme: Scheme) -> None:
    page = await visit(f"/{team.world.full_name}/calendar", team.client, width=width, scheme=scheme)
    await page.get_by_role("link", name="Subscribe").click()
    project = page.get_by_role("region", name="Due dates in this project")
    await project.get_by_role("button", name="Create link").click()
    await expect(project.locator("#address")).to_contain_text("/calendar.ics")
    await accessible(page)
    await fits(page)
    assert len(await keyboard(page)) > 6
    await picture(page, "calendar-feed")
    await project.get_by_text("Turn off", exact=True).click()
    await accessible(page)
    await picture(page, "calendar-feed-off")
    await project.get_by_role("button", name="Turn off link").click()
    await expect(page.get_by_text("The link was turned off")).to_be_visible()
    await expect(project.get_by_role("button", name="Create link")).to_be_visible()


@pytest.mark.parametrize("place", ["", "/list"])
async def test_the_list_is_filtered_while_typing(visit: Visits, server: Server, team: Team, place: str) -> None:
    fill(server, team)
    page = await visit(f"/{team.world.full_name}{place}", team.member)
    field = page.get_by_role("searchbox", name=re.compile("Search (cards|tasks)"))
    await field.press_sequentially("Logo")
    await expect(page).to_have_url(re.compile(r"[?]q=Logo"))
    await expect(field).to_be_focused()
    await expect(field).to_have_value("Logo")
    await expect(page.get_by_role("link", name="Logo", exact=True)).to_be_visible()
