"""The tracked time of a project in a browser."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import pytest
from playwright.async_api import expect

from tests.browser.checks import accessible, fits, keyboard, picture, roomy
from tests.browser.people import Team
from tests.browser.visits import Scheme, Visits
from tests.harness.server import Server
from workhook.core.clock import now_ms, to_millis_text


def add_task(server: Server, team: Team) -> None:
    with server.client(team.owner.token) as api:
        made = api.post(f"/api/v1/projects/{team.world.project_id}/columns", json={"title": "Doing"})
        column = made.json()["column"]["id"]
        assert api.post(f"/api/v1/columns/{column}/tasks", params={"title": "Draw the page"}).status_code == 200


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "without-scripts"])
async def test_a_timer_runs_and_is_finished(visit: Visits, server: Server, team: Team, scripts: bool) -> None:
    add_task(server, team)
    page = await visit(f"/{team.world.full_name}/time", team.member, scripts=scripts)
    await page.get_by_role("button", name="Start timer").click()
    running = page.get_by_role("region", name="A timer is running")
    await expect(running).to_contain_text("Draw the page")
    await running.get_by_role("button", name="Finish").click()
    await expect(page.get_by_role("region", name="A timer is running")).to_have_count(0)
    await expect(page.get_by_role("link", name="Edit time entry: Draw the page")).to_be_visible()


async def test_days_follow_the_time_zone_of_the_browser(visit: Visits, server: Server, team: Team) -> None:
    add_task(server, team)
    page = await visit(f"/{team.world.full_name}/time", team.owner, timezone_id="Pacific/Auckland")
    await expect(page.get_by_text("Pacific/Auckland time zone")).to_be_visible()


async def test_the_second_page_already_uses_the_time_zone_of_the_browser(
    visit: Visits, server: Server, team: Team
) -> None:
    """Turbo loads the second page, which arrives in the browser's time zone without a second request."""
    add_task(server, team)
    page = await visit(f"/{team.world.full_name}", team.owner, timezone_id="Europe/Berlin")
    await page.get_by_role("navigation").get_by_role("link", name="Time", exact=True).first.click()
    await expect(page.get_by_text("Europe/Berlin time zone")).to_be_visible()


async def test_pages_follow_a_changed_time_zone_of_the_browser(visit: Visits, server: Server, team: Team) -> None:
    """The next page shown by Turbo was made for the old time zone and is requested again."""
    add_task(server, team)
    page = await visit(f"/{team.world.full_name}/time", team.owner, timezone_id="Europe/Berlin")
    await expect(page.get_by_text("Europe/Berlin time zone")).to_be_visible()
    await page.evaluate("""() => {
        const { resolvedOptions } = Intl.DateTimeFormat.prototype
        Intl.DateTimeFormat.prototype.resolvedOptions = function () {
            return { ...resolvedOptions.call(this), timeZone: "Pacific/Auckland" }
        }
    }""")
    places = page.get_by_role("navigation", name="Time", exact=True)
    await places.get_by_role("link", name="Report").click()
    await expect(page.get_by_text("Pacific/Auckland time zone")).to_be_visible()


async def test_the_week_is_accessible(visit: Visits, server: Server, team: Team, width: int, scheme: Scheme) -> None:
    add_task(server, team)
    path = f"/{team.world.full_name}/time"
    page = await visit(path, team.owner, width=width, scheme=scheme)
    await page.get_by_text("Add time manually", exact=True).click()
    await page.get_by_role("button", name="Add time entry").click()
    await expect(page.get_by_role("table")).to_contain_text("1:00")
    await page.locator("#toasts .toast").wait_for()
    await page.reload()
    await accessible(page)
    await fits(page)
    assert len(await keyboard(page)) > 10
    await picture(page, "time")


