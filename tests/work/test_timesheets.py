"""Timesheets: creating, reading, changing and deleting them."""

from __future__ import annotations

import pytest

from tests.work.studio import Studio
from tests.work.timesheets_kit import HOUR, Desk, bury, claim, make_project, make_task, remove, run_since
from workhook.core.clock import now_ms, parse_rfc3339

FIELDS = {
    "id", "created_at", "updated_at", "task", "project", "user", "is_active", "elapsed_time", "start_time", "end_time",
    "duration", "notes", "billable", "billable_rate", "finished", "formatted_duration", "short_formatted_duration",
    "hourly_rate", "rate_source",
}  # fmt: skip

TEN, ELEVEN = "2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z"


def test_finished_time_can_be_recorded(studio: Studio, desk: Desk, task_id: str) -> None:
    times = {"duration": HOUR + HOUR // 2, "start_time": "2026-11-20T10:00:00+01:00"}
    made = desk.new(task_id, **times, notes="Sketches", billable=True, billable_rate=80)
    assert set(made) == FIELDS
    assert made["id"].startswith("tms_")
    assert made["task"] == {"id": task_id, "title": "Draw"}
    assert made["project"] == {"id": studio.project_id, "title": "Website"}
    assert made["user"]["username"] == studio.world.owner
    assert (made["is_active"], made["finished"]) == (False, True)
    assert (made["start_time"], made["end_time"]) == ("2026-11-20T09:00:00.000Z", "2026-11-20T10:30:00.000Z")
    assert made["duration"] == made["elapsed_time"] == 5_400_000
    assert made["formatted_duration"] == "1h 30m"
    assert made["short_formatted_duration"] == {"display": "1:30", "decimal": 1.5}
    assert (made["notes"], made["billable"]) == ("Sketches", True)
    assert (made["billable_rate"], made["hourly_rate"], made["rate_source"]) == (80, "80.00", "timesheet")
    assert desk.get(made) == made
    assert desk.caller.get(desk.path) == {"success": True, "timesheets": [made]}
    (event,) = studio.happened()
    assert (event.name, event.action, event.record) == ("timesheet", "finished", made)
    assert event.changes == {}


def test_a_timer_can_be_started(studio: Studio, desk: Desk, task_id: str) -> None:
    before = now_ms()
    made = desk.new(task_id)
    assert (made["is_active"], made["finished"], made["end_time"]) == (True, False, None)
    assert before <= parse_rfc3339(made["start_time"]) <= now_ms()
    assert (made["notes"], made["billable"], made["billable_rate"], made["hourly_rate"]) == (None, False, None, None)
    (event,) = studio.happened()
    assert (event.action, event.record) == ("started", made)
    run_since(studio, made["id"], HOUR)
    shown = desk.get(made)
    assert shown["duration"] == shown["elapsed_time"] >= HOUR
    assert shown["formatted_duration"].startswith("1h")


def test_parameters_can_be_in_the_query(desk: Desk, task_id: str) -> None:
    params = {"task_id": task_id, "duration": "1000", "billable": "true", "billable_rate": "12.5", "notes": "query"}
    made = desk.caller.post(desk.path, params=params, json={"notes": "body"})["timesheet"]
    assert (made["duration"], made["billable_rate"], made["hourly_rate"]) == (1000, 12.5, "12.50")
    assert made["notes"] == "body"


def test_missing_times_are_derived(desk: Desk, task_id: str) -> None:
    cases: list[tuple[dict[str, object], str, str, int]] = [
        ({"start_time": TEN, "end_time": ELEVEN}, "10:00", "11:00", HOUR),
        ({"start_time": TEN, "end_time": ELEVEN, "duration": 60_000}, "10:00", "11:00", 60_000),
        ({"end_time": ELEVEN, "duration": HOUR}, "10:00", "11:00", HOUR),
        ({"start_time": TEN, "duration": 0}, "10:00", "10:00", 0),
    ]  # fmt: skip
    for times, start, end, duration in cases:
        made = desk.new(task_id, **times)
        assert made["start_time"] == f"2026-01-01T{start}:00.000Z", times
        assert made["end_time"] == f"2026-01-01T{end}:00.000Z", times
        assert (made["duration"], made["finished"]) == (duration, True), times


def test_a_duration_alone_ends_now(desk: Desk, task_id: str) -> None:
    before = now_ms()
    made = desk.new(task_id, duration=HOUR)
    assert parse_rfc3339(made["end_time"]) - parse_rfc3339(made["start_time"]) == HOUR
    assert before <= parse_rfc3339(made["end_time"]) <= now_ms()


def test_invalid_fields_are_named(desk: Desk, task_id: str) -> None:
    cases: list[tuple[dict[str, object], dict[str, str]]] = [
        ({}, {"task_id": "missing"}),
        ({"task_id": "tsk_none"}, {"task_id": "invalid"}),
        ({"duration": -1}, {"duration": "invalid"}),
        ({"duration": 1.5}, {"duration": "invalid"}),
        ({"duration": 10**12}, {"duration": "invalid"}),
        ({"start_time": "2026-01-01T10:00:00"}, {"start_time": "invalid"}),
        ({"start_time": "2100-01-01T10:00:00Z"}, {"start_time": "invalid"}),
        ({"end_time": "2026-01-01T10:00:00Z"}, {"start_time": "missing"}),
        ({"start_time": "2026-01-01T10:00:00Z", "end_time": "2026-01-01T09:00:00Z"}, {"end_time": "invalid"}),
        ({"start_time": TEN, "end_time": ELEVEN, "duration": HOUR + 1000}, {"duration": "invalid"}),
        ({"start_time": "1990-01-01T10:00:00Z", "end_time": "2026-01-01T10:00:01Z"}, {"start_time": "invalid"}),
        ({"start_time": "9998-12-31T23:00:00Z", "duration": 2 * HOUR}, {"start_time": "invalid"}),
        ({"billable_rate": -0.001, "billable": "yes"}, {"billable_rate": "invalid", "billable": "invalid"}),
        ({"billable_rate": 0.001}, {"billable_rate": "too_many_decimals"}),
        ({"billable_rate": 1_000_000.01}, {"billable_rate": "invalid"}),
        ({"notes": "x" * 65_537}, {"notes": "invalid"}),
        ({"user": "somebody"}, {"user": "unknown"}),
        ({"task_id": "tsk_none", "end_time": "2026-01-01T10:00:00Z"}, {"task_id": "invalid", "start_time": "missing"}),
    ]  # fmt: skip
    for body, faults in cases:
        sent = body if body == {} or "task_id" in body else {"task_id": task_id, **body}
        assert desk.caller.faults("POST", desk.path, json=sent) == faults, body
        assert desk.all() == [], body


def test_tasks_of_other_projects_and_deleted_ones_are_refused(studio: Studio, desk: Desk, task_id: str) -> None:
    made = desk.new(task_id, duration=HOUR)
    elsewhere, deleted = make_task(studio, project_id=make_project(studio)), make_task(studio)
    bury(studio, deleted)
    for wrong in (elsewhere, deleted):
        assert desk.caller.faults("POST", desk.path, json={"task_id": wrong}) == {"task_id": "invalid"}
        path = f"/timesheets/{made['id']}"
        assert desk.caller.faults("PATCH", path, json={"task_id": wrong}) == {"task_id": "invalid"}
    bury(studio, task_id)
    assert desk.get(made)["task"] == {"id": task_id, "title": "Draw"}
    assert desk.edit(made, json={"notes": "still here"})["notes"] == "still here"


def test_time_outlives_its_task(studio: Studio, desk: Desk, task_id: str) -> None:
    made, running = desk.new(task_id, duration=HOUR), desk.new(task_id)
    remove(studio, task_id)
    assert desk.get(made) == {**made, "task": None}
    assert desk.turn(running, "finish")["finished"] is True
    assert [each.record["task"] for each in studio.happened() if each.action == "finished"][-1] is None
    (row,) = desk.caller.get("/reports/timesheets", params={"group_by": "task"})["report"]
    assert (row["task"], row["timesheets"]) == (None, 2)
    assert desk.caller.call("GET", desk.path, headers={"Accept": "text/csv"}).text.count("Draw") == 0
    assert desk.edit(made, json={"task_id": (other := make_task(studio))})["task"]["id"] == other


def test_a_timesheet_can_be_edited(studio: Studio, desk: Desk, task_id: str) -> None:
    made, other = desk.new(task_id, duration=HOUR, notes="was"), make_task(studio, "Paint")
    studio.happened()
    body = {"task_id": other, "notes": None, "billable": True, "billable_rate": 99.99}
    edited = desk.edit(made, json=body)
    assert edited["task"] == {"id": other, "title": "Paint"}
    assert (edited["notes"], edited["billable"], edited["billable_rate"]) == (None, True, 99.99)
    assert edited["updated_at"] > made["updated_at"]
    unchanged = ("start_time", "end_time", "duration", "created_at", "user")
    assert {name: edited[name] for name in unchanged} == {name: made[name] for name in unchanged}
    (event,) = studio.happened()
    assert (event.action, event.record) == ("edited", edited)
    assert event.changes == {
        "task": {"from": made["task"], "to": edited["task"]},
        "notes": {"from": "was", "to": None},
        "billable": {"from": False, "to": True},
        "billable_rate": {"from": None, "to": 99.99},
        "hourly_rate": {"from": None, "to": "99.99"},
        "rate_source": {"from": "none", "to": "timesheet"},
    }


def test_the_duration_can_be_set_in_the_query_alone(studio: Studio, desk: Desk, task_id: str) -> None:
    made = desk.new(task_id, start_time="2026-01-01T10:00:00Z", duration=HOUR)
    studio.happened()
    for headers in ({}, {"Content-Type": "application/json"}):
        duration = 2 * HOUR if headers == {} else 3 * HOUR
        edited = desk.edit(made, params={"duration": duration}, headers=headers)
        assert (edited["start_time"], edited["duration"]) == (made["start_time"], duration)
        assert edited["end_time"] == f"2026-01-01T{10 + duration // HOUR}:00:00.000Z"
        (event,) = studio.happened()
        assert event.action == "edited"
        assert set(event.changes) >= {"end_time", "duration", "elapsed_time"}
    assert desk.edit(made, json={"duration": 5000})["duration"] == 5000
    assert desk.edit(made, params={"duration": 1}, json={"duration": 6000})["duration"] == 6000


def test_times_and_duration_are_kept_consistent(desk: Desk, task_id: str) -> None:
    made = desk.new(task_id, start_time="2026-01-01T10:00:00Z", duration=HOUR)
    assert desk.edit(made, json={"end_time": "2026-01-01T12:00:00Z"})["duration"] == 2 * HOUR
    assert desk.edit(made, json={"start_time": "2026-01-01T09:00:00Z"})["duration"] == 3 * HOUR
    body = {"start_time": "2026-01-01T09:30:00Z", "end_time": "2026-01-01T11:00:00Z"}
    edited = desk.edit(made, params={"duration": HOUR}, json=body)  # as specified
    assert (edited["duration"], edited["end_time"]) == (HOUR, "2026-01-01T11:00:00.000Z")
    path = f"/timesheets/{made['id']}"
    for wrong, fault in (
        ({"end_time": "2026-01-01T09:00:00Z"}, "end_time"),
        ({"start_time": "2026-01-01T11:00:01Z"}, "start_time"),
        ({"end_time": "2026-01-01T10:00:00Z", "duration": HOUR}, "duration"),
    ):
        assert desk.caller.faults("PATCH", path, json=wrong) == {fault: "invalid"}
    assert desk.get(made) == edited


@pytest.mark.parametrize("change", [{"duration": HOUR}, {"end_time": "2098-01-01T00:00:00Z"}])
def test_setting_a_duration_or_end_finishes_a_timer(
    studio: Studio, desk: Desk, task_id: str, change: dict[str, object]
) -> None:
    made = desk.new(task_id)
    if "end_time" in change:
        change = {"end_time": made["start_time"]}
    studio.happened()
    edited = desk.edit(made, json=change)
    assert (edited["is_active"], edited["finished"]) == (False, True)
    assert edited["duration"] == change.get("duration", 0)
    (event,) = studio.happened()
    assert (event.action, event.record) == ("finished", edited)
    assert event.changes["finished"] == {"from": False, "to": True}


def test_moving_the_start_changes_the_duration_of_a_running_timer(studio: Studio, desk: Desk, task_id: str) -> None:
    made = desk.new(task_id)
    run_since(studio, made["id"], HOUR)
    start, before = parse_rfc3339("2026-01-01T00:00:00Z"), now_ms()
    edited = desk.edit(made, json={"start_time": "2026-01-01T00:00:00Z"})
    assert (edited["is_active"], edited["end_time"]) == (True, None)
    assert before - start - 1000 < edited["duration"] <= now_ms() - start


def test_an_edit_without_a_change_is_not_an_event(studio: Studio, desk: Desk, task_id: str) -> None:
    made = desk.new(task_id, duration=HOUR, notes="as it was", billable_rate=10)
    claim(studio, made["id"])
    studio.happened()
    same = {"task_id": task_id, "notes": "as it was", "duration": HOUR, "billable_rate": 10, "billable": False}
    times = {"start_time": made["start_time"], "end_time": made["end_time"]}
    for body in ({}, same, times, {**same, **times}):
        assert desk.edit(made, json=body) == made
    assert studio.happened() == []


def test_invalid_edits_are_refused(desk: Desk, task_id: str) -> None:
    cases: list[tuple[dict[str, object], dict[str, str]]] = [
        ({"start_time": None}, {"start_time": "invalid"}),
        ({"task_id": None, "billable": None}, {"task_id": "invalid", "billable": "invalid"}),
        ({"duration": "ten"}, {"duration": "invalid"}),
        ({"finished": False}, {"finished": "unknown"}),
    ]
    made = desk.new(task_id, duration=HOUR)
    for body, faults in cases:
        assert desk.caller.faults("PATCH", f"/timesheets/{made['id']}", json=body) == faults, body


def test_a_finished_timesheet_cannot_be_reopened(studio: Studio, desk: Desk, task_id: str) -> None:
    made = desk.new(task_id, duration=HOUR)
    studio.happened()
    path = f"/timesheets/{made['id']}"
    assert desk.caller.refused(409, "PATCH", path, json={"end_time": None})["code"] == "finished"
    for how in ("pause", "resume"):
        assert desk.caller.refused(409, "POST", f"{path}/{how}")["code"] == "finished"
    assert studio.happened() == []


def test_an_invoiced_timesheet_cannot_be_changed(studio: Studio, desk: Desk, task_id: str) -> None:
    made = desk.new(task_id, duration=HOUR, billable=True)
    claim(studio, made["id"])
    studio.happened()
    path = f"/timesheets/{made['id']}"
    assert desk.caller.refused(409, "PATCH", path, json={"notes": "late"})["code"] == "invoiced"
    assert desk.caller.refused(409, "PATCH", path, params={"duration": 1})["code"] == "invoiced"
    assert desk.caller.refused(409, "DELETE", path)["code"] == "invoiced"
    assert desk.turn(made, "finish") == made
    assert studio.happened() == []


def test_a_timesheet_can_be_deleted(studio: Studio, desk: Desk, task_id: str) -> None:
    made = desk.new(task_id, duration=HOUR)
    studio.happened()
    path = f"/timesheets/{made['id']}"
    assert desk.caller.delete(path) == {"success": True}
    (event,) = studio.happened()
    assert (event.action, event.record) == ("deleted", made)
    for method, where in (("GET", path), ("PATCH", path), ("DELETE", path), ("POST", f"{path}/resume")):
        desk.caller.refused(404, method, where)


def test_conditional_requests_work_for_a_running_timer(studio: Studio, desk: Desk, task_id: str) -> None:
    made = desk.new(task_id)
    path = f"/timesheets/{made['id']}"
    tag = desk.caller.call("GET", path).headers["etag"]
    while (later := desk.get(made))["duration"] == made["duration"]:
        pass
    again = desk.caller.call("GET", path, headers={"If-None-Match": tag})
    assert again.status_code == 200, "its duration is another"
    assert again.json()["timesheet"]["duration"] >= later["duration"]
    edited = desk.caller.call("PATCH", path, json={"notes": "new"}, headers={"If-Match": tag})
    assert edited.status_code == 200
    desk.caller.refused(412, "PATCH", path, json={"notes": "newer"}, headers={"If-Match": tag})
    desk.caller.patch(path, json={"notes": "newer"}, headers={"If-Match": edited.headers["etag"]})
