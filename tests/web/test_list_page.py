"""The list of a project's tasks: filters, sorting, groups, inline changes, and the CSV export. Also the calendar."""

from __future__ import annotations

import csv
import html
import io
import re
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

import workhook.web
from tests.harness.server import Server
from tests.web.browser import Browser
from tests.web.studio import HOSTILE, Studio, open_studio, page_of, send, text_of, undo
from workhook.chores import CHORES, run_once
from workhook.core.clock import now_ms
from workhook.core.zones import day_in, zone_of
from workhook.web import calendar
from workhook.web.frame.formats import COOKIE, today


def titles(page: str) -> list[str]:
    return re.findall(r'<th scope="row"[^>]*>.*?<a [^>]*>(.*?)</a>', page, re.DOTALL)


def test_the_list_is_filtered_and_sorted_by_its_address(studio: Studio) -> None:
    to_do, done = studio.add_column("To do"), studio.add_column("Done", stage="done", finished=True)
    member = studio.team.member.login
    studio.add_task(to_do, "Logo", priority="high", labels=["print"], assignees=[member], deadline="2026-03-02")
    studio.add_task(to_do, "Flyer", priority="low", deadline="2026-03-05", description="with the old motto")
    studio.add_task(done, "Motto")
    path = f"{studio.base}/list"
    for query, found in (
        ({}, ["Logo", "Flyer", "Motto"]),
        ({"priority": "high", "label": "", "q": ""}, ["Logo"]),
        ({"label": "print"}, ["Logo"]),
        ({"assignee": member}, ["Logo"]),
        ({"finished": "true"}, ["Motto"]),
        ({"finished": "false"}, ["Logo", "Flyer"]),
        ({"deadline_after": "2026-03-02"}, ["Flyer"]),
        ({"deadline_before": "2026-03-05"}, ["Logo"]),
        ({"q": "motto"}, ["Flyer", "Motto"]),
        ({"sort": "title"}, ["Flyer", "Logo", "Motto"]),
        ({"sort": "-deadline"}, ["Flyer", "Logo", "Motto"]),
        ({"q": "nowhere"}, []),
    ):
        assert titles(page_of(studio.owner, path, **query)) == found, query
    page = page_of(studio.owner, path, sort="title", priority="low")
    assert 'aria-sort="ascending"><a href="?sort=-title&amp;priority=low">' in page
    assert 'aria-sort="none"><a href="?sort=deadline&amp;priority=low">' in page
    assert "No tasks match these filters." in page_of(studio.owner, path, q="nowhere")
    assert studio.owner.get(f"{path}?priority=urgent").status_code == 422


def test_tasks_are_grouped_and_may_appear_in_several_groups(studio: Studio) -> None:
    column = studio.add_column("To do")
    people = [studio.team.owner.login, studio.team.member.login]
    names = ["Octo", studio.team.member.login]
    studio.add_task(column, "Logo", assignees=people, labels=["print"], deadline="2020-01-01")
    studio.add_task(column, "Flyer")
    path = f"{studio.base}/list"

    def groups(by: str) -> list[tuple[str, list[str]]]:
        page = page_of(studio.owner, path, group=by)
        parts = re.split(r"<h2>(.*?) <span", page)[1:]
        return [(parts[at], titles(parts[at + 1])) for at in range(0, len(parts), 2)]

    assert groups("column") == [("To do", ["Logo", "Flyer"])]
    assert groups("label") == [("print", ["Logo"]), ("No label", ["Flyer"])]
    assert groups("deadline") == [("Overdue", ["Logo"]), ("No due date", ["Flyer"])]
    assert groups("person") == [
        *((each, ["Logo"]) for each in sorted(names, key=str.casefold)),
        ("Unassigned", ["Flyer"]),
    ]
    ids = re.findall(r' id="([^"]+)"', page_of(studio.owner, path, group="person"))
    assert len(ids) == len(set(ids))


