"""The user's own week in all projects on `/time`, without time of others and without a browser."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import httpx
import pytest

from tests.browser.people import Insider, make_team
from tests.harness.server import Server
from tests.web.browser import Browser, forms
from tests.web.places_kit import join, leave
from tests.web.studio import Studio, open_studio, page_of, send, text_of

WEEK = "/time?week=2026-01-05"
HOSTILE = '<b id="evil">\u202e"😀'


@dataclass
class Both:
    """Two organizations with a task each. `person` is a member of both."""

    server: Server
    first: Studio
    second: Studio
    tasks: tuple[str, str]
    browser: Browser

    @property
    def person(self) -> Insider:
        return self.first.team.member

    def spend(self, studio: Studio, task: str, ms: int, by: Insider, start: str = "2026-01-05T09:00:00Z") -> str:
        given = {"task_id": task, "start_time": start, "duration": ms}
        headers = {"Authorization": f"Bearer {by.token}"}
        made = studio.api.post(f"/api/v1{studio.project}/timesheets", json=given, headers=headers)
        assert made.is_success, made.text
        return str(made.json()["timesheet"]["id"])

    def timers(self) -> list[tuple[str, bool, bool]]:
        """Return the person's timers in both projects: title of the task, whether running, whether finished."""
        found = [
            each
            for studio in (self.first, self.second)
            for each in studio.call("GET", f"{studio.project}/timesheets?user={self.person.login}")["timesheets"]
        ]
        return [(each["task"]["title"], each["is_active"], each["finished"]) for each in found]


@pytest.fixture
def both(server: Server) -> Iterator[Both]:
    with ExitStack() as stack:
        first, second = (stack.enter_context(open_studio(server)) for _ in range(2))
        join(server, second.team.world, first.team.member, "member")
        tasks = (
            first.add_task(first.add_column("Doing"), "Shape"),
            second.add_task(second.add_column("To do"), HOSTILE),
        )
        second.call("PATCH", f"{second.project}", title="Elsewhere")
        yield Both(server, first, second, tasks, first.member)


def test_the_week_shows_own_time_from_all_projects(both: Both) -> None:
    both.spend(both.first, both.tasks[0], 3_600_000, both.person)
    both.spend(both.second, both.tasks[1], 1_800_000, both.person, "2026-01-06T09:00:00Z")
    both.spend(both.second, both.tasks[1], 60_000, both.person, "2026-01-12T00:00:00Z")  # the following week
    for studio, task in ((both.first, both.tasks[0]), (both.second, both.tasks[1])):
        both.spend(studio, task, 7 * 3_600_000, studio.team.owner)
    page = page_of(both.browser, WEEK)
    assert '<strong id="week-total">1:30</strong>' in page
    assert "7:00" not in page
    assert 'id="evil"' not in page
    rows = re.findall(r'<th scope="row"><a[^>]*><bdi>(\w+)</bdi>', page)
    assert rows == ["Elsewhere", "Website"]
    assert "0:01" in page_of(both.browser, "/time?week=2026-01-12")


def test_the_week_is_exported_as_csv(both: Both) -> None:
    both.spend(both.first, both.tasks[0], 3_600_000, both.person)
    both.spend(both.second, both.tasks[1], 1_800_000, both.person)
    both.spend(both.first, both.tasks[0], 60_000, both.person, "2026-01-12T09:00:00Z")
    both.spend(both.second, both.tasks[1], 60_000, both.second.team.owner)
    assert '"/time/entries.csv?week=2026-01-05"' in page_of(both.browser, WEEK)
    answer = both.browser.get("/time/entries.csv?week=2026-01-05")
    assert 'filename="time-2026-01-05.csv"' in answer.headers["content-disposition"]
    rows = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    places = [(each["organization"], each["hours"], each["user"]) for each in rows]
    organizations = (both.first.team.world.organization, both.second.team.world.organization)
    assert places == [(organizations[0], "1.00", both.person.login), (organizations[1], "0.50", both.person.login)]


def test_a_member_of_one_organization_sees_nothing_of_the_other(both: Both) -> None:
    both.spend(both.first, both.tasks[0], 3_600_000, both.first.team.owner)
    both.spend(both.second, both.tasks[1], 3_600_000, both.person)
    page = page_of(both.first.owner, WEEK)
    assert '<strong id="week-total">1:00</strong>' in page
    assert "Elsewhere" not in page
    assert both.second.team.world.organization not in page


def test_time_disappears_with_access_to_the_project(both: Both) -> None:
    both.spend(both.second, both.tasks[1], 3_600_000, both.person)
    assert "Elsewhere" in page_of(both.browser, WEEK)
    leave(both.server, both.second.team.world, both.person)
    page = page_of(both.browser, WEEK)
    assert "Elsewhere" not in page
    assert "You have no time entries this week." in text_of(page)
    again = send(both.browser, "/time/start", task_id=both.tasks[1])
    assert again.status_code == 404


def test_time_of_a_deleted_project_is_hidden(both: Both) -> None:
    both.spend(both.second, both.tasks[1], 3_600_000, both.person)
    both.second.call("DELETE", both.second.project)
    assert "Elsewhere" not in page_of(both.browser, WEEK)


def step(browser: Browser, name: str) -> httpx.Response:
    """Press the button of the running or paused timer, but not the one in the header."""
    found = {each.action: each for each in forms(browser.get("/time")) if re.search(f"/time/.*/{name}$", each.action)}
    [form] = found.values()
    return browser.post(form.action, form.fields)


