"""The pages with a project's time: permissions and forms, without a browser."""

from __future__ import annotations

import re
from dataclasses import dataclass

import httpx
import pytest

from tests.browser.people import Insider, Team, make_team
from tests.harness.server import Server
from tests.harness.world import add_user
from tests.web.browser import Browser, add_link, forms
from workhook.http.calls import Services
from workhook.identity.tokens.lookup import find_actor
from workhook.web.time.days import read_duration

HOSTILE = '<b id="evil">\u202e"😀'


@dataclass
class Place:
    """A team and its project with a task."""

    server: Server
    team: Team
    task_id: str

    @property
    def path(self) -> str:
        return f"/{self.team.world.full_name}/time"

    def timesheets(self) -> list[dict[str, object]]:
        with self.api() as api:
            found = api.get(f"/api/v1/projects/{self.team.world.project_id}/timesheets")
        timesheets: list[dict[str, object]] = found.json()["timesheets"]
        return timesheets

    def api(self) -> httpx.Client:
        return self.server.client(self.team.owner.token)

    def visit(self, person: Insider) -> Browser:
        browser = Browser(self.server)
        link = add_link(self.server, person)
        answer = browser.fill(link)
        assert answer.status_code == 303, answer.text
        return browser


@pytest.fixture
def place(server: Server) -> Place:
    team: Team = server.run(make_team)
    place = Place(server, team, "")
    with place.api() as api:
        column = api.post(f"/api/v1/projects/{team.world.project_id}/columns", json={"title": "Doing"}).json()["column"]
        task = api.post(f"/api/v1/columns/{column['id']}/tasks", params={"title": HOSTILE}).json()["task"]
    place.task_id = task["id"]
    return place


def spend(place: Place, browser: Browser, **more: str) -> str:
    """Add an hour and a half with the form and return the ID of the entry."""
    fields = {"task_id": place.task_id, "start": "2026-01-05T09:00", "duration": "1:30", **more}
    answer = browser.fill(place.path, f"{place.path}/entries", **fields)
    assert answer.status_code == 303, answer.text
    return str(place.timesheets()[-1]["id"])


def test_time_is_added_edited_deleted_and_restored(place: Place) -> None:
    with place.visit(place.team.member) as browser:
        entry = spend(place, browser, notes=HOSTILE, billable="true", billable_rate="80")
        [made] = place.timesheets()
        assert (made["duration"], made["start_time"]) == (5_400_000, "2026-01-05T09:00:00.000Z")
        assert (made["billable"], made["billable_rate"], made["notes"]) == (True, 80, HOSTILE)
        page = browser.get(f"{place.path}?week=2026-01-05").text
        assert '<strong id="week-total">1:30</strong>' in page
        assert 'id="evil"' not in page

        edit = f"{place.path}/{entry}"
        assert browser.fill(edit, f"{edit}/edit", end="2026-01-05T11:00").status_code == 303
        [corrected] = place.timesheets()
        assert corrected["duration"] == 7_200_000

        assert browser.fill(edit, f"{edit}/delete").status_code == 303
        assert place.timesheets() == []
        assert browser.fill(place.path, f"{place.path}/restore").status_code == 303
        [again] = place.timesheets()
        assert {name: again[name] for name in ("duration", "notes", "billable_rate")} == {
            name: corrected[name] for name in ("duration", "notes", "billable_rate")
        }


@pytest.mark.parametrize("query", ["", "?week=2026-01-05", "?week=2026-02-02"])
def test_adding_time_shows_its_week(place: Place, query: str) -> None:
    fields = {"task_id": place.task_id, "start": "2026-01-11T23:59", "duration": "1:30"}
    with place.visit(place.team.member) as browser:
        answer = browser.fill(f"{place.path}{query}", f"{place.path}/entries", **fields)
        assert answer.headers["location"] == f"{place.path}?week=2026-01-05"
        filtered = browser.fill(f"{place.path}?by=task", f"{place.path}/entries", **fields)
        assert filtered.headers["location"] == f"{place.path}?week=2026-01-05&by=task"


@pytest.mark.parametrize(
    ("zone", "start", "week"),
    [
        ("Pacific/Auckland", "2026-01-12T00:30", "2026-01-12"),
        ("America/Los_Angeles", "2026-01-11T23:30", "2026-01-05"),
        ("UTC", "1970-01-01T09:00", "1969-12-29"),
    ],
)
def test_the_week_follows_the_time_zone_of_the_reader(place: Place, zone: str, start: str, week: str) -> None:
    with place.visit(place.team.member) as browser:
        browser.client.cookies.set("workhook_timezone", zone)
        fields = {"task_id": place.task_id, "start": start, "duration": "1:30"}
        answer = browser.fill(place.path, f"{place.path}/entries", **fields)
        assert answer.headers["location"] == f"{place.path}?week={week}"
        assert '<strong id="week-total">1:30</strong>' in browser.get(answer.headers["location"]).text


