"""The timesheets of a project: filters, paging and CSV."""

from __future__ import annotations

import csv
import io
from typing import Any

from tests.work.studio import JsonObject, Studio
from tests.work.timesheets_kit import HOUR, Desk, claim, fill, make_task

COLUMNS = "id,date,user,task,start_time,end_time,duration_ms,hours,billable,billable_rate,amount,notes"
CSV = {"Accept": "text/csv"}


def _table(desk: Desk, **params: Any) -> list[dict[str, str]]:
    response = desk.caller.call("GET", desk.path, params=params, headers=CSV)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    return list(csv.DictReader(io.StringIO(response.text, newline="")))


def _ids(*timesheets: JsonObject) -> list[str]:
    return [each["id"] for each in timesheets]


def test_timesheets_can_be_filtered(studio: Studio, desk: Desk, task_id: str) -> None:
    other = make_task(studio)
    first = desk.new(task_id, start_time="2026-03-01T00:00:00Z", duration=HOUR, billable=True)
    second = desk.new(other, start_time="2026-03-01T23:59:59.999Z", duration=HOUR)
    third = Desk(studio, studio.member).new(task_id, start_time="2026-03-02T00:00:00Z", duration=HOUR, billable=True)
    paused = desk.turn(desk.new(task_id), "pause")
    running = desk.new(other)
    claim(studio, third["id"])
    everything = _ids(first, second, third, paused, running)
    assert desk.all() == everything
    for params, found in (
        ({"user": studio.world.owner}, _ids(first, second, paused, running)),
        ({"user": third["user"]["username"].upper()}, _ids(third)),
        ({"user": "nobody-like-that"}, []),
        ({"task_id": other}, _ids(second, running)),
        ({"from": "2026-03-02"}, _ids(third, paused, running)),
        ({"to": "2026-03-02"}, _ids(first, second)),
        ({"from": "2026-03-01", "to": "2026-03-02"}, _ids(first, second)),
        ({"from": "2026-03-01T23:59:59.999Z", "to": "2026-03-02T01:00:00.001+01:00"}, _ids(second, third)),
        ({"billable": "true"}, _ids(first, third)),
        ({"billable": "false", "finished": "true"}, _ids(second)),
        ({"is_active": "true"}, _ids(running)),
        ({"is_active": "false", "finished": "false"}, _ids(paused)),
        ({"invoiced": "true"}, _ids(third)),
        ({"invoiced": "false", "billable": "true"}, _ids(first)),
        ({"from": "2026-03-02", "to": "2026-03-01"}, []),
    ):
        assert desk.all(**params) == found, params
        assert [row["id"] for row in _table(desk, **params)] == found, params


def test_invalid_filters_are_refused(desk: Desk) -> None:
    params = {"from": "yesterday", "to": "2026-02-30", "billable": "1.5", "is_active": "x", "invoice": "1"}
    assert desk.caller.faults("GET", desk.path, params=params) == {
        "from": "invalid",
        "to": "invalid",
        "billable": "invalid",
        "is_active": "invalid",
        "invoice": "unknown",
    }
    wrong = {"per_page": 101, "cursor": ""}
    assert desk.caller.faults("GET", desk.path, params=wrong) == {"per_page": "invalid", "cursor": "invalid"}
    assert desk.caller.faults("GET", desk.path, params={"cursor": "v1_"}) == {"cursor": "invalid"}


