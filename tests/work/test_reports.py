"""Timesheet reports across everything visible to the caller."""

from __future__ import annotations

from typing import Any

import pytest

from tests.work.studio import Caller, JsonObject, Studio
from tests.work.timesheets_kit import HOUR, MINUTE, Desk, claim, fill, make_project, make_task, run_since

PATH = "/reports/timesheets"
KEYS = ("user", "task", "project", "day")
SUMS = {
    "timesheets", "duration", "formatted_duration", "short_formatted_duration", "billable_duration", "amount",
    "currency", "amounts",
}  # fmt: skip


def _report(caller: Caller, **params: Any) -> list[JsonObject]:
    answer = caller.get(PATH, params=params)
    assert set(answer) == {"success", "report", "totals"}
    rows: list[JsonObject] = answer["report"]
    assert all(set(row) == SUMS | set(KEYS) for row in rows)
    assert set(answer["totals"]) == SUMS
    for name in ("timesheets", "duration", "billable_duration"):
        assert answer["totals"][name] == sum(row[name] for row in rows)
    assert answer["totals"]["amount"] == pytest.approx(sum(row["amount"] for row in rows))
    return rows


class Scene:
    """Time of two people in two projects of an organization."""

    def __init__(self, studio: Studio) -> None:
        self.studio = studio
        self.other = make_project(studio)
        self.draw, self.paint = make_task(studio, "Draw"), make_task(studio, "Paint")
        self.build = make_task(studio, "Build", self.other)
        here, there = Desk(studio, studio.owner), Desk(studio, studio.owner, self.other)
        theirs = Desk(studio, studio.member)
        rate = {"billable": True, "billable_rate": 80}
        self.first = here.new(self.draw, start_time="2026-03-01T10:00:00Z", duration=HOUR, **rate)
        self.second = here.new(self.paint, start_time="2026-03-01T23:30:00Z", duration=2 * HOUR)
        self.third = there.new(self.build, start_time="2026-03-02T10:00:00Z", duration=30 * MINUTE, **rate)
        self.fourth = theirs.new(self.draw, start_time="2026-03-03T10:00:00Z", duration=HOUR, billable=True)
        self.me = self.first["user"]
        self.them = self.fourth["user"]


@pytest.fixture
def scene(studio: Studio) -> Scene:
    return Scene(studio)


def _sums(row: JsonObject) -> tuple[int, int, int, float]:
    return row["timesheets"], row["duration"], row["billable_duration"], row["amount"]


def test_time_can_be_grouped_by_user(scene: Scene) -> None:
    rows = _report(scene.studio.owner)
    assert rows == _report(scene.studio.owner, group_by="user")
    found = {row["user"]["username"]: row for row in rows}
    mine = found[scene.me["username"]]
    assert mine["user"] == scene.me
    assert [mine[key] for key in ("task", "project", "day")] == [None] * 3
    assert _sums(mine) == (3, 3 * HOUR + 30 * MINUTE, HOUR + 30 * MINUTE, 120)
    assert mine["formatted_duration"] == "3h 30m"
    assert mine["short_formatted_duration"] == {"display": "3:30", "decimal": 3.5}
    assert _sums(found[scene.them["username"]]) == (1, HOUR, HOUR, 0)
    assert [row["user"]["username"] for row in rows] == sorted(found)


def test_time_can_be_grouped_by_project_and_task(scene: Scene) -> None:
    by_project = _report(scene.studio.owner, group_by="project")
    assert [(row["project"]["title"], *_sums(row)) for row in by_project] == [
        ("Website", 3, 4 * HOUR, 2 * HOUR, 80),
        ("Other", 1, 30 * MINUTE, 30 * MINUTE, 40),
    ]
    by_task = _report(scene.studio.owner, group_by="task")
    assert [(row["project"]["title"], row["task"]["title"], *_sums(row)) for row in by_task] == [
        ("Website", "Draw", 2, 2 * HOUR, 2 * HOUR, 80),
        ("Website", "Paint", 1, 2 * HOUR, 0, 0),
        ("Other", "Build", 1, 30 * MINUTE, 30 * MINUTE, 40),
    ]
    assert by_task[0]["task"]["id"] == scene.draw