def add_time(server: Server, team: Team) -> None:
    """Add time entries of two people on two tasks this week, one of them billable. They start now, because an entry
    that ends now may have started last week."""
    with server.client(team.owner.token) as api:
        project = f"/api/v1/projects/{team.world.project_id}"
        column = api.post(f"{project}/columns", json={"title": "Doing"}).json()["column"]["id"]
        for number, (title, person) in enumerate((("Draw the page", team.owner), ("Build it " * 12, team.member))):
            task = api.post(f"/api/v1/columns/{column}/tasks", params={"title": title}).json()["task"]["id"]
            given = {
                "task_id": task,
                "start_time": to_millis_text(now_ms()),
                "duration": 5_400_000 * (number + 1),
                "billable": not number,
                "billable_rate": 80,
            }
            headers = {"Authorization": f"Bearer {person.token}"}
            made = api.post(f"{project}/timesheets", json=given, headers=headers)
            assert made.status_code == 200, made.text


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "without-scripts"])
async def test_the_report_is_filtered_and_invoiced(visit: Visits, server: Server, team: Team, scripts: bool) -> None:
    add_time(server, team)
    page = await visit(f"/{team.world.full_name}/time", team.member, scripts=scripts)
    await page.get_by_role("navigation", name="Time", exact=True).get_by_role("link", name="Report").click()
    await page.get_by_role("link", name="This month").click()
    await page.get_by_role("link", name="Person", exact=True).click()
    await expect(page.get_by_role("img", name="Chart: 4:30 in total, 1:30 billable.")).to_be_visible()
    rows = page.get_by_role("row")
    await expect(rows.filter(has_text=team.member.login)).to_contain_text("3:00")
    await page.get_by_role("combobox", name="Person").select_option(team.owner.login)
    await page.get_by_role("button", name="Filter", exact=True).click()
    await expect(rows.filter(has_text="Total")).to_contain_text("1:30")
    await page.get_by_role("button", name="Create invoice").click()
    await expect(page.get_by_role("main")).to_contain_text("120.00")


@pytest.mark.parametrize("by", ["day", "task"])
async def test_the_report_is_accessible(
    visit: Visits, server: Server, team: Team, width: int, scheme: Scheme, by: str
) -> None:
    add_time(server, team)
    path = f"/{team.world.full_name}/time/report?period=month&by={by}"
    page = await visit(path, team.owner, width=width, scheme=scheme)
    await expect(page.get_by_role("img", name="Chart: ")).to_be_visible()
    await accessible(page)
    await fits(page)
    assert len(await keyboard(page)) > 10
    await picture(page, f"time-report-{by}")


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "without-scripts"])
async def test_a_timer_runs_and_is_finished_on_the_own_time_page(
    visit: Visits, server: Server, team: Team, scripts: bool
) -> None:
    add_time(server, team)
    page = await visit("/time", team.member, scripts=scripts)
    await expect(page.get_by_role("table")).to_contain_text("3:00")
    await page.get_by_role("button", name="Start timer").click()
    running = page.get_by_role("region", name="A timer is running")
    await expect(running).to_contain_text("Website")
    await running.get_by_role("button", name="Pause").click()
    await expect(running).to_have_count(0)
    await page.get_by_role("main").get_by_role("button", name="Resume").click()
    await running.get_by_role("button", name="Finish").click()
    await expect(running).to_have_count(0)
    await expect(page.get_by_role("link", name="Edit time entry")).to_have_count(2)


async def test_keyboard_shortcuts_open_own_time_and_project_time(visit: Visits, server: Server, team: Team) -> None:
    page = await visit("/", team.member)
    await page.keyboard.press("g")
    await page.keyboard.press("t")
    await expect(page.get_by_role("heading", name="My time")).to_be_visible()
    await page.goto(f"/{team.world.full_name}/list")
    await page.keyboard.press("g")
    await page.keyboard.press("t")
    await expect(page.get_by_role("navigation", name="Time", exact=True)).to_be_visible()
    assert page.url.endswith(f"/{team.world.full_name}/time")


