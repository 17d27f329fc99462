"""The time report of a project: totals, filters, CSV export, and the invoice created from it."""

from __future__ import annotations

import csv
import io
import re

import httpx
import pytest

from tests.browser.people import Insider, Team, make_team
from tests.harness.server import Server
from tests.web.browser import Browser
from tests.web.studio import Studio, page_of, send, text_of

HOSTILE = "<b id=\"evil\">=cmd|'/C calc'!A1"
SPAN = {"from": "2026-01-05", "to": "2026-01-11"}


def spend(studio: Studio, task: str, start: str, ms: int, by: Insider | None = None, **more: object) -> str:
    """Create a finished time entry of the owner or another user and return its ID."""
    person = by or studio.team.owner
    headers = {"Authorization": f"Bearer {person.token}"}
    given = {"task_id": task, "start_time": start, "duration": ms, **more}
    made = studio.api.post(f"/api/v1{studio.project}/timesheets", json=given, headers=headers)
    assert made.is_success, made.text
    return str(made.json()["timesheet"]["id"])


@pytest.fixture
def spent(studio: Studio) -> Studio:
    """Return a studio with entries of 3,601 + 1,799 + 7 s."""
    column = studio.add_column("Doing")
    task, other = studio.add_task(column, HOSTILE), studio.add_task(column, "Other")
    spend(studio, task, "2026-01-05T09:00:00Z", 3_601_000, billable=True, billable_rate=80)
    spend(studio, task, "2026-01-06T22:30:00Z", 1_799_000, by=studio.team.member, billable=True, billable_rate=80)
    spend(studio, other, "2026-01-06T10:00:00Z", 7_000)
    spend(studio, other, "2025-12-31T10:00:00Z", 60_000)  # outside the period
    return studio


def table(browser: Browser, studio: Studio, **query: str) -> list[dict[str, str]]:
    answer = browser.get(f"{studio.base}/time/report.csv", params={**SPAN, **query})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    return list(csv.DictReader(io.StringIO(answer.text, newline="")))


def durations(browser: Browser, studio: Studio, key: str, **query: str) -> dict[str, int]:
    return {row[key]: int(row["duration_ms"]) for row in table(browser, studio, **query)}


def test_totals_are_exact_in_every_grouping(spent: Studio) -> None:
    owner, member = spent.team.owner.login, spent.team.member.login
    assert durations(spent.member, spent, "day") == {"2026-01-05": 3_601_000, "2026-01-06": 1_806_000}
    assert durations(spent.member, spent, "user", by="user") == {owner: 3_608_000, member: 1_799_000}
    assert list(durations(spent.member, spent, "task", by="task").values()) == [5_400_000, 7_000]
    rows = table(spent.member, spent, by="billable")
    assert [(row["billable"], row["timesheets"], row["duration_ms"]) for row in rows] == [
        ("true", "2", "5400000"),
        ("false", "1", "7000"),
    ]
    assert [row["amount"] for row in rows] == ["120.00", "0.00"]


def test_the_figures_match_the_api(spent: Studio) -> None:
    for by in ("day", "user", "task"):
        query = {"project_id": spent.team.world.project_id, "from": "2026-01-05", "to": "2026-01-12", "group_by": by}
        api = spent.api.get("/api/v1/reports/timesheets", params=query).json()["report"]
        assert sorted(each["duration"] for each in api) == sorted(
            int(row["duration_ms"]) for row in table(spent.owner, spent, by=by)
        )


def test_the_chart_and_the_table_show_the_same_data(spent: Studio) -> None:
    for by in ("day", "user", "task", "billable"):
        page = page_of(spent.member, f"{spent.base}/time/report", **SPAN, by=by)
        assert 'role="img" aria-label="Chart: 1:30:07 in total, 1:30 billable.' in page
        assert re.search(r"<tfoot>.*?>Total<.*?>1:30:07<.*?>1\.50<.*?>1:30<.*?>3<.*?>120\.00<", page, re.DOTALL), by
        assert 'id="evil"' not in page
        assert " style=" not in page