def test_time_can_be_grouped_by_day(scene: Scene) -> None:
    owner = scene.studio.owner
    days = {row["day"]: row["duration"] for row in _report(owner, group_by="day")}
    assert days == {"2026-03-01": 3 * HOUR, "2026-03-02": 30 * MINUTE, "2026-03-03": HOUR}
    assert list(days) == sorted(days)
    days = {row["day"]: row["duration"] for row in _report(owner, group_by="day", timezone="Europe/Vienna")}
    assert days == {"2026-03-01": HOUR, "2026-03-02": 2 * HOUR + 30 * MINUTE, "2026-03-03": HOUR}
    for zone in ("Asia/Kathmandu", "America/St_Johns", "Pacific/Chatham", "UTC"):  # offsets with quarter hours
        assert sum(row["duration"] for row in _report(owner, group_by="day", timezone=zone)) == 4 * HOUR + 30 * MINUTE


def test_days_respect_daylight_saving_time(studio: Studio) -> None:
    """In Vienna, 29 March 2026 has 23 hours and starts at 23:00 UTC on the previous day."""
    task_id, desk = make_task(studio), Desk(studio, studio.owner)
    for start in ("2026-03-28T22:59:59Z", "2026-03-28T23:00:00Z", "2026-03-29T21:59:59Z", "2026-03-29T22:00:00Z"):
        desk.new(task_id, start_time=start, duration=MINUTE)
    zone = {"group_by": "day", "timezone": "Europe/Vienna"}
    counts = [(row["day"], row["timesheets"]) for row in _report(studio.owner, **zone)]
    assert counts == [("2026-03-28", 1), ("2026-03-29", 2), ("2026-03-30", 1)]
    (only,) = _report(studio.owner, **zone, **{"from": "2026-03-29", "to": "2026-03-30"})
    assert (only["day"], only["timesheets"]) == ("2026-03-29", 2)


def test_reports_can_be_filtered(scene: Scene) -> None:
    owner, studio = scene.studio.owner, scene.studio
    claim(studio, scene.third["id"])
    for params, hours in (
        ({"project_id": studio.project_id}, 4),
        ({"user": scene.them["username"]}, 1),
        ({"user": "nobody-like-that"}, 0),
        ({"from": "2026-03-02"}, 1.5),
        ({"to": "2026-03-02"}, 3),
        ({"from": "2026-03-01T23:30:00Z", "to": "2026-03-03T10:00:00Z"}, 2.5),
        ({"billable": "false"}, 2),
        ({"billable": "true", "project_id": scene.other}, 0.5),
        ({"invoiced": "true"}, 0.5),
        ({"invoiced": "false", "billable": "true"}, 2),
    ):
        for group_by in KEYS:
            rows = _report(owner, group_by=group_by, **params)
            assert sum(row["duration"] for row in rows) == hours * HOUR, (params, group_by)


def test_invalid_parameters_are_refused(studio: Studio) -> None:
    params = {"group_by": "week", "timezone": "Mars/Olympus", "from": "soon", "task_id": "x", "billable": "maybe"}
    assert studio.owner.faults("GET", PATH, params=params) == {
        "group_by": "invalid",
        "timezone": "invalid",
        "from": "invalid",
        "billable": "invalid",
        "task_id": "unknown",
    }
    for zone in ("", "Europe", "../../etc/passwd", "/etc/localtime", "europe/vienna ", "x" * 65):
        assert studio.owner.faults("GET", PATH, params={"timezone": zone}) == {"timezone": "invalid"}, zone


