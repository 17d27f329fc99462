"""The calendar of deadlines: months and weeks, and a deadline that comes to another day."""

from __future__ import annotations

import html
import re

from tests.harness.server import Server
from tests.web.studio import HOSTILE, Studio, open_studio, page_of, send, text_of, undo
from workhook.web import calendar
from workhook.web.frame.formats import today


def due(page: str) -> dict[str, list[str]]:
    """The titles of what is due, by day."""
    found = {}
    for day, cell in re.findall(r'<td role="cell" id="day-([\d-]+)"(.*?)</td>', page, re.DOTALL):
        titles = re.findall(r'<a href="[^"]*/tasks/[^"]*" draggable="false">(.*?)</a>', cell, re.DOTALL)
        found[day] = [html.unescape(re.sub(r"<span.*?</span>", "", each)) for each in titles]
    return found


def test_a_month_has_whole_weeks_and_what_is_due_in_them(studio: Studio) -> None:
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
    assert "January 29 to February 4 2024" in text_of(week)
    assert f"{studio.base}/calendar?week=2024-01-22" in week


def test_today_is_marked_where_the_address_says_no_month(studio: Studio) -> None:
    before = today()
    pages = [
        page_of(studio.owner, f"{studio.base}/calendar", **query)
        for query in ({}, {"month": "x"}, {"week": "0001-01-01"})
    ]
    for page in pages:
        [day] = re.findall(r'id="day-([\d-]+)" class="today[^"]*" aria-current="date"', page)
        assert before.isoformat() <= day <= today().isoformat()
    assert "Nothing is due in these days." in pages[0]
    assert 'aria-current="date"' not in page_of(studio.owner, f"{studio.base}/calendar", month="1999-12")


def test_a_deadline_comes_to_another_day_and_back(studio: Studio) -> None:
    task = studio.add_task(studio.add_column("To do"), "Logo", deadline="2024-02-28T15:30:00Z")
    action, back = f"{studio.base}/calendar/{task}", "?month=2024-02"
    assert f'action="{action}"' in page_of(studio.member, f"{studio.base}/calendar", month="2024-02")
    answer = send(studio.member, action, deadline="2024-02-29", back=back)
    assert answer.headers["location"] == f"{studio.base}/calendar{back}", answer.text
    assert studio.task(task)["deadline"] == "2024-02-29T15:30:00.000Z"
    assert undo(studio.member, answer).headers["location"] == f"{studio.base}/calendar{back}"
    assert studio.task(task)["deadline"] == "2024-02-28T15:30:00.000Z"
    assert "has no deadline" in studio.member.get(send(studio.member, action, deadline="").headers["location"]).text
    assert studio.task(task)["deadline"] is None
    assert send(studio.member, action, deadline="2024-02-30").status_code == 422


def test_a_person_s_deadlines_alone(studio: Studio) -> None:
    column, member = studio.add_column("To do"), studio.team.member.login
    studio.add_task(column, "Mine", deadline="2024-02-10", assignees=[member])
    studio.add_task(column, "Other", deadline="2024-02-10")
    page = page_of(studio.member, f"{studio.base}/calendar", month="2024-02", assignee=member)
    assert due(page)["2024-02-10"] == ["Mine"]
    assert f"/calendar?month=2024-03&amp;assignee={member}" in page, "the filter stays"


def test_no_more_is_shown_than_a_page_can_bear(studio: Studio) -> None:
    column = studio.add_column("To do")
    create = [
        {"action": "create", "column_id": column, "title": f"Task {number}", "deadline": "2024-02-10"}
        for number in range(50)
    ]
    for _ in range(calendar.TASKS_MAX // 50):
        studio.call("POST", "/tasks/bulk", operations=create)
    page = page_of(studio.owner, f"{studio.base}/calendar", month="2024-02")
    assert len(due(page)["2024-02-10"]) == calendar.TASKS_MAX
    assert "More is due" not in page
    studio.add_task(column, "Later", deadline="2024-02-11")
    page = page_of(studio.owner, f"{studio.base}/calendar", month="2024-02")
    assert sum(map(len, due(page).values())) == calendar.TASKS_MAX
    assert "More is due" in page


def test_a_client_moves_only_its_own(studio: Studio, server: Server) -> None:
    task = studio.add_task(studio.add_column("To do"), HOSTILE, deadline="2024-02-10")
    page = page_of(studio.client, f"{studio.base}/calendar", month="2024-02")
    assert due(page)["2024-02-10"] == [HOSTILE]
    assert f"/calendar/{task}" not in page
    assert "may-move" not in page
    assert send(studio.client, f"{studio.base}/calendar/{task}", deadline="2024-02-11").status_code == 403
    with open_studio(server) as other:
        assert send(other.owner, f"{other.base}/calendar/{task}", deadline="2024-02-11").status_code == 404
    assert studio.task(task)["deadline"] == "2024-02-10T00:00:00.000Z"
