"""A project's tasks: filters, sorting, pages, the trash."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.work.studio import JsonObject, Studio
from workhook.core.clock import DAY_MS, now_ms, parse_rfc3339
from workhook.work.history import trash


def titles(studio: Studio, **query: Any) -> list[str]:
    tasks = studio.owner.get(f"{studio.project}/tasks", params=query)["tasks"]
    return [each["title"] for each in tasks]


@pytest.fixture
def board(studio: Studio) -> Studio:
    todo, done = studio.column(), studio.column("Done", stage="done")
    member = studio.member.login
    studio.task(todo, "door", priority="High", labels=["home", "a,b"], deadline="2026-12-01", assignees=[member])
    studio.task(todo, "Window", priority="low", labels=["home"], deadline="2026-12-03", description="of the kitchen")
    studio.task(done, "roof", priority="low", assignees=[member, studio.world.owner])
    studio.task(todo, "attic", labels=['"home"', ","], deadline="2026-12-02T12:00:00Z")
    return studio


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ({}, ["door", "Window", "roof", "attic"]),
        ({"priority": "LOW"}, ["Window", "roof"]),
        ({"label": "home"}, ["door", "Window"]),
        ({"label": "Home"}, []),
        ({"label": "a,b"}, ["door"]),
        ({"label": ","}, ["attic"]),
        ({"label": '"home"'}, ["attic"]),
        ({"deadline_before": "2026-12-03"}, ["door", "attic"]),
        ({"deadline_after": "2026-12-01"}, ["Window", "attic"]),
        ({"deadline_after": "2026-12-02"}, ["Window"]),
        ({"deadline_after": "2026-12-02", "timezone": "Pacific/Auckland"}, ["Window", "attic"]),
        ({"deadline_before": "2026-12-02"}, ["door"]),
        ({"deadline_before": "2026-12-02", "timezone": "Etc/GMT+12"}, ["door"]),
        ({"deadline_before": "2026-12-03", "timezone": "Pacific/Auckland"}, ["door"]),
        ({"deadline_after": "2026-12-01", "timezone": "Pacific/Pago_Pago"}, ["Window", "attic"]),
        ({"deadline_after": "2026-12-02T00:00:00Z"}, ["Window", "attic"]),
        ({"deadline_after": "2026-12-01", "deadline_before": "2026-12-02T12:00:00+00:00"}, []),
        ({"finished": "true"}, ["roof"]),
        ({"finished": "false"}, ["door", "Window", "attic"]),
        ({"q": "window"}, ["Window"]),
        ({"q": "kitch"}, ["Window"]),
        ({"q": "!!"}, []),
        ({"priority": "low", "finished": "false"}, ["Window"]),
    ],
)
def test_filters(board: Studio, query: dict[str, str], wanted: list[str]) -> None:
    assert titles(board, **query) == wanted


def test_the_filter_for_an_assignee(board: Studio) -> None:
    member = board.member.login
    assert titles(board, assignee=member.upper()) == ["door", "roof"]
    assert titles(board, assignee=board.world.owner) == ["roof"]
    assert titles(board, assignee="nobody-at-all") == []


def test_every_record_is_whole(board: Studio) -> None:
    listed = board.owner.get(f"{board.project}/tasks")["tasks"]
    for each in listed:
        assert board.owner.get(f"/tasks/{each['id']}")["task"] == each
    for column_id in {each["column"]["id"] for each in listed}:  # all of it is read in another way than a page of it
        path = f"/columns/{column_id}/tasks"
        found = board.owner.get(path)["tasks"]
        by_id = sorted(found, key=lambda each: str(each["id"]))
        assert by_id == [each for each in listed if each["column"]["id"] == column_id]
        assert board.owner.get(path, params={"per_page": 1})["tasks"] == found[:1]


def pages(studio: Studio, query: JsonObject) -> Iterator[list[str]]:
    target = f"{studio.project}/tasks?{urlencode(query)}"
    while True:
        response = studio.owner.call("GET", target)
        assert response.status_code == 200, response.text
        yield [each["title"] for each in response.json()["tasks"]]
        if "next" not in response.links:
            return
        target = response.links["next"]["url"].split("/api/v1", 1)[1]


SORTED = {
    "created_at": ["door", "Window", "roof", "attic", "late"],
    "updated_at": ["Window", "roof", "attic", "late", "door"],
    "deadline": ["door", "attic", "Window", "roof", "late"],
}


@pytest.mark.parametrize("per_page", [1, 3])
@pytest.mark.parametrize("name", ["created_at", "updated_at", "deadline", "title"])
def test_sorting_holds_over_pages(board: Studio, name: str, per_page: int) -> None:
    [column_id] = {each["column"]["id"] for each in board.owner.get(f"{board.project}/tasks")["tasks"][:1]}
    board.task(column_id, "late")
    first = board.owner.get(f"{board.project}/tasks")["tasks"][0]
    board.owner.patch(f"/tasks/{first['id']}", json={"description": "changed last"})
    for sort in (name, f"-{name}"):
        listed = list(pages(board, {"sort": sort, "per_page": per_page}))
        assert {len(page) for page in listed[:-1]} <= {per_page}
        found = [title for page in listed for title in page]
        if name == "title":  # capitals come first, or with their letter, as the database has it
            assert sorted(found) == sorted(titles(board))
            lower = [each for each in found if each.islower()]
            assert lower == sorted(lower, reverse=sort.startswith("-"))
        elif name == "deadline" and sort.startswith("-"):
            assert found == ["Window", "attic", "door", "late", "roof"]  # without one: last all the same
        else:
            assert found == (SORTED[name][::-1] if sort.startswith("-") else SORTED[name])


def test_filters_hold_over_pages(board: Studio) -> None:
    assert list(pages(board, {"label": "home", "per_page": 1})) == [["door"], ["Window"]]
    assert list(pages(board, {"priority": "low", "per_page": 1})) == [["Window"], ["roof"]]


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ({"colour": "red"}, {"colour": "unknown"}),
        ({"sort": "position"}, {"sort": "invalid"}),
        ({"priority": "urgent"}, {"priority": "invalid"}),
        ({"finished": "maybe"}, {"finished": "invalid"}),
        ({"deadline_before": "soon"}, {"deadline_before": "invalid"}),
        ({"per_page": "0"}, {"per_page": "invalid"}),
        ({"cursor": "v1_WzEsMl0"}, {"cursor": "invalid"}),
        ({"cursor": "v1_WyJhIiwiYiJd", "sort": "deadline"}, {"cursor": "invalid"}),
    ],
)
def test_faults(board: Studio, query: dict[str, str], fault: dict[str, str]) -> None:
    assert board.owner.faults("GET", f"{board.project}/tasks", params=query) == fault


# --- the trash --------------------------------------------------------------------------------------------------------


def in_the_trash(studio: Studio) -> list[JsonObject]:
    found: list[JsonObject] = studio.owner.get(f"{studio.project}/trash")["trash"]
    return found


def purged(studio: Studio, days: int) -> int:
    count: int = studio.server.run(lambda services: trash.purge_tasks(services, now_ms() + days * DAY_MS))
    return count


def test_what_was_deleted_is_in_the_trash_for_a_month(studio: Studio) -> None:
    column_id = studio.column()
    made = [studio.task(column_id, title) for title in "ABC"]
    for each in made[:2]:
        studio.owner.delete(f"/tasks/{each}")
    found = in_the_trash(studio)
    shown = [(each["type"], each["id"], each["title"]) for each in found]
    assert shown == [("task", made[1], "B"), ("task", made[0], "A")]
    assert abs(parse_rfc3339(found[0]["deleted_at"]) - now_ms()) < DAY_MS
    assert purged(studio, 29) == 0
    studio.owner.post(f"/tasks/{made[0]}/restore")
    assert purged(studio, 31) >= 1
    assert in_the_trash(studio) == []
    studio.owner.refused(404, "POST", f"/tasks/{made[1]}/restore")
    assert titles(studio) == ["A", "C"]


def test_time_that_was_recorded_keeps_its_task(studio: Studio) -> None:
    column_id = studio.column()
    made = [studio.task(column_id, str(number)) for number in range(130)]  # more than a batch
    body = {"task_id": made[0], "duration": 60_000}
    timesheet = studio.owner.post(f"{studio.project}/timesheets", json=body)["timesheet"]
    operations = [{"action": "delete", "id": each} for each in made]
    studio.owner.post("/tasks/bulk", json={"operations": operations})
    assert purged(studio, 31) >= 129
    assert [each["id"] for each in in_the_trash(studio)] == [made[0]]
    kept = studio.owner.get(f"/timesheets/{timesheet['id']}")["timesheet"]
    assert kept["task"] == {"id": made[0], "title": "0"}