def test_saving_an_unchanged_entry_keeps_its_seconds(place: Place) -> None:
    given = {"task_id": place.task_id, "start_time": "2026-01-05T09:00:13Z", "end_time": "2026-01-05T09:10:47Z"}
    with place.api() as api:
        api.post(f"/api/v1/projects/{place.team.world.project_id}/timesheets", json=given)
    [before] = place.timesheets()
    edit = f"{place.path}/{before['id']}"
    with place.visit(place.team.owner) as browser:
        assert browser.fill(edit, f"{edit}/edit", notes="a note").status_code == 303
    [after] = place.timesheets()
    assert (after["start_time"], after["end_time"]) == (before["start_time"], before["end_time"])
    assert after["notes"] == "a note"


def test_a_timer_starts_pauses_resumes_and_finishes(place: Place) -> None:
    with place.visit(place.team.member) as browser:
        assert browser.fill(place.path, f"{place.path}/start", task_id=place.task_id).status_code == 303
        [timer] = place.timesheets()
        for step, state in (("pause", (False, False)), ("resume", (True, False)), ("finish", (False, True))):
            form = next(
                each for each in forms(browser.get(place.path)) if each.action == f"{place.path}/{timer['id']}/{step}"
            )
            assert browser.post(form.action, form.fields).status_code == 303
            [timer] = place.timesheets()
            assert (timer["is_active"], timer["finished"]) == state


def test_days_follow_the_time_zone_of_the_reader(place: Place) -> None:
    with place.visit(place.team.owner) as browser:
        browser.client.cookies.set("workhook_timezone", "Pacific/Auckland")
        spend(place, browser, start="2026-01-05T09:00")
        [made] = place.timesheets()
        assert made["start_time"] == "2026-01-04T20:00:00.000Z"
        assert "1:30" in browser.get(f"{place.path}?week=2026-01-05").text
        browser.client.cookies.set("workhook_timezone", "../../etc/passwd")
        assert "UTC time zone" in browser.get(place.path).text


@pytest.mark.parametrize(
    ("typed", "minutes"),
    [
        ("30m", 30), ("90m", 90), ("90 min", 90), ("1h 30m", 90), ("1h30", 90), ("1 h 30 min", 90), ("1:30", 90),
        ("1.5", 90), ("1,5", 90), ("2h", 120), ("24", 1440), ("30h", 1800), ("1,5 Std", 90), ("0:05", 5),
    ],
)  # fmt: skip
def test_durations_are_accepted_in_common_notations(typed: str, minutes: int) -> None:
    assert read_duration(typed) == minutes * 60_000


@pytest.mark.parametrize(
    ("duration", "said"),
    [
        ("", "such as 1:30, or hours"), ("1:60", "such as 1:30, or hours"), ("-1", "such as 1:30, or hours"),
        ("soon", "such as 1:30, or hours"), ("1e3", "such as 1:30, or hours"),
        ("30", "Enter 0:30 for 30 minutes, or 30h for hours."), ("90", "Enter 1:30 for 90 minutes"),
        ("0", "longer than 0"), ("0m", "longer than 0"), ("0:00", "longer than 0"),
    ],
)  # fmt: skip
def test_an_invalid_duration_is_refused_at_its_field(place: Place, duration: str, said: str) -> None:
    with place.visit(place.team.owner) as browser:
        fields = {"task_id": place.task_id, "duration": duration, "notes": HOSTILE, "billable": "true"}
        week = {"return_to": f"{place.path}?week=2026-01-05", "start": "2026-01-05T09:00"}
        answer = browser.fill(place.path, f"{place.path}/entries", **fields, **week)
    assert answer.status_code == 422
    [fault] = re.findall(r'<p class="fault" id="duration-fault".*?</p>', answer.text)
    assert said in fault
    assert 'aria-describedby="add-duration-hint duration-fault"' in answer.text
    assert 'id="add-entry" open' in answer.text
    [form] = [each for each in forms(answer) if each.action == f"{place.path}/entries"]
    assert {name: form.fields[name] for name in ("duration", "notes", "start")} == {
        "duration": duration, "notes": HOSTILE, "start": "2026-01-05T09:00",
    }  # fmt: skip
    assert form.fields["billable"] == "true"
    assert form.fields["return_to"].startswith(week["return_to"])
    assert place.timesheets() == []


def test_an_entry_shows_its_duration_and_changing_it_moves_the_end(place: Place) -> None:
    with place.visit(place.team.member) as browser:
        edit = f"{place.path}/{spend(place, browser)}"
        form = browser.form(edit, f"{edit}/edit")
        assert form.fields["duration"] == "1:30"
        refused = browser.post(form.action, {**form.fields, "duration": "30", "notes": "typed"})
        assert refused.status_code == 422
        assert "Enter 0:30 for 30 minutes" in refused.text
        [again] = [each for each in forms(refused) if each.action == form.action]
        assert again.fields["duration"] == "30"
        assert '<textarea id="notes" name="notes">typed</textarea>' in refused.text
        fields = {**again.fields, "duration": "45m", "notes": "typed"}
        assert browser.post(again.action, fields).status_code == 303
    [entry] = place.timesheets()
    assert (entry["duration"], entry["end_time"], entry["notes"]) == (2_700_000, "2026-01-05T09:45:00.000Z", "typed")


