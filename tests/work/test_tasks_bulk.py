"""Many changes of tasks in one request."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.work.studio import JsonObject, Studio


def bulk(studio: Studio, *operations: JsonObject) -> list[Any]:
    answer = studio.owner.post("/tasks/bulk", json={"operations": operations})
    assert answer["success"] is True
    tasks: list[Any] = answer["tasks"]
    return tasks


def create(column_id: str, title: str = "Task", **more: Any) -> JsonObject:
    return {"action": "create", "column_id": column_id, "title": title, **more}


def filled(studio: Studio, column_id: str, count: int) -> list[str]:
    return [each["id"] for each in bulk(studio, *(create(column_id, str(number)) for number in range(count)))]


def order(studio: Studio, column_id: str) -> list[str]:
    tasks = studio.owner.get(f"/columns/{column_id}/tasks")["tasks"]
    assert [each["position"] for each in tasks] == list(range(len(tasks)))
    return [each["id"] for each in tasks]


def faults(studio: Studio, *operations: JsonObject) -> dict[str, str]:
    return studio.owner.faults("POST", "/tasks/bulk", json={"operations": operations})


def test_everything_at_once(studio: Studio) -> None:
    todo, done = studio.column(), studio.column("Done", stage="done")
    one, two, three, four = filled(studio, todo, 4)
    studio.happened()
    tasks = bulk(
        studio,
        create(todo, "New", position=0, priority="High", labels=["x"], assignees=[studio.world.owner]),
        {"action": "edit", "id": one, "title": "Edited", "description": "words"},
        {"action": "move", "id": two, "column_id": done},
        {"action": "delete", "id": three},
        {"action": "move", "id": four, "position": 0},
        create(done, "Made done"),
    )
    assert tasks[3] is None
    shown = [each for each in tasks if each is not None]
    assert [studio.owner.get(f"/tasks/{each['id']}")["task"] for each in shown] == shown
    assert [each["title"] for each in shown] == ["New", "Edited", "1", "3", "Made done"]
    assert [each["position"] for each in shown] == [1, 2, 0, 0, 1]
    assert [each["completed_at"] is not None for each in shown] == [False, False, True, False, True]
    new = shown[0]
    assert (new["priority"], new["labels"], new["assignees"][0]["username"]) == ("high", ["x"], studio.world.owner)
    assert order(studio, todo) == [four, new["id"], one]
    assert order(studio, done) == [two, shown[4]["id"]]
    studio.owner.refused(404, "GET", f"/tasks/{three}")
    events = studio.happened()
    assert [(each.action, each.record["id"]) for each in events] == [
        ("created", new["id"]),
        ("edited", one),
        ("completed", two),
        ("moved", four),
        ("created", shown[4]["id"]),
        ("deleted", three),
    ]
    assert [each.record for each in events[:-1]] == shown
    assert set(events[1].changes) == {"title", "description"}
    assert set(events[2].changes) == {"column_id", "position", "completed_at"}
    assert events[3].changes == {"position": {"from": 3, "to": 0}}


def test_a_task_that_is_named_twice_is_one_event(studio: Studio) -> None:
    todo, other = studio.column(), studio.column("Other")
    one, two, three = filled(studio, todo, 3)
    studio.happened()
    tasks = bulk(
        studio,
        {"action": "edit", "id": one, "title": "A"},
        {"action": "move", "id": one, "column_id": other},
        {"action": "edit", "id": one, "position": 0, "priority": "low"},
        {"action": "edit", "id": two, "title": "gone"},
        {"action": "delete", "id": two},
        {"action": "edit", "id": three, "title": "B"},
        {"action": "edit", "id": three, "title": "2"},
    )
    assert tasks[0] == tasks[1] == tasks[2]
    assert tasks[3:5] == [None, None]
    moved, deleted = studio.happened()
    assert (moved.action, set(moved.changes)) == ("moved", {"title", "column_id", "priority"})
    assert (deleted.action, deleted.record["title"]) == ("deleted", "1")
    assert tasks[5]["title"] == "2"


def test_what_changes_nothing_is_no_event(studio: Studio) -> None:
    todo = studio.column()
    one, two = filled(studio, todo, 2)
    before = studio.owner.get(f"/columns/{todo}/tasks")["tasks"]
    studio.happened()
    tasks = bulk(studio, {"action": "edit", "id": one}, {"action": "move", "id": two, "position": 9})
    assert tasks == before
    assert studio.happened() == []


def test_faults_name_the_operation(studio: Studio) -> None:
    todo = studio.column()
    [one] = filled(studio, todo, 1)
    other = studio.owner.post("/projects", json={"title": "Other", "organization": studio.world.organization})
    far = studio.owner.post(f"/projects/{other['project']['id']}/columns", json={"title": "Far"})["column"]["id"]
    studio.happened()
    assert faults(studio, create(todo), create(todo, "x" * 256), {"action": "paint"}) == {
        "operations[1].title": "invalid",
        "operations[2].action": "invalid",
    }
    assert faults(
        studio,
        {"action": "create"},
        {"action": "create", "column_id": todo, "title": "x", "id": one},
        {"action": "edit", "title": "x"},
        {"action": "move", "id": one},
        {"action": "move", "id": one, "position": 0, "title": "x"},
        {"action": "delete", "id": one, "column_id": todo},
        {"action": "edit", "id": one, "colour": "red"},
    ) == {"operations[6].colour": "unknown"}
    assert faults(
        studio,
        {"action": "create"},
        {"action": "create", "column_id": todo, "title": "x", "id": one},
        {"action": "edit", "title": "x"},
        {"action": "move", "id": one},
        {"action": "move", "id": one, "position": 0, "title": "x"},
        {"action": "delete", "id": one, "column_id": todo},
    ) == {
        "operations[0].column_id": "missing",
        "operations[0].title": "missing",
        "operations[1].id": "unknown",
        "operations[2].id": "missing",
        "operations[3].column_id": "missing",
        "operations[4].title": "unknown",
        "operations[5].column_id": "unknown",
    }
    not_found = {
        "operations[1].column_id": create("col_none"),
        "operations[1].id": {"action": "delete", "id": "tsk_none"},
        "operations[1].project_id": {"action": "edit", "id": one, "project_id": "prj_none"},
    }
    for field, operation in not_found.items():
        assert faults(studio, create(todo), operation) == {field: "not_found"}
    assert faults(studio, create(todo), {"action": "move", "id": one, "column_id": far}) == {
        "operations[1].column_id": "not_found"
    }
    assert faults(studio, {"action": "delete", "id": one}, {"action": "edit", "id": one, "title": "x"}) == {
        "operations[1].id": "not_found"
    }
    assert faults(studio, create(todo), create(todo, assignees=["nobody-at-all"])) == {
        "operations[1].assignees": "invalid"
    }
    assert order(studio, todo) == [one]  # all or nothing
    assert studio.happened() == []


def test_how_many(studio: Studio) -> None:
    todo = studio.column()
    assert studio.owner.faults("POST", "/tasks/bulk", json={}) == {"operations": "missing"}
    for wrong in ([], [create(todo)] * 1001, "x", [1]):
        assert studio.owner.faults("POST", "/tasks/bulk", json={"operations": wrong}) == {"operations": "invalid"}


def test_a_thousand_changes(studio: Studio) -> None:
    """In several buckets, against a plain list."""
    here, there = studio.column(), studio.column("There")
    wanted, moved = filled(studio, here, 1000), list[str]()
    operations: list[JsonObject] = []
    for number in range(300):
        task_id = wanted.pop((number * 7) % len(wanted))
        wanted.insert((number * 13) % len(wanted), task_id)
        operations.append({"action": "move", "id": task_id, "position": wanted.index(task_id)})
    for number in range(300):
        task_id = wanted.pop((number * 3) % len(wanted))
        moved.insert(number // 2, task_id)
        operations.append({"action": "move", "id": task_id, "column_id": there, "position": number // 2})
    for number in range(300):
        task_id = wanted.pop((number * 5) % len(wanted))
        operations.append({"action": "delete", "id": task_id})
    tasks = bulk(studio, *operations)
    assert order(studio, here) == wanted
    assert order(studio, there) == moved
    position = {task_id: number for number, task_id in enumerate(moved)}
    assert all(each["position"] == position[each["id"]] for each in tasks[300:600] if each is not None)
    created = filled(studio, there, 1000)
    assert order(studio, there) == [*moved, *created][:1000]
    studio.happened()


def test_a_task_is_edited_beside_new_ones_in_a_column_of_several_buckets(studio: Studio) -> None:
    """Where tasks only come to the end, the last bucket is all that is read of the column."""
    todo = studio.column()
    first, *rest = filled(studio, todo, 200)
    edited, made = bulk(studio, {"action": "edit", "id": first, "title": "Edited"}, create(todo, "Last"))
    assert (edited["title"], edited["position"], made["position"]) == ("Edited", 0, 200)
    assert order(studio, todo) == [first, *rest, made["id"]]


def test_several_projects(studio: Studio) -> None:
    here = studio.column()
    other = studio.owner.post("/projects", json={"title": "Other", "organization": studio.world.organization})
    far = studio.owner.post(f"/projects/{other['project']['id']}/columns", json={"title": "Far"})["column"]["id"]
    tasks = bulk(studio, create(here, assignees=[studio.world.owner]), create(far, assignees=[studio.world.owner]))
    assert [each["project"]["id"] for each in tasks] == [studio.project_id, other["project"]["id"]]


def test_timers_and_completion(studio: Studio) -> None:
    todo = studio.column()
    doing, done = studio.column("Doing", start_timer=True), studio.column("Done", stage="done")
    one, two = filled(studio, todo, 2)
    studio.happened()
    bulk(studio, *({"action": "move", "id": each, "column_id": doing} for each in (one, two)))
    assert [(each.name, each.action) for each in studio.happened()][2:] == [("timesheet", "started")]
    bulk(studio, *({"action": "move", "id": each, "column_id": done} for each in (one, two)))
    events = [(each.name, each.action) for each in studio.happened()]
    assert events == [("task", "completed"), ("task", "completed"), ("timesheet", "finished")]


def test_who_may(studio: Studio) -> None:
    todo = studio.column()
    [theirs] = filled(studio, todo, 1)
    own = studio.client.post(f"/columns/{todo}/tasks", json={"title": "Wish"})["task"]["id"]

    def body(*operations: JsonObject) -> JsonObject:
        return {"operations": operations}

    studio.client.post("/tasks/bulk", json=body(create(todo), {"action": "edit", "id": own, "title": "Wishes"}))
    for action in ("edit", "delete"):
        studio.client.refused(403, "POST", "/tasks/bulk", json=body({"action": action, "id": theirs}))
    studio.add(role="read").refused(403, "POST", "/tasks/bulk", json=body(create(todo)))
    studio.nobody.refused(401, "POST", "/tasks/bulk", json=body(create(todo)))
    for operation, field in ((create(todo), "column_id"), ({"action": "delete", "id": theirs}, "id")):
        assert studio.stranger.faults("POST", "/tasks/bulk", json=body(operation)) == {
            f"operations[0].{field}": "not_found"
        }
    studio.owner.patch(studio.project, json={"archive": True})
    assert studio.owner.refused(409, "POST", "/tasks/bulk", json=body(create(todo)))["code"] == "archived"


def test_at_once(studio: Studio) -> None:
    here, there = studio.column(), studio.column("There")
    mine, theirs = filled(studio, here, 40), filled(studio, there, 40)

    def work(number: int) -> None:
        source, target = (mine, there) if number % 2 else (theirs, here)
        moves = [{"action": "move", "id": each, "column_id": target, "position": 3} for each in source[number::8]]
        bulk(studio, *moves, create(here, f"new {number}"))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    left, right = order(studio, here), order(studio, there)
    assert len(left) + len(right) == 88
    assert set(mine) | set(theirs) <= set(left) | set(right)