def test_timesheets_can_be_read_as_csv(studio: Studio, desk: Desk, task_id: str) -> None:
    odd = make_task(studio, '=HYPERLINK("http://x"), "drawn"')
    times = {"start_time": "2026-03-01T23:30:00Z", "duration": HOUR + HOUR // 3}
    first = desk.new(odd, **times, billable=True, billable_rate=80.5, notes="two\nlines, and “more”")
    second = desk.new(task_id, **times, billable_rate=80, notes="-1 is no formula here, but a spreadsheet would say so")
    running = desk.new(task_id, billable=True)
    response = desk.caller.call("GET", desk.path, headers=CSV)
    assert response.headers["content-disposition"] == 'attachment; filename="website-timesheets.csv"'
    assert response.headers["vary"] == desk.caller.call("GET", desk.path).headers["vary"] == "Accept"
    lines = response.content.decode().split("\r\n")
    assert lines[0] == COLUMNS
    owner = studio.world.owner
    assert lines[1:-2] == [
        f'{first["id"]},2026-03-01,{owner},"\'=HYPERLINK(""http://x""), ""drawn""",2026-03-01T23:30:00.000Z,'
        '2026-03-02T00:50:00.000Z,4800000,1.33,true,80.50,107.33,"two\nlines, and “more”"',
        f"{second['id']},2026-03-01,{owner},Draw,2026-03-01T23:30:00.000Z,2026-03-02T00:50:00.000Z,4800000,1.33,"
        'false,80.00,,"\'-1 is no formula here, but a spreadsheet would say so"',
    ]
    assert lines[-1] == ""
    row = _table(desk)[-1]
    assert (row["id"], row["end_time"], row["billable_rate"], row["amount"]) == (running["id"], "", "", "")
    assert int(row["duration_ms"]) >= 0


def test_csv_can_be_paged(desk: Desk, task_id: str) -> None:
    made = [desk.new(task_id, duration=number)["id"] for number in range(3)]
    response = desk.caller.call("GET", desk.path, params={"per_page": 2}, headers=CSV)
    assert [line.partition(",")[0] for line in response.text.splitlines()[1:]] == made[:2]
    following = response.links["next"]["url"].partition("/api/v1")[2]
    assert desk.caller.call("GET", following, headers=CSV).text.splitlines()[1].startswith(made[2])


def test_csv_without_paging_is_complete(studio: Studio, desk: Desk, task_id: str) -> None:
    made = fill(studio, task_id, 2_345)
    assert [row["id"] for row in _table(desk)] == made
    assert len(_table(desk, billable="true")) == len([each for each in range(2_345) if each % 2])
    listed = desk.caller.call("GET", desk.path)
    assert [each["id"] for each in listed.json()["timesheets"]] == made[:1000]
    assert "next" in listed.links
    cursor = {"cursor": listed.links["next"]["url"].rpartition("cursor=")[2]}
    assert [row["id"] for row in _table(desk, **cursor)] == made[1000:]


def test_dates_are_in_the_projects_time_zone_in_lists_tables_and_reports(
    studio: Studio, desk: Desk, task_id: str
) -> None:
    studio.owner.patch(f"/organizations/{studio.world.organization}/billing", json={"timezone": "America/St_Johns"})
    starts = ("2026-03-01T03:29:59Z", "2026-03-01T03:30:00Z", "2026-03-02T03:29:59Z", "2026-03-02T03:30:00Z")
    spent = [desk.new(task_id, start_time=each, duration=n * HOUR) for n, each in enumerate(starts, 1)]
    day = {"from": "2026-03-01", "to": "2026-03-02"}
    assert desk.all(**day) == _ids(*spent[1:3])
    assert [row["date"] for row in _table(desk, **day)] == ["2026-03-01"] * 2
    utc = {**day, "timezone": "UTC"}
    assert desk.all(**utc) == _ids(*spent[:2])
    assert [row["date"] for row in _table(desk, **utc)] == ["2026-03-01"] * 2
    across = studio.owner.call("GET", "/timesheets", params={**day, "timezone": "America/St_Johns"}, headers=CSV).text
    rows = list(csv.DictReader(io.StringIO(across, newline="")))
    assert [(row["id"], row["date"]) for row in rows] == [(each["id"], "2026-03-01") for each in spent[1:3]]
    for more, hours in (({}, 5), ({"timezone": "UTC"}, 3), ({"timezone": "Pacific/Pago_Pago"}, 7)):
        listed = studio.owner.get("/timesheets", params={**day, **more, "project_id": studio.project_id})["timesheets"]
        assert sum(each["duration"] for each in listed) == hours * HOUR, more
        report = studio.owner.get(
            "/reports/timesheets", params={**day, **more, "project_id": studio.project_id, "group_by": "day"}
        )
        [row] = report["report"]
        assert (row["day"], row["duration"]) == ("2026-03-01", hours * HOUR), more
