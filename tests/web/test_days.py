"""A day is the same day on every page and in every zone, and in what leaves the pages."""

from __future__ import annotations

import csv
import io
import re
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

import workhook.web
from tests.harness.server import Server
from tests.web.browser import Browser
from tests.web.studio import Studio, page_of, send, text_of, undo
from workhook.core.clock import now_ms
from workhook.core.zones import day_in, zone_of
from workhook.web.frame.formats import COOKIE
from workhook.work.chores import CHORES, run_once

ZONES = ("Pacific/Auckland", "America/New_York", "Europe/Berlin", "Pacific/Kiritimati", "Pacific/Pago_Pago", "UTC")
TEMPLATES = Path(workhook.web.__file__).parent / "templates"


def use_zone(browser: Browser, zone: str) -> None:
    browser.client.cookies.set(COOKIE, zone)


def times(page: str) -> set[tuple[str, str]]:
    """What each `<time>` element holds, and how a script shows it."""
    return set(re.findall(r'<time datetime="([^"]*)" data-controller="when" data-when-style-value="([^"]*)"', page))


def tell_of_deadlines(server: Server) -> None:
    [chore] = [each for each in CHORES if each.name == "deadlines"]
    server.run(partial(run_once, chore=chore, now=now_ms()))


def test_every_page_shows_a_deadline_as_a_day(studio: Studio, server: Server) -> None:
    column, login = studio.add_column("To do"), studio.team.owner.login
    day = day_in(now_ms(), UTC) + timedelta(days=1)
    task = studio.add_task(column, "Logo", deadline=day.isoformat(), assignees=[login], repeat="FREQ=DAILY")
    tell_of_deadlines(server)
    paths = (studio.base, f"{studio.base}/list", "/tasks", "/", f"{studio.base}/tasks/{task}", "/inbox")
    for zone in ZONES:
        use_zone(studio.owner, zone)
        for path in paths:
            page = page_of(studio.owner, path)
            assert "Logo" in page, path
            assert not [each for each in times(page) if "T00:00:00" in each[0]], (zone, path)
            assert (day.isoformat(), "day") in times(page) or f'value="{day}"' in page, (zone, path)
        month = page_of(studio.owner, f"{studio.base}/calendar", week=day.isoformat())
        cell = month.partition(f'id="day-{day}"')[2].partition("</td>")[0]
        assert "Logo" in cell, zone


@pytest.mark.parametrize("zone", ZONES)
def test_a_deadline_with_a_time_is_on_the_reader_s_day_everywhere(studio: Studio, zone: str) -> None:
    use_zone(studio.owner, zone)
    task = studio.add_task(studio.add_column("To do"), "Logo", deadline="2026-12-04T23:30:00Z")
    local = datetime(2026, 12, 4, 23, 30, tzinfo=UTC).astimezone(zone_of(zone))
    day = local.date()
    for path in (f"{studio.base}/list", f"{studio.base}/tasks/{task}"):
        assert f'value="{day}"' in page_of(studio.owner, path)
    calendar = page_of(studio.owner, f"{studio.base}/calendar", week=day.isoformat())
    assert "Logo" in calendar.partition(f'id="day-{day}"')[2].partition("</td>")[0]
    # Another day keeps the time of day that the reader sees, on the calendar and on the page of the task.
    moved = datetime(2026, 6, 15, local.hour, local.minute, tzinfo=zone_of(zone)).astimezone(UTC)
    for action, more in (
        (f"{studio.base}/calendar/{task}", {}),
        (f"{studio.base}/tasks/{task}/edit", {"field": "deadline"}),
    ):
        answer = send(studio.owner, action, deadline="2026-06-15", **more)
        assert studio.task(task)["deadline"] == moved.strftime("%Y-%m-%dT%H:%M:%S.000Z")
        undo(studio.owner, answer)
        assert studio.task(task)["deadline"] == "2026-12-04T23:30:00.000Z"