def test_a_changed_duration_applies_even_if_the_end_changes_too(place: Place) -> None:
    with place.visit(place.team.member) as browser:
        edit = f"{place.path}/{spend(place, browser)}"
        assert browser.fill(edit, f"{edit}/edit", end="2026-01-05T12:00", duration="0:45").status_code == 303
        [entry] = place.timesheets()
        assert (entry["duration"], entry["end_time"]) == (2_700_000, "2026-01-05T12:00:00.000Z")
        assert browser.fill(edit, f"{edit}/edit", end="2026-01-05T11:00", duration="2:00").status_code == 303
        [entry] = place.timesheets()
        assert (entry["duration"], entry["end_time"]) == (7_200_000, "2026-01-05T11:00:00.000Z")
        too_long = browser.fill(edit, f"{edit}/edit", end="2026-01-05T10:00", duration="3:00")
        assert too_long.status_code == 422


def test_no_task_is_preselected_if_there_are_several(place: Place) -> None:
    with place.visit(place.team.member) as browser:
        assert "Choose a task" not in browser.get(place.path).text
        with place.api() as api:
            columns = api.get(f"/api/v1/projects/{place.team.world.project_id}/columns").json()["columns"]
            api.post(f"/api/v1/columns/{columns[0]['id']}/tasks", params={"title": "Another"})
        page = browser.get(place.path).text
        assert page.count('name="task_id" required><option value="">Choose a task</option>') == 2
        answer = browser.fill(place.path, f"{place.path}/entries", task_id="", duration="1:00")
    assert (answer.status_code, 'id="task_id-fault"' in answer.text) == (422, True)
    assert place.timesheets() == []


def test_time_is_billable_according_to_its_task_project_or_organization(place: Place) -> None:
    """Regardless of who adds it and how: on the project's or user's page, with a timer, or through the API."""
    studio = place.team
    project = f"/projects/{studio.world.project_id}"
    with place.visit(studio.owner) as browser, place.api() as api:
        for path, body, billable in (
            (f"/organizations/{studio.world.organization}/billing", {"billable": True}, True),
            (f"{project}/billing", {"billable": False}, False),
            (f"/tasks/{place.task_id}", {"billable": True}, True),
        ):
            assert api.patch(f"/api/v1{path}", json=body).is_success
            spend(place, browser)
            for page in (place.path, "/time"):
                form = browser.form(f"{page}?week=2026-01-05", f"{page}/entries").fields
                assert (form["billable"], form["billable_rate"]) == ("", "")
                sent = {**form, "task_id": place.task_id, "start": "2026-01-05T09:00"}
                assert browser.post(f"{page}/entries", sent).status_code == 303
            begun = api.post(f"/api/v1{project}/timesheets", json={"task_id": place.task_id})
            timer = begun.json()["timesheet"]
            assert api.post(f"/api/v1/timesheets/{timer['id']}/finish").is_success
            assert {each["billable"] for each in place.timesheets()} == {billable}
            for each in place.timesheets():
                assert api.delete(f"/api/v1/timesheets/{each['id']}").is_success
        spend(place, browser, billable="false")
        assert [each["billable"] for each in place.timesheets()] == [False]


def test_clients_and_strangers_cannot_see_time(place: Place, server: Server) -> None:
    with place.visit(place.team.owner) as browser:
        entry = spend(place, browser)
    other: Team = server.run(make_team)
    for person in (place.team.client, other.owner):
        with place.visit(person) as browser:
            assert browser.get(place.path).status_code == 404
            assert browser.get(f"{place.path}/{entry}").status_code == 404
            assert f'href="{place.path}"' not in browser.get(place.path.removesuffix("/time")).text


def test_an_entry_is_found_only_in_its_own_project(place: Place, server: Server) -> None:
    """Neither of two projects shows entries of the other one."""
    with place.visit(place.team.owner) as browser:
        entry = spend(place, browser)
    other: Team = server.run(make_team)
    with place.api() as api:
        assert api.get(f"/api/v1/timesheets/{entry}").status_code == 200
    with place.visit(other.owner) as browser:
        assert browser.get(f"/{other.world.full_name}/time/{entry}").status_code == 404
        assert browser.get(f"/{other.world.full_name}/time").status_code == 200


def test_a_reader_cannot_change_time(place: Place, server: Server) -> None:
    with place.visit(place.team.owner) as browser:
        entry = spend(place, browser)

    async def reader(services: Services) -> Insider:
        token = await add_user(services, place.team.world, role="read")
        actor = await find_actor(services.database, token)
        assert actor is not None
        return Insider(actor.user.id, actor.user.login, actor.user.email or "", token)

    with place.visit(server.run(reader)) as browser:
        page = browser.get(f"{place.path}?week=2026-01-05")
        assert "1:30" in page.text
        actions = {each.action for each in forms(page)}
        assert not any(each.startswith(place.path) for each in actions), actions
        form = browser.form(place.path, "/logout")
        refused = browser.post(f"{place.path}/{entry}/delete", {"csrf": form.fields["csrf"]})
    assert refused.status_code == 403
    assert len(place.timesheets()) == 1