async def test_the_own_week_is_accessible(
    visit: Visits, server: Server, team: Team, width: int, scheme: Scheme
) -> None:
    add_time(server, team)
    page = await visit("/time", team.member, width=width, scheme=scheme)
    await page.get_by_role("button", name="Start timer").click()
    await expect(page.get_by_role("region", name="A timer is running")).to_be_visible()
    await page.locator("#toasts .toast").wait_for()
    await page.reload()
    await accessible(page)
    await fits(page)
    assert len(await keyboard(page)) > 10
    await picture(page, "own-time")


async def test_a_client_has_no_link_to_own_time(visit: Visits, team: Team) -> None:
    page = await visit("/", team.client)
    await page.locator("summary", has_text="Account menu").click()
    await expect(page.get_by_role("link", name="Documentation")).to_be_visible()
    await expect(page.get_by_role("link", name="My time")).to_have_count(0)
    await page.goto("/time")
    await expect(page.get_by_text("You have no time entries this week.")).to_be_visible()
    await accessible(page)


async def test_the_start_of_an_added_entry_follows_its_duration(visit: Visits, server: Server, team: Team) -> None:
    add_task(server, team)
    page = await visit(f"/{team.world.full_name}/time", team.owner)
    await page.get_by_text("Add time manually", exact=True).click()
    start, duration = page.get_by_label("Start", exact=True), page.get_by_label("Duration")
    preset = datetime.fromisoformat(await start.input_value())
    for typed, minutes in (("3:00", 180), ("1,5", 90), ("90m", 90), ("2h 15m", 135), ("0:50:12", 51), ("soon", 51)):
        await duration.fill(typed)
        await expect(start).to_have_value(f"{preset + timedelta(minutes=60 - minutes):%Y-%m-%dT%H:%M}")
    await start.fill("2026-01-05T09:00")
    await duration.fill("4:00")
    await expect(start).to_have_value("2026-01-05T09:00")


async def test_on_a_phone_the_week_shows_only_days_with_time(visit: Visits, server: Server, team: Team) -> None:
    add_task(server, team)
    page = await visit(f"/{team.world.full_name}/time", team.owner, width=360)
    await page.get_by_text("Add time manually", exact=True).click()
    await page.get_by_label("Duration").fill("0:50:12")
    await page.get_by_role("button", name="Add time entry").click()
    await expect(page.get_by_text("The time entry was added.")).to_be_visible()
    cells = page.locator(".week tbody td:visible")
    await expect(cells).to_have_text(["0:50:12", "0:50:12"])
    assert re.match(r"\w{3} \d+$", await cells.first.get_attribute("data-label") or "")
    await fits(page)
    await roomy(page)


# The numbers of the table that are not completely visible within the window.
_HIDDEN = """() => [...document.querySelectorAll('.report :is(tbody, tfoot) td')].filter(cell => {
  cell.scrollIntoView({block: 'center', behavior: 'instant'});
  const range = document.createRange();
  range.selectNodeContents(cell);
  const box = range.getBoundingClientRect();
  const y = box.top + box.height / 2;
  const inside = box.left >= 0 && box.right <= innerWidth && box.width > 0;
  return !inside || ![box.left + 1, box.right - 1].every(x => cell.contains(document.elementFromPoint(x, y)));
}).map(cell => cell.textContent)"""


@pytest.mark.parametrize("language", ["en-GB", "de-DE"])
@pytest.mark.parametrize("narrow", [360, 700])
async def test_every_number_of_the_report_is_fully_visible_on_a_phone(
    visit: Visits, server: Server, team: Team, language: str, narrow: int
) -> None:
    add_time(server, team)
    path = f"/{team.world.full_name}/time/report?period=month&by="
    page = await visit(f"{path}task", team.owner, width=narrow, locale=language)
    for by in ("task", "day"):
        await page.goto(path + by)
        assert await page.locator(".report tbody td").count() >= 5
        assert await page.evaluate(_HIDDEN) == []
        await fits(page)
    row = page.locator(".report tfoot tr")
    await expect(row).to_contain_text("4:30")
    label = "Billable time" if language == "en-GB" else "Abrechenbare Zeit"
    await expect(row.locator("td").nth(2)).to_have_attribute("data-label", label)