def test_the_report_shows_names_days_and_the_currency(spent: Studio) -> None:
    assert send(spent.member, "/settings/profile", name="Lena Maler").status_code == 303
    page = page_of(spent.owner, f"{spent.base}/time/report", **SPAN, by="user")
    assert ">Lena Maler</option>" in page
    assert '">Lena Maler</a>' in page
    text = text_of(page)
    assert "Amount in USD" in text
    assert "January 5 to 11, 2026" in text
    spent.call("PATCH", f"{spent.project}/billing", currency="EUR")
    text = text_of(page_of(spent.owner, f"{spent.base}/time/report", **SPAN))
    assert "January 6, 2026" in text
    assert "(120.00 EUR)." in text


def test_filters_in_the_address_apply(spent: Studio) -> None:
    member = spent.team.member.login
    assert durations(spent.owner, spent, "day", user=member.upper()) == {"2026-01-06": 1_799_000}
    assert durations(spent.owner, spent, "day", user="nobody-there") == {}
    assert durations(spent.owner, spent, "day", billable="false") == {"2026-01-06": 7_000}
    assert durations(spent.owner, spent, "day", invoiced="true") == {}
    assert durations(spent.owner, spent, "billable", by="billable", billable="false") == {"false": 7_000}
    page = page_of(spent.owner, f"{spent.base}/time/report", **SPAN, user=member)
    assert f'<option value="{member}" selected>' in page


def test_clients_are_not_in_the_list_of_people(spent: Studio) -> None:
    page = page_of(spent.owner, f"{spent.base}/time/report")
    offered = page.partition('<select id="report-user"')[2].partition("</select>")[0]
    team = spent.team
    assert all(f'value="{each.login}"' in offered for each in (team.owner, team.member))
    assert f'value="{team.client.login}"' not in offered


def test_days_follow_the_time_zone_of_the_reader(spent: Studio) -> None:
    """An entry that started at 22:30 UTC started on the next day in Auckland."""
    spent.owner.client.cookies.set("workhook_timezone", "Pacific/Auckland")
    found = durations(spent.owner, spent, "day")
    assert found == {"2026-01-05": 3_601_000, "2026-01-06": 7_000, "2026-01-07": 1_799_000}


def test_exported_cells_are_never_formulas(studio: Studio) -> None:
    task = studio.add_task(studio.add_column("Doing"), "=1+1")
    spend(studio, task, "2026-01-05T09:00:00Z", 60_000)
    assert list(durations(studio.owner, studio, "task", by="task")) == ["'=1+1"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"from": "soon", "to": "2026-01-11"}, "Enter a date"),
        ({"from": "2026-01-05"}, "Enter a date"),
        ({"from": "2026-01-05", "to": "2026-01-04"}, "can’t be before"),
        ({"from": "2024-01-01", "to": "2026-01-01"}, "at most 366 days"),
    ],
)
def test_an_invalid_period_is_refused_and_kept_in_the_form(studio: Studio, given: dict[str, str], words: str) -> None:
    answer = studio.owner.get(f"{studio.base}/time/report", params=given)
    assert answer.status_code == 422
    assert words in text_of(answer.text)
    for name, value in given.items():
        assert re.search(rf'name="{name}"[^>]*value="{value}"', answer.text)
    assert studio.owner.get(f"{studio.base}/time/report.csv", params=given).status_code == 422


def test_numbers_use_the_decimal_mark_of_the_reader(spent: Studio) -> None:
    spent.owner.client.cookies.set("workhook_language", "de")
    page = page_of(spent.owner, f"{spent.base}/time/report", **SPAN)
    assert ">1,50<" in page
    assert ">120,00<" in page
    assert ">0,5\u202fh<" in page  # a grid line of the chart
    assert re.search(r'<rect class="bar-billable" x="\d+\.\d+%"', page), "SVG has points in each language"


def test_a_year_is_charted_in_weeks(spent: Studio) -> None:
    page = page_of(spent.owner, f"{spent.base}/time/report", **{"from": "2025-12-29", "to": "2026-12-27"})
    assert "Each bar is one week" in page
    assert len(re.findall(r"<title>\w+ \d+, 202[56]: ", page)) == 52
    assert "<title>December 29, 2025: 0:01</title>" in page


