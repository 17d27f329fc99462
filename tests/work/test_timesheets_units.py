"""Durations and times in the wrong unit, or far in the future, are refused with a message naming the unit."""

from __future__ import annotations

from typing import Any

import pytest

from tests.work.studio import Studio
from tests.work.timesheets_kit import HOUR, Desk, make_task
from workhook.core.clock import DAY_MS, HOUR_MS, now_ms, to_millis_text

pytestmark = pytest.mark.one_database


def error_message(desk: Desk, method: str, path: str, **sent: Any) -> str:
    """Return the only error of a refused request."""
    answer = desk.caller.http.request(method, f"/api/v1{path}", **sent)
    assert answer.status_code == 422, answer.text
    [fault] = answer.json()["errors"]
    return f"{fault['field']}: {fault['message']}"


def test_a_duration_can_be_written_in_common_formats(studio: Studio, desk: Desk) -> None:
    """`tests/unit/test_durations.py` covers all formats."""
    task_id = make_task(studio)
    for duration, minutes in (("5400000", 90), (" 1h 30m", 90), ("1:30:15", 90.25), ("0:00", 0), ("1.5", 90)):
        made, other = desk.new(task_id, duration=duration), desk.new(task_id, duration=HOUR)
        edited = desk.caller.patch(f"/timesheets/{other['id']}", params={"duration": duration})["timesheet"]
        assert made["duration"] == edited["duration"] == minutes * 60_000


def test_an_invalid_duration_is_refused_with_an_example(studio: Studio, desk: Desk) -> None:
    made = desk.new(make_task(studio), duration=HOUR)
    for duration in ("", "1:60", "-1", "5e3", "\u0661", "1" * 5000, "soon"):
        told = error_message(desk, "PATCH", f"/timesheets/{made['id']}", params={"duration": duration})
        assert told.startswith("duration: ")
        assert "milliseconds, such as 5400000" in told
    for value in ("1:60", 1.5, -1, True, None, [1]):
        told = error_message(desk, "POST", desk.path, json={"task_id": made["task"]["id"], "duration": value})
        assert "such as 1h 30m or 1:30" in told
    assert desk.get(made)["duration"] == HOUR


def test_a_duration_of_more_than_a_month_is_refused(studio: Studio, desk: Desk) -> None:
    made = desk.new(make_task(studio), duration=31 * DAY_MS, end_time=to_millis_text(now_ms()))
    for duration in (31 * DAY_MS + 1000, HOUR * 1_000_000, 2**63, 10**30):
        told = error_message(desk, "PATCH", f"/timesheets/{made['id']}", params={"duration": str(duration)})
        assert "milliseconds" in told
        assert "31 days" in told or "such as" in told


@pytest.mark.parametrize("name", ["start_time", "end_time"])
def test_a_time_more_than_a_day_ahead_is_refused(studio: Studio, desk: Desk, name: str) -> None:
    task_id = make_task(studio)
    made = desk.new(task_id, duration=HOUR)
    far, near = to_millis_text(now_ms() + 2 * DAY_MS), to_millis_text(now_ms() + DAY_MS - HOUR_MS)
    for method, path, more in (
        ("POST", desk.path, {"task_id": task_id, "duration": HOUR}),
        ("PATCH", f"/timesheets/{made['id']}", {"duration": HOUR}),
    ):
        told = error_message(desk, method, path, json={**more, name: far})
        assert told.startswith(f"{name}: {name} must be at most a day ahead of the server's clock: until 20")
    assert desk.new(task_id, duration=HOUR, **{name: near})["finished"] is True
    for wrong in (1_763_800_000, 1_763_800_000_000, "1763800000"):  # Unix time in seconds or milliseconds
        told = error_message(desk, "POST", desk.path, json={"task_id": task_id, "duration": HOUR, name: wrong})
        assert "a time such as 2026-11-20T09:00:00Z" in told