def test_a_field_is_changed_inline_and_the_change_undone(studio: Studio) -> None:
    to_do, doing = studio.add_column("To do"), studio.add_column("Doing")
    member = studio.team.member.login
    task = studio.add_task(to_do, "Logo", priority="low", deadline="2026-03-02T15:30:00Z")
    action, back = f"{studio.base}/list/{task}", "?sort=title&group=column"
    changes: tuple[tuple[dict[str, str], str, object], ...] = (
        ({"priority": "high"}, "priority", "high"),
        ({"priority": ""}, "priority", None),
        ({"deadline": "2026-04-01"}, "deadline", "2026-04-01T15:30:00.000Z"),
        ({"deadline": ""}, "deadline", None),
        ({"column_id": doing}, "column", {"id": doing, "title": "Doing"}),
    )
    for fields, name, value in changes:
        before = studio.task(task)[name]
        answer = send(studio.member, action, back=back, **fields)
        assert (answer.status_code, answer.headers["location"]) == (303, f"{studio.base}/list{back}"), answer.text
        assert studio.task(task)[name] == value
        assert undo(studio.member, answer).headers["location"] == f"{studio.base}/list{back}"
        assert studio.task(task)[name] == before
    answer = send(studio.member, action, people="1", **{f"person-{member}": "on"})
    assert [each["login"] for each in studio.task(task)["assignees"]] == [member]
    undo(studio.member, answer)
    assert studio.task(task)["assignees"] == []


def test_a_form_redirects_only_to_the_list(studio: Studio) -> None:
    task = studio.add_task(studio.add_column("To do"), "Logo")
    for back in ("https://evil.example/", "//evil.example", "?a=b\r\nSet-Cookie: a=b", "/settings"):
        answer = send(studio.owner, f"{studio.base}/list/{task}", priority="low", back=back)
        assert answer.status_code == 303
        assert answer.headers["location"].partition("?")[0] == f"{studio.base}/list"
        assert "set-cookie: a" not in str(answer.headers).lower().replace("workhook_note", "")


def test_assignees_are_selected_on_their_own_page(studio: Studio) -> None:
    task = studio.add_task(studio.add_column("To do"), "Logo", assignees=[studio.team.owner.login])
    page = page_of(studio.member, f"{studio.base}/list/{task}/people", group="7")
    assert f'name="person-{studio.team.owner.login}" checked' in page
    assert f'name="person-{studio.team.member.login}">' in page
    assert f'name="person-{studio.team.client.login}">' in page
    assert f'<turbo-frame id="people-{task}-7">' in page


def test_a_client_changes_only_its_own_tasks_and_sees_no_people(studio: Studio) -> None:
    column = studio.add_column("To do")
    task = studio.add_task(column, "Logo", assignees=[studio.team.member.login])
    page = page_of(studio.client, f"{studio.base}/list")
    assert titles(page) == ["Logo"]
    assert f"/list/{task}" not in page, "no form and no choice of people"
    assert "data-live-url-value" not in page
    assert f"<option>{studio.team.owner.login}</option>" not in page
    refused = send(studio.client, f"{studio.base}/list/{task}", priority="high")
    assert refused.status_code == 403
    assert studio.task(task)["priority"] is None


def test_a_task_of_another_project_is_not_found(server: Server, studio: Studio) -> None:
    with open_studio(server) as other:
        task = other.add_task(other.add_column("To do"), "Secret plan")
        for answer in (
            send(studio.owner, f"{studio.base}/list/{task}", priority="high"),
            studio.owner.get(f"{studio.base}/list/{task}/people"),
            studio.owner.get(f"{other.base}/list"),
            studio.owner.get(f"{other.base}/list.csv"),
        ):
            assert answer.status_code == 404
            assert "Secret plan" not in answer.text
        assert other.task(task)["priority"] is None


def test_the_export_contains_all_matching_tasks_and_no_formulas(studio: Studio) -> None:
    column = studio.add_column("To do")
    studio.add_task(column, "=HYPERLINK(1)", labels=["+1", "b"], deadline="2026-03-02")
    studio.add_task(column, "Flyer", priority="low")
    answer = studio.member.get(f"{studio.base}/list.csv?priority=&sort=-title")
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.headers["content-disposition"] == 'attachment; filename="website-tasks.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["title"] for row in rows] == ["Flyer", "'=HYPERLINK(1)"]
    assert rows[1]["labels"] == "'+1\nb"
    assert rows[1]["deadline"] == "2026-03-02"
    assert len(list(csv.DictReader(io.StringIO(studio.member.get(f"{studio.base}/list.csv?priority=low").text)))) == 1


def test_a_long_list_is_paginated(studio: Studio) -> None:
    column = studio.add_column("To do")
    operations = [{"action": "create", "column_id": column, "title": f"Task {number:03}"} for number in range(60)]
    studio.call("POST", "/tasks/bulk", operations=operations)
    path = f"{studio.base}/list"
    first = page_of(studio.owner, path, sort="title")
    [more] = re.findall(r'href="(\?[^"]*)" rel="next"', first)
    second = page_of(studio.owner, path + more.replace("&amp;", "&"))
    assert titles(first) + titles(second) == [f"Task {number:03}" for number in range(60)]
    assert 'rel="next"' not in second
    assert len(studio.owner.get(f"{path}.csv").text.splitlines()) == 61