def test_billable_time_is_invoiced(spent: Studio) -> None:
    report = f"{spent.base}/time/report"
    page = spent.member.get(report, params=SPAN)
    assert "Unbilled time: 1:30 (120.00 USD)." in text_of(page.text)
    made = send(spent.member, f"{report}/invoice", **SPAN, user="", timezone="UTC")
    assert made.status_code == 303, made.text
    draft = page_of(spent.member, made.headers["location"])
    assert "120.00" in draft
    assert "A draft with 2 time entries was created." in draft
    assert durations(spent.owner, spent, "day", invoiced="true") == {"2026-01-05": 3_601_000, "2026-01-06": 1_799_000}
    assert "invoice-form" not in page_of(spent.member, report, **SPAN)
    again = send(spent.member, f"{report}/invoice", **SPAN, user="", timezone="UTC")
    assert again.status_code == 422
    assert "No unbilled time to invoice." in again.text


def test_unbilled_time_is_what_an_invoice_gets(studio: Studio) -> None:
    """It excludes running and paused timers, at the ends of the period as well as within it."""
    task, report = studio.add_task(studio.add_column("Doing"), "Draw"), f"{studio.base}/time/report"
    for start in ("2026-01-05T23:00:00Z", "2026-01-07T09:00:00Z", "2026-01-11T01:00:00Z"):
        spend(studio, task, start, 1_800_000, billable=True, billable_rate=80)
        for step in ("pause", None):
            given = {"task_id": task, "start_time": start, "billable": True, "billable_rate": 80}
            timer = studio.call("POST", f"{studio.project}/timesheets", **given)["timesheet"]["id"]
            if step:
                studio.call("POST", f"/timesheets/{timer}/{step}")
    studio.owner.client.cookies.set("workhook_timezone", "America/New_York")
    text = text_of(page_of(studio.owner, report, **SPAN))
    assert "Unbilled time: 1:30 (120.00 USD)." in text
    made = send(studio.owner, f"{report}/invoice", **SPAN, user="", timezone="America/New_York")
    assert "120.00" in page_of(studio.owner, made.headers["location"])
    assert "invoice-form" not in page_of(studio.owner, report, **SPAN), "only timers are left"


def test_the_time_of_one_person_is_invoiced(spent: Studio) -> None:
    report, member = f"{spent.base}/time/report", spent.team.member.login
    assert send(spent.owner, f"{report}/invoice", **SPAN, user=member, timezone="UTC").status_code == 303
    assert durations(spent.owner, spent, "user", by="user", invoiced="true") == {member: 1_799_000}


def test_clients_and_strangers_cannot_see_the_report(spent: Studio, server: Server) -> None:
    """The stranger owns another organization."""
    other: Team = server.run(make_team)
    answers: list[httpx.Response] = []
    with Browser.of(server, other.owner.login) as stranger:
        for browser in (spent.client, stranger):
            answers += [browser.get(f"{spent.base}/time/{path}", params=SPAN) for path in ("report", "report.csv")]
            answers.append(send(browser, f"{spent.base}/time/report/invoice", **SPAN))
    assert [each.status_code for each in answers] == [404] * 6
    assert durations(spent.owner, spent, "day", invoiced="true") == {}


@pytest.mark.parametrize("login", ["\0", "x" * 3000, "\u202e\U0001f4a9", "' OR 1=1 --"])
def test_an_unknown_person_has_no_time(spent: Studio, login: str) -> None:
    report = f"{spent.base}/time/report"
    assert spent.owner.get(report, params={**SPAN, "user": login}).status_code in (200, 400, 422)
    assert spent.owner.get(f"{spent.base}/time", params={"user": login}).status_code in (200, 400, 422)
    answer = send(spent.owner, f"{report}/invoice", **SPAN, user=login, timezone="UTC")
    assert answer.status_code in (400, 422), answer.text