@pytest.mark.parametrize("zone", ZONES)
def test_filters_and_groups_follow_the_reader_s_day(studio: Studio, zone: str) -> None:
    use_zone(studio.owner, zone)
    column, today = studio.add_column("To do"), day_in(now_ms(), zone_of(zone))
    names = ("Task of yesterday", "Task of today", "Task of next week", "Task of next month")
    for name, days in zip(names, (-1, 0, 7, 30), strict=True):
        studio.add_task(column, name, deadline=(today + timedelta(days=days)).isoformat())
    groups = page_of(studio.owner, f"{studio.base}/list", group="deadline")
    text = groups[groups.index("<table") :]
    order = [text.index(each) for each in ("Overdue", names[0], "Due today", names[1], "seven days", names[2])]
    assert order == sorted(order)
    assert text.index("Due later") < text.index(names[3])
    late = text_of(page_of(studio.owner, studio.base, due="overdue"))
    assert [name for name in names if name in late] == [names[0]]


@pytest.mark.parametrize("zone", ZONES)
def test_the_filters_of_lists_leave_out_the_day_that_they_name(studio: Studio, zone: str) -> None:
    use_zone(studio.owner, zone)
    column, late = studio.add_column("To do"), datetime(2026, 12, 4, 23, 30, tzinfo=zone_of(zone))
    studio.add_task(column, "Whole day", deadline="2026-12-04")
    studio.add_task(column, "At night", deadline=late.isoformat())
    for path in (f"{studio.base}/list", f"{studio.base}/list.csv", "/tasks"):
        for query, is_found in (
            ({"deadline_after": "2026-12-04"}, False),
            ({"deadline_before": "2026-12-04"}, False),
            ({"deadline_after": "2026-12-03", "deadline_before": "2026-12-05"}, True),
        ):
            found = studio.owner.get(path, params=query).text
            assert ("Whole day" in found, "At night" in found) == (is_found, is_found), (path, query)


@pytest.mark.parametrize("zone", ZONES[:3])
def test_the_table_of_a_week_has_the_days_of_its_page(studio: Studio, zone: str) -> None:
    use_zone(studio.owner, zone)
    organization = f"/organizations/{studio.team.world.organization}/billing"
    studio.call("PATCH", organization, timezone="Pacific/Pago_Pago")
    task, midnight = studio.add_task(studio.add_column("Doing"), "Logo"), datetime(2026, 1, 5, tzinfo=zone_of(zone))
    for minutes in (-10, 10):
        start = (midnight + timedelta(minutes=minutes)).isoformat()
        studio.call("POST", f"{studio.project}/timesheets", task_id=task, start_time=start, duration="5m")
    table = studio.owner.get("/time/entries.csv?week=2026-01-05").text
    assert [each["date"] for each in csv.DictReader(io.StringIO(table))] == ["2026-01-05"]


def test_an_export_has_a_day_without_a_time(studio: Studio) -> None:
    column = studio.add_column("To do")
    studio.add_task(column, "Day", deadline="2026-12-04")
    studio.add_task(column, "Moment", deadline="2026-12-04T09:00:00Z")
    answer = studio.owner.get(f"{studio.base}/list.csv")
    rows = {each["title"]: each["deadline"] for each in csv.DictReader(io.StringIO(answer.text.lstrip("\ufeff")))}
    assert rows == {"Day": "2026-12-04", "Moment": "2026-12-04T09:00:00.000Z"}


def test_people_are_told_of_a_task_that_is_due_today(studio: Studio, server: Server) -> None:
    column, mine, today = studio.add_column("To do"), [studio.team.owner.login], day_in(now_ms(), UTC)
    studio.add_task(column, "Due now", deadline=today.isoformat(), assignees=mine)
    studio.add_task(column, "Due before", deadline=(today - timedelta(days=1)).isoformat(), assignees=mine)
    tell_of_deadlines(server)
    text = text_of(page_of(studio.owner, "/inbox"))
    assert "“Due now” is due soon" in text
    assert "“Due before” is due soon" not in text


def test_no_template_writes_what_can_be_a_day_as_a_moment() -> None:
    pattern = re.compile(r"\w*(?:deadline|due|period_end|cancel_date|pause_date|expires_next)\|(?:when|time)\b")
    found = [(path.name, pattern.findall(path.read_text())) for path in TEMPLATES.rglob("*.html")]
    assert [each for each in found if each[1]] == []