def test_hostile_texts_are_escaped(studio: Studio) -> None:
    column = studio.add_column(HOSTILE)
    studio.add_task(column, HOSTILE, labels=[HOSTILE])
    for group in ("", "column", "label", "person"):
        page = page_of(studio.owner, f"{studio.base}/list", group=group, q="img", label=HOSTILE)
        assert "<img src=x" not in page
        assert HOSTILE in text_of(page)


def test_an_empty_list_suggests_the_next_step(studio: Studio) -> None:
    assert "No tasks yet. Add a task on the board" in text_of(page_of(studio.owner, f"{studio.base}/list"))


def test_an_archived_project_has_no_forms(studio: Studio) -> None:
    task = studio.add_task(studio.add_column("To do"), "Logo")
    studio.call("PATCH", studio.project, archive=True)
    for path in ("", "/list"):
        assert "This project is archived" in text_of(page_of(studio.client, studio.base + path))
    page = page_of(studio.owner, f"{studio.base}/list")
    assert titles(page) == ["Logo"]
    assert f"/list/{task}" not in page


def test_a_label_has_its_project_color_on_every_page(studio: Studio) -> None:
    studio.call("PATCH", studio.project, label_colors={"Urgent": "red", "Later": "sky"})
    task = studio.add_task(studio.add_column("To do"), "Logo", labels=["Urgent", "Later"])
    for path in (studio.base, f"{studio.base}/list", f"{studio.base}/tasks/{task}", "/tasks"):
        shown = re.findall(r'chip hue-(\d+)"[^>]*>(?:<span[^>]*>)?(\w+)', page_of(studio.owner, path))
        assert shown == [("0", "Urgent"), ("6", "Later")], path


# --- calendar page ---------------------------------------------------------------------------------------------------
# The calendar of due dates by month and week, and moving a due date to another day.


def due(page: str) -> dict[str, list[str]]:
    """Return the titles of due tasks by day."""
    found = {}
    for day, cell in re.findall(r'<td role="cell" id="day-([\d-]+)"(.*?)</td>', page, re.DOTALL):
        titles = re.findall(r'<a href="[^"]*/tasks/[^"]*" draggable="false">(.*?)</a>', cell, re.DOTALL)
        found[day] = [html.unescape(re.sub(r"<span.*?</span>", "", each)) for each in titles]
    return found


def test_a_month_shows_whole_weeks_with_their_due_tasks(studio: Studio) -> None:
    column = studio.add_column("To do")
    for day in ("2024-01-28", "2024-01-29", "2024-02-29", "2024-03-03T23:59:59.999Z", "2024-03-04"):
        studio.add_task(column, f"Due {day}", deadline=day)
    studio.add_task(column, "Never")
    page = page_of(studio.owner, f"{studio.base}/calendar", month="2024-02")
    days = due(page)
    assert (min(days), max(days), len(days)) == ("2024-01-29", "2024-03-03", 35)
    assert {day: titles for day, titles in days.items() if titles} == {
        "2024-01-29": ["Due 2024-01-29"],
        "2024-02-29": ["Due 2024-02-29"],
        "2024-03-03": ["Due 2024-03-03T23:59:59.999Z"],
    }
    assert 'href="' + studio.base + '/calendar?month=2024-01"' in page
    assert 'href="' + studio.base + '/calendar?month=2024-03"' in page
    assert "February 2024" in text_of(page)
    week = page_of(studio.owner, f"{studio.base}/calendar", week="2024-02-01")
    assert list(due(week)) == ["2024-01-29", "2024-01-30", "2024-01-31", *(f"2024-02-0{day}" for day in range(1, 5))]
    assert "January 29 to February 4, 2024" in text_of(week)
    assert f"{studio.base}/calendar?week=2024-01-22" in week


def test_the_calendar_defaults_to_today(studio: Studio) -> None:
    before = today()
    pages = [
        page_of(studio.owner, f"{studio.base}/calendar", **query)
        for query in ({}, {"month": "x"}, {"week": "0001-01-01"})
    ]
    for page in pages:
        [day] = re.findall(r'id="day-([\d-]+)" class="today[^"]*" aria-current="date"', page)
        assert before.isoformat() <= day <= today().isoformat()
    assert "Nothing is due in this period." in pages[0]
    assert 'aria-current="date"' not in page_of(studio.owner, f"{studio.base}/calendar", month="1999-12")


