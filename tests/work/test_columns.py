"""Columns: creating, changing, moving and deleting them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.work.studio import Studio


def made(studio: Studio, *titles: str, **more: Any) -> list[str]:
    """Create columns at the end of the board and return their IDs."""
    path = f"{studio.project}/columns"
    return [studio.owner.post(path, json={"title": title, **more})["column"]["id"] for title in titles]


def titles(studio: Studio) -> list[str]:
    """Return the titles in order, checking that the positions match."""
    columns = studio.owner.get(f"{studio.project}/columns")["columns"]
    assert [each["position"] for each in columns] == list(range(len(columns)))
    return [each["title"] for each in columns]


def cards(studio: Studio, column_id: str) -> list[str]:
    tasks = studio.owner.get(f"/columns/{column_id}/tasks")["tasks"]
    assert [each["position"] for each in tasks] == list(range(len(tasks)))
    return [each["title"] for each in tasks]


def test_a_created_column_can_be_read(studio: Studio) -> None:
    answer = studio.owner.post(f"{studio.project}/columns", json={"title": " To do "})
    column = answer["column"]
    assert answer == {"success": True, "column": column}
    times = {"created_at": column["created_at"], "updated_at": column["created_at"]}
    assert column == {
        "id": column["id"],
        "title": "To do",
        "position": 0,
        "stage": None,
        "finished": False,
        "start_timer": False,
        **times,
    }
    assert column["id"].startswith("col_")
    assert studio.owner.get(f"/columns/{column['id']}") == answer
    assert studio.owner.get(f"{studio.project}/columns") == {"success": True, "columns": [column]}
    [event] = studio.happened()
    assert (event.name, event.action, event.record) == ("column", "created", column)
    assert event.payload["repository"]["project_id"] == studio.project_id


def test_columns_keep_the_positions_they_were_given(studio: Studio) -> None:
    first, _, third = made(studio, "A", "B", "C")
    made(studio, "front", position=0)
    made(studio, "middle", position=2)
    made(studio, "far", position=99)
    assert titles(studio) == ["front", "A", "middle", "B", "C", "far"]
    studio.happened()
    assert studio.owner.patch(f"/columns/{third}", json={"position": 0})["column"]["position"] == 0
    assert studio.owner.patch(f"/columns/{first}", json={"position": 99})["column"]["position"] == 5
    assert titles(studio) == ["C", "front", "middle", "B", "far", "A"]
    moves = studio.happened()
    assert [(each.name, each.action, each.changes) for each in moves] == [
        ("column", "moved", {"position": {"from": 4, "to": 0}}),
        ("column", "moved", {"position": {"from": 2, "to": 5}}),
    ]


def test_many_moves_to_one_position_keep_the_order(studio: Studio) -> None:
    """There are more moves than free ranks between two columns."""
    first, last = made(studio, "first", "last")
    assert first != last
    for number in range(40):
        made(studio, str(number), position=1)
    assert titles(studio) == ["first", *(str(number) for number in reversed(range(40))), "last"]


def test_an_edit_changes_only_the_given_fields(studio: Studio) -> None:
    [column_id] = made(studio, "A", stage="in_queue")
    before = studio.owner.get(f"/columns/{column_id}")["column"]
    studio.happened()
    after = studio.owner.patch(f"/columns/{column_id}", json={"title": "B", "stage": None, "finished": True})["column"]
    assert after == {**before, "title": "B", "stage": None, "finished": True, "updated_at": after["updated_at"]}
    assert after["updated_at"] > before["updated_at"]
    [event] = studio.happened()
    assert (event.action, event.record) == ("edited", after)
    assert event.changes == {
        "title": {"from": "A", "to": "B"},
        "stage": {"from": "in_queue", "to": None},
        "finished": {"from": False, "to": True},
    }


def test_an_edit_with_a_move_is_one_event(studio: Studio) -> None:
    made(studio, "A", "B")
    [column_id] = made(studio, "C")
    studio.happened()
    studio.owner.patch(f"/columns/{column_id}", json={"title": "D", "position": 1})
    [event] = studio.happened()
    assert event.action == "moved"
    assert event.changes == {"title": {"from": "C", "to": "D"}, "position": {"from": 2, "to": 1}}


def test_an_edit_without_a_change_is_not_an_event(studio: Studio) -> None:
    _, column_id = made(studio, "A", "B")
    before = studio.owner.get(f"/columns/{column_id}")
    studio.happened()
    for body in ({}, {"title": "B"}, {"position": 1}, {"position": 7}, {"stage": None, "finished": False}):
        assert studio.owner.patch(f"/columns/{column_id}", json=body) == before
    assert studio.happened() == []


def test_invalid_fields_are_named(studio: Studio) -> None:
    [column_id] = made(studio, "A")
    path = f"{studio.project}/columns"
    body: dict[str, Any] = {"title": "x" * 256, "position": -1, "stage": "doing", "finished": "no", "color": "red"}
    wrong = {"title": "invalid", "position": "invalid", "stage": "invalid", "finished": "invalid", "color": "unknown"}
    assert studio.owner.faults("POST", path, json=body) == wrong
    assert studio.owner.faults("PATCH", f"/columns/{column_id}", json=body) == wrong
    assert studio.owner.faults("POST", path, json={}) == {"title": "missing"}
    assert studio.owner.faults("POST", path, json={"title": "  "}) == {"title": "invalid"}
    assert studio.owner.faults("PATCH", f"/columns/{column_id}", json={"title": None}) == {"title": "invalid"}


def test_a_column_for_completed_tasks_cannot_start_timers(studio: Studio) -> None:
    path = f"{studio.project}/columns"
    for done in ({"stage": "done"}, {"finished": True}):
        assert studio.owner.faults("POST", path, json={"title": "A", "start_timer": True, **done}) == {
            "start_timer": "invalid"
        }
    [column_id] = made(studio, "A", stage="done")
    assert studio.owner.faults("PATCH", f"/columns/{column_id}", json={"start_timer": True}) == {
        "start_timer": "invalid"
    }
    studio.owner.patch(f"/columns/{column_id}", json={"start_timer": True, "stage": "in_progress"})


def test_the_number_of_columns_is_limited(studio: Studio) -> None:
    made(studio, *(str(number) for number in range(200)))
    refused = studio.owner.refused(422, "POST", f"{studio.project}/columns", json={"title": "one more"})
    assert "200" in refused["errors"][0]["message"]


def test_shifting_a_column_changes_its_etag(studio: Studio) -> None:
    made(studio, "A")
    [column_id] = made(studio, "B")
    path = f"/columns/{column_id}"
    tag = studio.owner.call("GET", path).headers["etag"]
    made(studio, "front", position=0)
    for method in ("PATCH", "DELETE"):
        studio.owner.refused(412, method, path, headers={"If-Match": tag})


def test_deleting_a_column_moves_its_tasks_to_the_first_other_column(studio: Studio) -> None:
    todo, done = made(studio, "To do", "Done")
    for number in range(3):
        studio.owner.new_task(done, f"there {number}")
    going = [studio.owner.new_task(todo, f"going {number}") for number in range(3)]
    studio.happened()
    assert studio.owner.delete(f"/columns/{todo}") == {"success": True}
    assert cards(studio, done) == ["there 0", "there 1", "there 2", "going 0", "going 1", "going 2"]
    *moves, last = studio.happened()
    assert [(each.name, each.action) for each in moves] == [("task", "moved")] * 3
    assert [each.record for each in moves] == [studio.owner.get(f"/tasks/{each['id']}")["task"] for each in going]
    assert moves[1].changes == {"column_id": {"from": todo, "to": done}, "position": {"from": 1, "to": 4}}
    assert (last.name, last.action, last.record["id"]) == ("column", "deleted", todo)
    assert titles(studio) == ["Done"]
    for method in ("GET", "PATCH", "DELETE"):
        studio.owner.refused(404, method, f"/columns/{todo}")
    assert studio.owner.new_task(done, "later")["position"] == 6
    assert studio.owner.patch(f"/tasks/{going[2]['id']}", json={"position": 0})["task"]["position"] == 0
    assert cards(studio, done)[0] == "going 2"


def test_tasks_moved_to_a_done_column_are_completed(studio: Studio) -> None:
    todo, _ = made(studio, "To do", "Done", stage="done")
    column = studio.owner.patch(f"/columns/{todo}", json={"stage": None})["column"]
    going = studio.owner.new_task(column["id"])
    studio.happened()
    studio.owner.delete(f"/columns/{todo}")
    moved, _ = studio.happened()
    assert moved.action == "moved"
    assert moved.changes["completed_at"]["from"] is None
    assert studio.owner.get(f"/tasks/{going['id']}")["task"]["completed_at"] == moved.changes["completed_at"]["to"]


def test_the_last_column_cannot_be_deleted(studio: Studio) -> None:
    [column_id] = made(studio, "Only")
    assert studio.owner.refused(409, "DELETE", f"/columns/{column_id}")["code"] == "last_column"
    assert titles(studio) == ["Only"]


def test_concurrent_deletions_of_both_columns_leave_one(studio: Studio) -> None:
    """The remaining one is then the last column and contains the tasks of both."""
    one, two = made(studio, "A", "B")
    studio.owner.new_task(one, "a")
    studio.owner.new_task(two, "b")
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda each: studio.owner.call("DELETE", f"/columns/{each}"), (one, two)))
    assert sorted(each.status_code for each in answers) == [200, 409]
    [left] = studio.owner.get(f"{studio.project}/columns")["columns"]
    assert sorted(cards(studio, left["id"])) == ["a", "b"]


def test_concurrent_moves_all_succeed(studio: Studio) -> None:
    """Moves to one position can produce the same rank twice.

    The next move then respaces all ranks, which locks every row.
    """
    columns = made(studio, *"ABCDEFGH")

    def move(number: int) -> int:
        wanted = {"position": 3 + number % 2}
        return studio.owner.call("PATCH", f"/columns/{columns[number * 5 % 8]}", json=wanted).status_code

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(move, range(120))) == {200}
    assert sorted(titles(studio)) == list("ABCDEFGH")