def test_a_timer_starts_pauses_resumes_and_finishes(both: Both) -> None:
    both.second.call("PATCH", f"/tasks/{both.tasks[1]}", assignees=[both.person.login])
    started = both.browser.fill("/time", "/time/start", task_id=both.tasks[1], notes="a note")
    assert (started.status_code, started.headers["location"].partition("?")[0]) == (303, "/time")
    assert both.timers() == [(HOSTILE, True, False)]
    for name, state in (("pause", (False, False)), ("resume", (True, False)), ("finish", (False, True))):
        answer = step(both.browser, name)
        assert (answer.status_code, answer.headers["location"].partition("?")[0]) == (303, "/time")
        assert both.timers() == [(HOSTILE, *state)]


def test_starting_a_timer_pauses_the_one_in_another_project(both: Both) -> None:
    for task in both.tasks:
        assert send(both.browser, "/time/start", task_id=task).status_code == 303
    assert both.timers() == [("Shape", False, False), (HOSTILE, True, False)]
    assert text_of(page_of(both.browser, "/time")).count("A timer is running") == 1


def test_an_entry_is_restarted_and_edited_from_the_week(both: Both) -> None:
    entry = both.spend(both.first, both.tasks[0], 3_600_000, both.person)
    edit = f"{both.first.base}/time/{entry}"
    shown = both.browser.get(WEEK)
    assert f'href="{edit}?return_to=/time%3Fweek%3D2026-01-05"' in shown.text
    again = next(each for each in forms(shown) if each.action == "/time/start" and each.fields["task_id"])
    assert both.browser.post(again.action, again.fields).headers["location"] == WEEK
    assert both.timers() == [("Shape", False, True), ("Shape", True, False)]
    saved = both.browser.fill(f"{edit}?return_to={WEEK}", f"{edit}/edit", notes="longer")
    assert (saved.status_code, saved.headers["location"]) == (303, WEEK)
    elsewhere = both.browser.fill(f"{edit}?return_to=/timely", f"{edit}/edit", notes="more")
    assert elsewhere.headers["location"] == f"{both.first.base}/time"


def test_forgotten_time_is_added_in_any_project(both: Both) -> None:
    both.second.call("PATCH", f"/tasks/{both.tasks[1]}", assignees=[both.person.login])
    form = {"task_id": both.tasks[1], "start": "2026-01-05T09:00", "duration": "1:30"}
    added = both.browser.fill("/time", "/time/entries", **form, billable="true", billable_rate="80")
    assert (added.status_code, added.headers["location"]) == (303, WEEK)
    [entry] = both.second.call("GET", f"{both.second.project}/timesheets")["timesheets"]
    assert (entry["duration"], entry["billable"], entry["user"]["login"]) == (5_400_000, True, both.person.login)
    assert '<strong id="week-total">1:30</strong>' in page_of(both.browser, WEEK)
    wrong = both.browser.fill("/time", "/time/entries", task_id=both.tasks[1], start="", duration="soon")
    assert wrong.status_code == 422


def test_a_reader_cannot_start_timers(both: Both) -> None:
    """Earlier entries remain visible."""
    both.spend(both.first, both.tasks[0], 3_600_000, both.person)
    both.first.call("PATCH", both.first.project, archive=True)
    page = both.browser.get(WEEK)
    assert '<strong id="week-total">1:00</strong>' in page.text
    assert [each.action for each in forms(page) if "/time" in each.action] == []
    assert send(both.browser, "/time/start", task_id=both.tasks[0]).status_code == 409
    spent = {"task_id": both.tasks[0], "start": "2026-01-05T09:00", "duration": "1:30"}
    assert send(both.browser, "/time/entries", **spent).status_code == 409


def test_a_client_has_an_empty_week_and_cannot_start_timers(both: Both) -> None:
    """Including time tracked during an earlier membership, because the API shows clients no time."""
    client, person, world = both.first.client, both.first.team.client, both.first.team.world
    both.first.call("PATCH", f"/tasks/{both.tasks[0]}", assignees=[person.login])
    join(both.server, world, person, "member")
    both.spend(both.first, both.tasks[0], 3_600_000, person)
    assert world.organization in page_of(client, WEEK)
    leave(both.server, world, person)
    page = client.get(WEEK)
    assert page.status_code == 200
    assert [each.action for each in forms(page) if "/time" in each.action] == []
    assert world.organization not in page.text
    assert "1:00" not in page.text
    assert send(client, "/time/start", task_id=both.tasks[0]).status_code == 404
    for path in ("/", both.first.base):
        assert 'href="/time"' not in client.get(path).text
        assert 'href="/time"' in both.browser.get(path).text


def test_a_stranger_cannot_start_timers(both: Both) -> None:
    other = both.server.run(make_team)
    with Browser.of(both.server, other.owner.login) as stranger:
        assert send(stranger, "/time/start", task_id=both.tasks[0]).status_code == 404
    assert both.timers() == []


def test_days_follow_the_time_zone_of_the_reader(both: Both) -> None:
    both.spend(both.first, both.tasks[0], 60_000, both.person, "2026-01-11T22:30:00Z")
    assert "0:01" in page_of(both.browser, WEEK)
    both.browser.client.cookies.set("workhook_timezone", "Pacific/Auckland")
    assert "0:01" not in page_of(both.browser, WEEK)
    assert "0:01" in page_of(both.browser, "/time?week=2026-01-12")


def test_a_refused_duration_is_explained_at_its_field(both: Both) -> None:
    both.second.call("PATCH", f"/tasks/{both.tasks[1]}", assignees=[both.person.login])
    answer = both.browser.fill(
        "/time", "/time/entries", task_id=both.tasks[1], start="2026-01-05T09:00", duration="30", notes="typed"
    )
    assert answer.status_code == 422
    assert "Enter 0:30 for 30 minutes" in answer.text
    [form] = [each for each in forms(answer) if each.action == "/time/entries"]
    assert (form.fields["duration"], form.fields["notes"]) == ("30", "typed")
    assert both.timers() == []