def test_a_due_date_is_moved_and_the_move_undone(studio: Studio) -> None:
    task = studio.add_task(studio.add_column("To do"), "Logo", deadline="2024-02-28T15:30:00Z")
    action, back = f"{studio.base}/calendar/{task}", "?month=2024-02"
    assert f'action="{action}"' in page_of(studio.member, f"{studio.base}/calendar", month="2024-02")
    answer = send(studio.member, action, deadline="2024-02-29", back=back)
    assert answer.headers["location"] == f"{studio.base}/calendar{back}", answer.text
    assert studio.task(task)["deadline"] == "2024-02-29T15:30:00.000Z"
    assert undo(studio.member, answer).headers["location"] == f"{studio.base}/calendar{back}"
    assert studio.task(task)["deadline"] == "2024-02-28T15:30:00.000Z"
    assert (
        "no longer has a due date"
        in studio.member.get(send(studio.member, action, deadline="").headers["location"]).text
    )
    assert studio.task(task)["deadline"] is None
    assert send(studio.member, action, deadline="2024-02-30").status_code == 422


def test_the_calendar_is_filtered_by_person(studio: Studio) -> None:
    column, member = studio.add_column("To do"), studio.team.member.login
    studio.add_task(column, "Mine", deadline="2024-02-10", assignees=[member])
    studio.add_task(column, "Other", deadline="2024-02-10")
    page = page_of(studio.member, f"{studio.base}/calendar", month="2024-02", assignee=member)
    assert due(page)["2024-02-10"] == ["Mine"]
    assert f"/calendar?month=2024-03&amp;assignee={member}" in page, "the filter stays"


