"""Repeating tasks: completing one creates the next according to its rule, once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.work.studio import JsonObject, Studio
from workhook.core.clock import DAY_MS, now_ms
from workhook.work.board.tasks import recurrence

DAY = "2026-11-23"  # a Monday
FULL: JsonObject = {
    "description": "As always.",
    "priority": "High",
    "cover_url": "https://example.com/a.png",
    "labels": ["home"],
    "fields": {"room": "hall"},
    "sections": {"Steps": {"sweep": "complete", "mop": "incomplete", "size": "A4"}},
    "deadline": DAY,
    "repeat": "rrule:freq=weekly; byday=MO",
}


def _ms(day: str) -> int:
    return round(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() * 1000)


def _day(moment: int | None) -> str | None:
    return (
        None if moment is None else (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=moment)).isoformat()[:10]
    )


@pytest.mark.parametrize(
    ("rule", "following"),
    [
        ("FREQ=DAILY", ["2026-11-24", "2026-11-25"]),
        ("FREQ=DAILY;INTERVAL=3", ["2026-11-26", "2026-11-29"]),
        ("FREQ=WEEKLY", ["2026-11-30", "2026-12-07"]),
        ("FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR", ["2026-11-24", "2026-11-25", "2026-11-26", "2026-11-27", "2026-11-30"]),
        ("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,TH", ["2026-11-26", "2026-12-07"]),
        ("FREQ=MONTHLY", ["2026-12-23", "2027-01-23"]),
        ("FREQ=MONTHLY;BYMONTHDAY=-1", ["2026-11-30", "2026-12-31"]),
        ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", ["2026-11-30", "2026-12-31"]),
        ("FREQ=MONTHLY;BYDAY=2TU", ["2026-12-08", "2027-01-12"]),
        ("FREQ=YEARLY", ["2027-11-23", "2028-11-23"]),
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", ["2028-02-29", "2032-02-29"]),
        ("FREQ=DAILY;UNTIL=20261125", ["2026-11-24", "2026-11-25", None]),
        ("FREQ=DAILY;UNTIL=20261124T120000Z", ["2026-11-24", None]),
    ],
)
def test_a_rule_yields_the_expected_days(rule: str, following: list[str | None]) -> None:
    assert recurrence.find_rule_error(rule) is None
    moment: int | None = _ms(DAY)
    for day in following:
        assert moment is not None
        moment = _after(rule, moment)
        assert _day(moment) == day


def _after(rule: str, moment: int) -> int | None:
    found = recurrence.next_after(rule, moment, UTC)
    return found.at if found else None


def test_the_time_of_day_is_kept() -> None:
    noon = _ms(DAY) + DAY_MS // 2 + 123
    assert _after("FREQ=DAILY", noon) == noon + DAY_MS


def test_the_count_decreases() -> None:
    assert _after("FREQ=DAILY;COUNT=2", _ms(DAY)) == _ms(DAY) + DAY_MS
    assert _after("FREQ=DAILY;COUNT=1", _ms(DAY)) is None
    assert recurrence.decrement_count("FREQ=DAILY;COUNT=3") == "FREQ=DAILY;COUNT=2"
    assert recurrence.decrement_count("FREQ=DAILY;COUNT=2") is None
    assert recurrence.decrement_count("FREQ=DAILY") == "FREQ=DAILY"


@pytest.mark.parametrize(
    "rule",
    [
        "",
        "daily",
        "FREQ=HOURLY",
        "FREQ=DAILY;BYHOUR=8",
        "FREQ=DAILY;BYSECOND=1",
        "FREQ=DAILY;BYMONTH=2",
        "FREQ=DAILY;INTERVAL=0",
        "FREQ=DAILY;INTERVAL=1000",
        "FREQ=DAILY;COUNT=2;UNTIL=20270101",
        "FREQ=DAILY;UNTIL=20260231",
        "FREQ=WEEKLY;BYDAY=2MO",
        "FREQ=WEEKLY;BYDAY=",
        "FREQ=WEEKLY;FREQ=DAILY",
        "FREQ=MONTHLY;BYMONTHDAY=32",
        "FREQ=MONTHLY;BYSETPOS=1",
        "FREQ=YEARLY;BYWEEKNO=1",
        "FREQ=DAILY;DTSTART=20260101",
        "FREQ=DAILY\nRDATE:20260101",
        "FREQ=WEEKLY;BYDAY=\u0661MO",
    ],
)
def test_an_invalid_rule_is_refused_with_an_example(rule: str) -> None:
    assert "FREQ=WEEKLY;BYDAY=MO" in str(recurrence.find_rule_error(rule))


def test_a_rule_without_a_next_occurrence_is_refused(studio: Studio) -> None:
    cases: list[str] = [
        "FREQ=DAILY;COUNT=1",
        "FREQ=DAILY;UNTIL=20200101",
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=DAILY;INTERVAL=7;BYDAY=TU",
        "FREQ=MONTHLY;BYMONTHDAY=31;BYSETPOS=2",
    ]
    task = studio.task(studio.column(), deadline=DAY)
    for rule in cases:
        (fault,) = studio.owner.refused(422, "PATCH", f"/tasks/{task}", json={"repeat": rule})["errors"]
        assert fault["message"] == "repeat: this rule has no further dates; use one that continues, or null", rule


def _others(studio: Studio, *known: str) -> list[JsonObject]:
    return [each for each in studio.owner.get(f"{studio.project}/tasks")["tasks"] if each["id"] not in known]


def _columns(studio: Studio) -> tuple[str, str, str]:
    return studio.column("To do"), studio.column("Doing"), studio.column("Done", finished=True)


def _move(studio: Studio, task: str, column: str) -> Any:
    return studio.owner.patch(f"/tasks/{task}", json={"column_id": column})["task"]


def test_completing_a_task_creates_the_next_once(studio: Studio) -> None:
    todo, doing, done = _columns(studio)
    blocker = studio.task(todo, "Blocker")
    task = studio.owner.new_task(doing, "Sweep", assignees=[studio.owner.login], blocked_by=[blocker], **FULL)
    assert task["repeat"] == "FREQ=WEEKLY;BYDAY=MO"
    studio.happened()
    finished = _move(studio, task["id"], done)
    assert finished["repeat"] == task["repeat"]
    completed, created = studio.happened()
    assert (completed.action, created.action) == ("completed", "created")
    (made,) = _others(studio, blocker, task["id"])
    assert made == created.record
    same = ("title", "description", "priority", "cover_url", "labels", "fields", "assignees", "repeat", "project")
    assert {name: made[name] for name in same} == {name: task[name] for name in same}
    assert made["deadline"] == "2026-11-30T00:00:00.000Z"
    assert made["sections"] == {"Steps": {"sweep": "incomplete", "mop": "incomplete", "size": "A4"}}
    assert (made["column"]["id"], made["completed_at"], made["blocked_by"]) == (todo, None, [])
    assert made["position"] == 1
    for column in (todo, done):
        _move(studio, task["id"], column)
    assert len(_others(studio, blocker, task["id"])) == 1, "it has made its next one already"
    _move(studio, made["id"], done)
    assert len(_others(studio, blocker, task["id"], made["id"])) == 1


def test_a_chain_ends_after_its_count(studio: Studio) -> None:
    todo, _, done = _columns(studio)
    task = studio.task(todo, repeat="FREQ=DAILY;COUNT=3", deadline=DAY)
    known, rules = [task], []
    while made := _others(studio, *known) or (_move(studio, known[-1], done) and _others(studio, *known)):
        known.append(made[0]["id"])
        rules.append((made[0]["repeat"], made[0]["deadline"][:10]))
    assert rules == [("FREQ=DAILY;COUNT=2", "2026-11-24"), (None, "2026-11-25")]


def test_without_a_deadline_the_rule_starts_today(studio: Studio) -> None:
    todo, _, done = _columns(studio)
    before = now_ms()
    task = studio.task(todo, repeat="FREQ=DAILY")
    _move(studio, task, done)
    (made,) = _others(studio, task)
    days = {_day(moment - moment % DAY_MS + DAY_MS) for moment in (before, now_ms())}
    assert made["deadline"][:10] in days


def test_bulk_completion_creates_the_next_tasks(studio: Studio) -> None:
    todo, _, done = _columns(studio)
    tasks = [studio.task(todo, str(number), repeat="FREQ=DAILY", deadline=DAY) for number in range(3)]
    moves = [{"action": "move", "id": each, "column_id": done} for each in tasks]
    studio.happened()
    studio.owner.post("/tasks/bulk", json={"operations": moves})
    assert [each.action for each in studio.happened()] == ["completed"] * 3 + ["created"] * 3
    made = sorted(_others(studio, *tasks), key=lambda each: int(each["position"]))
    assert [(each["title"], each["position"]) for each in made] == [("0", 0), ("1", 1), ("2", 2)]
    assert studio.owner.get(f"/columns/{todo}/tasks")["tasks"] == made


def test_the_next_of_a_subtask_is_a_subtask(studio: Studio) -> None:
    todo, _, done = _columns(studio)
    parent = studio.task(todo)
    task = studio.task(todo, repeat="FREQ=DAILY", parent_id=parent)
    _move(studio, task, done)
    (made,) = _others(studio, parent, task)
    assert made["parent_id"] == parent
    studio.owner.delete(f"/tasks/{parent}")
    _move(studio, made["id"], done)
    (last,) = _others(studio, parent, task, made["id"])
    assert last["parent_id"] is None, "the task above is in the trash"


def test_a_client_completing_its_task_owns_the_next(studio: Studio) -> None:
    todo, _, done = _columns(studio)
    task = studio.client.new_task(todo, repeat="FREQ=DAILY")["id"]
    studio.client.patch(f"/tasks/{task}", json={"column_id": done})
    (made,) = _others(studio, task)
    studio.client.patch(f"/tasks/{made['id']}", json={"title": "Mine"})


def test_a_task_created_as_completed_does_not_repeat(studio: Studio) -> None:
    done = studio.column("Done", finished=True)
    task = studio.task(done, repeat="FREQ=DAILY")
    assert _others(studio, task) == [], "what is made in such a column was never open"


@pytest.mark.parametrize("way", ["complete", "bulk"])
def test_the_next_tasks_keep_day_and_time_in_the_projects_time_zone(studio: Studio, way: str) -> None:
    account = f"/organizations/{studio.world.organization}/billing"
    studio.owner.patch(account, json={"timezone": "Europe/Berlin"})
    studio.column(title="To do")
    done = studio.column(title="Done", finished=True)

    def chain_of(length: int, **body: Any) -> list[str]:
        task_id, found = studio.task(**body), []
        for _ in range(length):
            if way == "complete":
                studio.owner.patch(f"/tasks/{task_id}", json={"column_id": done})
            else:
                operation = {"action": "move", "id": task_id, "column_id": done}
                studio.owner.post("/tasks/bulk", json={"operations": [operation]})
            [task] = studio.owner.get(f"{studio.project}/tasks", params={"finished": "false"})["tasks"]
            task_id = task["id"]
            assert task["repeat"] == body["repeat"]
            found.append(task["deadline"])
        studio.owner.delete(f"/tasks/{task_id}")
        return found

    monthly = chain_of(3, deadline="2026-01-31", repeat="FREQ=MONTHLY")
    assert [each[:10] for each in monthly] == ["2026-02-28", "2026-03-31", "2026-04-30"]
    weekly = chain_of(2, deadline="2026-10-19T09:00:00+02:00", repeat="FREQ=WEEKLY")
    assert weekly == ["2026-10-26T08:00:00.000Z", "2026-11-02T08:00:00.000Z"]
    mondays = chain_of(2, deadline="2026-10-19T00:30:00+02:00", repeat="FREQ=WEEKLY;BYDAY=MO")
    assert mondays == ["2026-10-25T23:30:00.000Z", "2026-11-01T23:30:00.000Z"]


def test_changing_the_deadline_restarts_the_rule(studio: Studio) -> None:
    studio.column(title="To do")
    done = studio.column(title="Done", finished=True)
    first = studio.task(deadline="2026-01-31", repeat="FREQ=MONTHLY")
    studio.owner.patch(f"/tasks/{first}", json={"column_id": done})
    [task] = studio.owner.get(f"{studio.project}/tasks", params={"finished": "false"})["tasks"]
    studio.owner.patch(f"/tasks/{task['id']}", json={"deadline": "2026-02-20"})
    studio.owner.patch(f"/tasks/{task['id']}", json={"column_id": done})
    [task] = studio.owner.get(f"{studio.project}/tasks", params={"finished": "false"})["tasks"]
    assert task["deadline"][:10] == "2026-03-20"


@pytest.mark.parametrize("rule", ["daily", "FREQ=MONTHLY;BYDAY=MO;BYSETPOS=999", "FREQ=YEARLY;BYDAY=+MO"])
def test_an_unsupported_rule_is_refused_in_every_request(studio: Studio, rule: str) -> None:
    column, task_id = studio.column(), studio.task()
    body = {"title": "X", "repeat": rule}
    studio.owner.refused(422, "POST", f"/columns/{column}/tasks", json=body)
    studio.owner.refused(422, "PATCH", f"/tasks/{task_id}", json={"repeat": rule})
    for operation in ({"action": "create", "column_id": column, **body}, {"action": "edit", "id": task_id, **body}):
        problem = studio.owner.refused(422, "POST", "/tasks/bulk", json={"operations": [operation]})
        assert problem["errors"][0]["field"] == "operations[0].repeat"