def test_amounts_are_rounded_per_timesheet(studio: Studio) -> None:
    task_id, desk = make_task(studio), Desk(studio, studio.owner)
    for _ in range(3):
        desk.new(task_id, duration=HOUR // 2, billable=True, billable_rate=0.01)  # half a cent each
    (row,) = _report(studio.owner, project_id=studio.project_id)
    assert row["amount"] == 0.03
    desk.new(task_id, duration=31 * 24 * HOUR, billable=True, billable_rate=1_000_000)
    (row,) = _report(studio.owner, project_id=studio.project_id)
    assert row["amount"] == 744 * 1_000_000 + 0.03


def test_amounts_in_different_currencies_are_not_added(scene: Scene) -> None:
    owner, studio = scene.studio.owner, scene.studio
    owner.patch(f"/projects/{scene.other}/billing", json={"currency": "CHF"})
    both = [{"currency": "CHF", "amount": 40}, {"currency": "USD", "amount": 80}]
    answer = owner.get(PATH)
    mine, theirs = sorted(answer["report"], key=lambda row: row["user"] != scene.me)
    assert (mine["amount"], mine["currency"], mine["amounts"]) == (None, None, both)
    assert (mine["timesheets"], mine["duration"]) == (3, 3 * HOUR + 30 * MINUTE)
    assert (theirs["amount"], theirs["currency"]) == (0, "USD")
    assert (answer["totals"]["amount"], answer["totals"]["amounts"]) == (None, both)
    days = owner.get(PATH, params={"group_by": "day"})["report"]
    assert [(row["day"], row["amount"], row["currency"]) for row in days] == [
        ("2026-03-01", 80, "USD"),
        ("2026-03-02", 40, "CHF"),
        ("2026-03-03", 0, "USD"),
    ]
    projects = owner.get(PATH, params={"group_by": "project"})["report"]
    assert [(row["project"]["title"], row["amount"], row["currency"]) for row in projects] == [
        ("Website", 80, "USD"),
        ("Other", 40, "CHF"),
    ]
    one = owner.get(PATH, params={"project_id": studio.project_id})["totals"]
    assert (one["amount"], one["currency"], one["amounts"]) == (80, "USD", [{"currency": "USD", "amount": 80}])
    table = owner.call("GET", PATH, headers={"Accept": "text/csv"}).text.splitlines()
    assert table[0].endswith(",amount,currency,amounts")
    assert any(line.endswith(",,40.00 CHF; 80.00 USD") for line in table)


def test_a_running_timer_counts(studio: Studio) -> None:
    desk = Desk(studio, studio.owner)
    timer = desk.new(make_task(studio), billable=True, billable_rate=60)
    run_since(studio, timer["id"], HOUR)
    (row,) = _report(studio.owner)
    assert HOUR <= row["duration"] == row["billable_duration"] < HOUR + MINUTE
    assert 60 <= row["amount"] < 61


def test_reports_contain_only_visible_projects(scene: Scene) -> None:
    studio = scene.studio
    studio.owner.patch(f"/projects/{scene.other}", json={"private": True})
    titles = [row["project"]["title"] for row in _report(studio.member, group_by="project")]
    assert titles == ["Website"], "the other one is private"
    studio.member.refused(404, "GET", PATH, params={"project_id": scene.other})
    assert [row["project"]["title"] for row in _report(studio.add(role="read"), group_by="project")] == ["Website"]
    assert _report(studio.stranger) == []
    studio.stranger.refused(404, "GET", PATH, params={"project_id": studio.project_id})
    for params in ({}, {"project_id": studio.project_id}, {"group_by": "day"}):
        studio.client.refused(404, "GET", PATH, params=params)
    studio.nobody.refused(401, "GET", PATH)
    studio.owner.delete(f"/projects/{scene.other}")
    assert [row["project"]["title"] for row in _report(studio.owner, group_by="project")] == ["Website"]


def test_a_report_can_be_read_as_csv(scene: Scene) -> None:
    studio = scene.studio
    tables = {}
    for group_by in KEYS:
        params = {"group_by": group_by, "from": "2026-03-01", "to": "2026-03-02"}
        response = studio.owner.call("GET", PATH, params=params, headers={"Accept": "text/csv"})
        assert response.headers["content-type"] == "text/csv; charset=utf-8"
        assert response.headers["content-disposition"] == f'attachment; filename="timesheets-by-{group_by}.csv"'
        tables[group_by] = response.text
    sums = "timesheets,duration_ms,hours,billable_duration_ms,billable_hours,amount,currency,amounts\r\n"
    spent = "2,10800000,3.00,3600000,1.00,80.00,USD,80.00 USD\r\n"
    project = f"{studio.project_id},Website"
    assert tables["user"] == f"user,{sums}{scene.me['username']},{spent}"
    assert tables["project"] == f"project_id,project,{sums}{project},{spent}"
    assert tables["day"] == f"day,{sums}2026-03-01,{spent}"
    assert tables["task"] == (
        f"project_id,project,task_id,task,{sums}"
        f"{project},{scene.draw},Draw,1,3600000,1.00,3600000,1.00,80.00,USD,80.00 USD\r\n"
        f"{project},{scene.paint},Paint,1,7200000,2.00,0,0.00,0.00,USD,0.00 USD\r\n"
    )


def test_thousands_of_timesheets_are_summed(studio: Studio) -> None:
    made = fill(studio, make_task(studio), 2_345)
    (row,) = _report(studio.owner)
    assert row["timesheets"] == len(made)
    assert sum(row["timesheets"] for row in _report(studio.owner, group_by="day", timezone="Asia/Tokyo")) == len(made)