def test_the_calendar_limits_the_number_of_tasks(studio: Studio) -> None:
    column = studio.add_column("To do")
    create = [
        {"action": "create", "column_id": column, "title": f"Task {number}", "deadline": "2024-02-10"}
        for number in range(50)
    ]
    for _ in range(calendar.TASKS_MAX // 50):
        studio.call("POST", "/tasks/bulk", operations=create)
    page = page_of(studio.owner, f"{studio.base}/calendar", month="2024-02")
    assert len(due(page)["2024-02-10"]) == calendar.TASKS_MAX
    assert "due in this period" not in page
    studio.add_task(column, "Later", deadline="2024-02-11")
    page = page_of(studio.owner, f"{studio.base}/calendar", month="2024-02")
    assert sum(map(len, due(page).values())) == calendar.TASKS_MAX
    assert "due in this period" in page


def test_a_client_moves_only_its_own_tasks(studio: Studio, server: Server) -> None:
    task = studio.add_task(studio.add_column("To do"), HOSTILE, deadline="2024-02-10")
    page = page_of(studio.client, f"{studio.base}/calendar", month="2024-02")
    assert due(page)["2024-02-10"] == [HOSTILE]
    assert f"/calendar/{task}" not in page
    assert "may-move" not in page
    assert send(studio.client, f"{studio.base}/calendar/{task}", deadline="2024-02-11").status_code == 403
    with open_studio(server) as other:
        assert send(other.owner, f"{other.base}/calendar/{task}", deadline="2024-02-11").status_code == 404
    assert studio.task(task)["deadline"] == "2024-02-10T00:00:00.000Z"


# --- days ------------------------------------------------------------------------------------------------------------
# A due date without a time is the same day on every page, in every time zone and in every export.


ZONES = ("Pacific/Auckland", "America/New_York", "Europe/Berlin", "Pacific/Kiritimati", "Pacific/Pago_Pago", "UTC")
TEMPLATES = Path(workhook.web.__file__).parent / "templates"


def use_zone(browser: Browser, zone: str) -> None:
    browser.client.cookies.set(COOKIE, zone)


def times(page: str) -> set[tuple[str, str]]:
    """Return the value of each `<time>` element with the style in which a script shows it."""
    return set(re.findall(r'<time datetime="([^"]*)" data-controller="when" data-when-style-value="([^"]*)"', page))


def tell_of_deadlines(server: Server) -> None:
    [chore] = [each for each in CHORES if each.name == "deadlines"]
    server.run(partial(run_once, chore=chore, now=now_ms()))


def test_every_page_shows_a_due_date_as_a_day(studio: Studio, server: Server) -> None:
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
def test_a_due_date_with_a_time_is_on_the_day_of_the_reader(studio: Studio, zone: str) -> None:
    use_zone(studio.owner, zone)
    task = studio.add_task(studio.add_column("To do"), "Logo", deadline="2026-12-04T23:30:00Z")
    local = datetime(2026, 12, 4, 23, 30, tzinfo=UTC).astimezone(zone_of(zone))
    day = local.date()
    for path in (f"{studio.base}/list", f"{studio.base}/tasks/{task}"):
        assert f'value="{day}"' in page_of(studio.owner, path)
    calendar = page_of(studio.owner, f"{studio.base}/calendar", week=day.isoformat())
    assert "Logo" in calendar.partition(f'id="day-{day}"')[2].partition("</td>")[0]
    # Moving it to another day keeps the local time of day, both in the calendar and on the page of the task.
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
def test_filters_and_groups_follow_the_day_of_the_reader(studio: Studio, zone: str) -> None:
    use_zone(studio.owner, zone)
    column, today = studio.add_column("To do"), day_in(now_ms(), zone_of(zone))
    names = ("Task of yesterday", "Task of today", "Task of next week", "Task of next month")
    for name, days in zip(names, (-1, 0, 7, 30), strict=True):
        studio.add_task(column, name, deadline=(today + timedelta(days=days)).isoformat())
    groups = page_of(studio.owner, f"{studio.base}/list", group="deadline")
    text = groups[groups.index("<table") :]
    order = [text.index(each) for each in ("Overdue", names[0], "Due today", names[1], "next 7 days", names[2])]
    assert order == sorted(order)
    assert text.index("Due later") < text.index(names[3])
    for due, found in (("overdue", names[:1]), ("week", names[1:3])):
        shown = text_of(page_of(studio.owner, studio.base, due=due))
        assert tuple(name for name in names if name in shown) == found


@pytest.mark.parametrize("zone", ZONES)
def test_after_and_before_filters_exclude_the_given_day(studio: Studio, zone: str) -> None:
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
def test_the_export_of_a_week_has_the_days_of_its_page(studio: Studio, zone: str) -> None:
    use_zone(studio.owner, zone)
    organization = f"/organizations/{studio.team.world.organization}/billing"
    studio.call("PATCH", organization, timezone="Pacific/Pago_Pago")
    task, midnight = studio.add_task(studio.add_column("Doing"), "Logo"), datetime(2026, 1, 5, tzinfo=zone_of(zone))
    for minutes in (-10, 10):
        start = (midnight + timedelta(minutes=minutes)).isoformat()
        studio.call("POST", f"{studio.project}/timesheets", task_id=task, start_time=start, duration="5m")
    table = studio.owner.get("/time/entries.csv?week=2026-01-05").text
    assert [each["date"] for each in csv.DictReader(io.StringIO(table))] == ["2026-01-05"]


def test_an_export_has_due_dates_without_a_time(studio: Studio) -> None:
    column = studio.add_column("To do")
    studio.add_task(column, "Day", deadline="2026-12-04")
    studio.add_task(column, "Moment", deadline="2026-12-04T09:00:00Z")
    answer = studio.owner.get(f"{studio.base}/list.csv")
    rows = {each["title"]: each["deadline"] for each in csv.DictReader(io.StringIO(answer.text.lstrip("\ufeff")))}
    assert rows == {"Day": "2026-12-04", "Moment": "2026-12-04T09:00:00.000Z"}


def test_assignees_are_notified_of_tasks_due_today(studio: Studio, server: Server) -> None:
    column, mine, today = studio.add_column("To do"), [studio.team.owner.login], day_in(now_ms(), UTC)
    studio.add_task(column, "Due now", deadline=today.isoformat(), assignees=mine)
    studio.add_task(column, "Due before", deadline=(today - timedelta(days=1)).isoformat(), assignees=mine)
    tell_of_deadlines(server)
    text = text_of(page_of(studio.owner, "/inbox"))
    assert "“Due now” is due soon" in text
    assert "“Due before” is due soon" not in text


def test_no_template_formats_a_possible_day_as_a_moment() -> None:
    pattern = re.compile(r"\w*(?:deadline|due|period_end|cancel_date|pause_date|expires_next)\|(?:when|time)\b")
    found = [(path.name, pattern.findall(path.read_text())) for path in TEMPLATES.rglob("*.html")]
    assert [each for each in found if each[1]] == []
