"""Tasks: creating, changing, completing and deleting them. Moves are covered in `test_positions.py`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.work.studio import JsonObject, Studio

EVERYTHING: JsonObject = {
    "title": "  Paint the door ",
    "description": "Both sides.\nTwice.",
    "priority": "HIGH",
    "deadline": "2026-12-24",
    "cover_url": "https://example.com/door.png",
    "fields": {"room": "hall"},
    "sections": {"paint": {"colour": "blue", "tins": "2"}},
    "labels": ["home", "weekend", "home"],
}


def test_a_created_task_can_be_read(studio: Studio) -> None:
    column_id = studio.column()
    studio.happened()
    answer = studio.owner.post(f"/columns/{column_id}/tasks", json={**EVERYTHING, "assignees": [studio.owner.login]})
    made = answer["task"]
    assert answer == {"success": True, "task": made}
    [assignee] = made["assignees"]
    assert assignee["username"] == assignee["login"] == studio.world.owner
    assert made == {
        "id": made["id"],
        "number": 1,
        "title": "Paint the door",
        "description": "Both sides.\nTwice.",
        "cover_url": "https://example.com/door.png",
        "priority": "high",
        "deadline": "2026-12-24T00:00:00.000Z",
        "position": 0,
        "fields": {"room": "hall"},
        "sections": {"paint": {"colour": "blue", "tins": "2"}},
        "project": {"id": studio.project_id, "title": "Website"},
        "column": {"id": column_id, "title": "To do"},
        "assignees": [assignee],
        "labels": ["home", "weekend"],
        "hourly_rate": None,
        "billable": None,
        "estimate": None,
        "parent_id": None,
        "subtasks": {"total": 0, "completed": 0},
        "blocked_by": [],
        "blocked": False,
        "repeat": None,
        "completed_at": None,
        "created_at": made["created_at"],
        "updated_at": made["created_at"],
    }
    assert made["id"].startswith("tsk_")
    assert studio.owner.get(f"/tasks/{made['id']}") == answer
    assert studio.owner.get(f"/columns/{column_id}/tasks") == {"success": True, "tasks": [made]}
    [event] = studio.happened()
    assert (event.name, event.action, event.record, event.changes) == ("task", "created", made, {})
    assert event.payload["sender"]["login"] == studio.world.owner


def test_a_minimal_task_has_every_field(studio: Studio) -> None:
    made = studio.owner.new_task(studio.column(), "Bare")
    assert {name for name, value in made.items() if value is None} == {
        "description",
        "cover_url",
        "priority",
        "deadline",
        "hourly_rate",
        "billable",
        "estimate",
        "parent_id",
        "repeat",
        "completed_at",
    }
    assert (made["fields"], made["sections"], made["assignees"], made["labels"]) == ({}, {}, [], [])


@pytest.mark.parametrize("headers", [{}, {"Content-Type": "application/json"}])
def test_a_task_can_be_created_from_query_parameters_only(studio: Studio, headers: dict[str, str]) -> None:
    """As specified, with no body or an empty one."""
    query = {
        "title": "From the query",
        "description": "words",
        "priority": "Low",
        "deadline": "2026-12-24T10:00:00+01:00",
        "position": "0",
        "cover_url": "https://example.com/a.png",
        "fields": '{"a": "b"}',
        "labels": ["x", "y"],
    }
    made = studio.owner.post(f"/columns/{studio.column()}/tasks", params=query, headers=headers)["task"]
    assert (made["title"], made["description"], made["priority"]) == ("From the query", "words", "low")
    assert (made["deadline"], made["position"]) == ("2026-12-24T09:00:00.000Z", 0)
    assert (made["cover_url"], made["fields"], made["labels"]) == ("https://example.com/a.png", {"a": "b"}, ["x", "y"])


def test_body_parameters_override_query_parameters(studio: Studio) -> None:
    query, body = {"title": "query", "priority": "low"}, {"title": "body"}
    made = studio.owner.post(f"/columns/{studio.column()}/tasks", params=query, json=body)["task"]
    assert (made["title"], made["priority"]) == ("body", "low")


def test_all_invalid_fields_are_named_at_once(studio: Studio) -> None:
    column_id = studio.column()
    made = studio.owner.new_task(column_id)
    body: JsonObject = {
        "title": "x" * 256,
        "description": "x" * (64 * 1024 + 1),
        "priority": "urgent",
        "deadline": "2026-12-24T10:00:00",
        "position": -1,
        "cover_url": "ftp://example.com",
        "fields": {"a": 1},
        "sections": {"a": {"b": None}},
        "labels": [""],
        "assignees": "me",
        "colour": "red",
    }
    wrong = {name: "unknown" if name == "colour" else "invalid" for name in body}
    assert studio.owner.faults("POST", f"/columns/{column_id}/tasks", json=body) == wrong
    assert studio.owner.faults("PATCH", f"/tasks/{made['id']}", json=body) == wrong
    assert studio.owner.faults("POST", f"/columns/{column_id}/tasks", json={}) == {"title": "missing"}
    for name in ("title", "position", "column_id"):
        assert studio.owner.faults("PATCH", f"/tasks/{made['id']}", json={name: None}) == {name: "invalid"}
    assert studio.owner.faults("POST", f"/columns/{column_id}/tasks", json={"title": "a", "column_id": "b"}) == {
        "column_id": "unknown"
    }


def test_sizes_and_counts_are_limited(studio: Studio) -> None:
    column_id = studio.column()
    most = {str(number): "value" for number in range(100)}
    body: JsonObject = {"title": "é" * 255, "description": "é" * (32 * 1024), "fields": most}
    body |= {"sections": {key: {} for key in most}, "labels": [str(number) * 85 for number in range(100, 200)]}
    made = studio.owner.new_task(column_id, **body)
    assert (len(made["fields"]), len(made["sections"]), len(made["labels"])) == (100, 100, 100)
    over: JsonObject = {
        "fields": {**most, "one": "more"},
        "sections": {"a": {**most, "one": "more"}},
        "labels": [str(number) for number in range(101)],
    }
    for name, value in over.items():
        assert studio.owner.faults("PATCH", f"/tasks/{made['id']}", json={name: value}) == {name: "invalid"}
    assert studio.owner.faults("PATCH", f"/tasks/{made['id']}", json={"labels": ["x" * 256]}) == {"labels": "invalid"}
    large = "x" * (64 * 1024)
    for name, value in (("fields", {"a": large}), ("sections", {"a": {"b": large}})):
        assert studio.owner.faults("PATCH", f"/tasks/{made['id']}", json={name: value}) == {name: "invalid"}


def test_an_edit_changes_only_the_given_fields(studio: Studio) -> None:
    before = studio.owner.new_task(studio.column(), **{**EVERYTHING, "title": "Old"})
    studio.happened()
    edit = {"title": "New", "priority": "Low", "labels": ["home"], "fields": {"room": "hall", "floor": "1"}}
    after = studio.owner.patch(f"/tasks/{before['id']}", json=edit)["task"]
    assert after == {**before, **edit, "priority": "low", "updated_at": after["updated_at"]}
    assert after["updated_at"] > before["updated_at"]
    [event] = studio.happened()
    assert (event.name, event.action, event.record) == ("task", "edited", after)
    assert event.changes == {
        "title": {"from": "Old", "to": "New"},
        "priority": {"from": "high", "to": "low"},
        "labels": {"from": ["home", "weekend"], "to": ["home"]},
        "fields": {"from": {"room": "hall"}, "to": {"room": "hall", "floor": "1"}},
    }


def test_null_clears_a_field(studio: Studio) -> None:
    made = studio.owner.new_task(studio.column(), **EVERYTHING, assignees=[studio.owner.login])
    names = ("description", "priority", "deadline", "cover_url", "fields", "sections", "labels", "assignees")
    cleared = studio.owner.patch(f"/tasks/{made['id']}", json=dict.fromkeys(names))["task"]
    assert [cleared[name] for name in names] == [None, None, None, None, {}, {}, [], []]
    assert studio.owner.get(f"/tasks/{made['id']}")["task"] == cleared


def test_an_edit_without_a_change_is_not_an_event(studio: Studio) -> None:
    column_id = studio.column()
    before = studio.owner.new_task(column_id, **EVERYTHING, assignees=[studio.owner.login])
    studio.happened()
    same = {**EVERYTHING, "assignees": [studio.owner.login.upper()], "column_id": column_id, "position": 0}
    for body in ({}, same, {"position": 5}, {"fields": {"room": "hall"}}, {"column_id": column_id}):
        assert studio.owner.patch(f"/tasks/{before['id']}", json=body)["task"] == before
    assert studio.happened() == []


def test_assignees_must_see_the_project(studio: Studio) -> None:
    column_id = studio.column()
    people = [each.login for each in (studio.owner, studio.member, studio.client, studio.add(role="read"))]
    made = studio.owner.new_task(column_id, assignees=[*reversed(people), people[0].upper()])
    assert [each["username"] for each in made["assignees"]] == people
    outsider = studio.stranger.login
    names = [outsider, people[0], "nobody-at-all", studio.world.organization]
    refused = studio.owner.refused(422, "POST", f"/columns/{column_id}/tasks", json={"title": "x", "assignees": names})
    [fault] = refused["errors"]
    assert fault["field"] == "assignees"
    assert outsider in fault["message"]
    assert "nobody-at-all" in fault["message"]
    assert studio.world.organization in fault["message"]
    assert people[0] not in fault["message"]
    studio.happened()
    after = studio.owner.patch(f"/tasks/{made['id']}", json={"assignees": people[:2]})["task"]
    assert [each["username"] for each in after["assignees"]] == people[:2]
    [event] = studio.happened()
    assert event.action == "edited"
    assert [each["username"] for each in event.changes["assignees"]["from"]] == people


def test_only_added_members_can_be_assigned_in_a_private_project(studio: Studio) -> None:
    column_id, member = studio.column(), studio.member.login
    studio.owner.patch(studio.project, json={"private": True})
    assert studio.owner.faults("POST", f"/columns/{column_id}/tasks", json={"title": "x", "assignees": [member]}) == {
        "assignees": "invalid"
    }


def test_a_task_is_found_only_in_its_own_project(studio: Studio) -> None:
    column_id = studio.column()
    made = studio.owner.new_task(column_id)
    other = studio.owner.post("/projects", json={"title": "Other", "organization": studio.world.organization})
    for project_id, status in ((studio.project_id, 200), (other["project"]["id"], 404), ("x", 404)):
        query: JsonObject = {"project_id": project_id}
        for method, path in (("GET", f"/tasks/{made['id']}"), ("GET", f"/columns/{column_id}/tasks")):
            assert studio.owner.call(method, path, params=query).status_code == status
        assert studio.owner.call("PATCH", f"/tasks/{made['id']}", params=query).status_code == status
        body = {"title": "x", **query}
        assert studio.owner.call("POST", f"/columns/{column_id}/tasks", json=body).status_code == status
    studio.owner.refused(404, "DELETE", f"/tasks/{made['id']}", params={"project_id": "x"})
    studio.owner.delete(f"/tasks/{made['id']}", params={"project_id": studio.project_id})
    studio.owner.refused(404, "POST", f"/tasks/{made['id']}/restore", params={"project_id": "x"})


def test_a_task_cannot_be_moved_to_a_column_of_another_project(studio: Studio) -> None:
    made = studio.owner.new_task(studio.column())
    other = studio.owner.post("/projects", json={"title": "Other", "organization": studio.world.organization})
    path = f"/projects/{other['project']['id']}/columns"
    far = studio.owner.post(path, json={"title": "Far"})["column"]["id"]
    for column_id in (far, "col_none"):
        assert studio.owner.faults("PATCH", f"/tasks/{made['id']}", json={"column_id": column_id}) == {
            "column_id": "not_found"
        }
    studio.owner.refused(404, "PATCH", "/tasks/tsk_none", json={"column_id": far})


def test_shifting_a_task_changes_its_etag(studio: Studio) -> None:
    column_id = studio.column()
    made = studio.owner.new_task(column_id)
    path = f"/tasks/{made['id']}"
    tag = studio.owner.call("GET", path).headers["etag"]
    studio.owner.new_task(column_id, "in front", position=0)
    for method, body in (("PATCH", {"title": "x"}), ("PATCH", {"position": 0}), ("DELETE", None)):
        studio.owner.refused(412, method, path, json=body, headers={"If-Match": tag})
    tag = studio.owner.call("GET", path).headers["etag"]
    studio.owner.patch(path, json={"position": 0}, headers={"If-Match": tag})


def test_a_deleted_task_is_gone_and_can_be_restored(studio: Studio) -> None:
    column_id = studio.column()
    made = [studio.owner.new_task(column_id, str(number), labels=["x"]) for number in range(3)]
    path = f"/tasks/{made[0]['id']}"
    studio.happened()
    assert studio.owner.delete(path) == {"success": True}
    [event] = studio.happened()
    assert (event.action, event.record) == ("deleted", made[0])
    for method in ("GET", "PATCH", "DELETE"):
        studio.owner.refused(404, method, path)
    left = studio.owner.get(f"/columns/{column_id}/tasks")["tasks"]
    assert [(each["title"], each["position"]) for each in left] == [("1", 0), ("2", 1)]
    assert [each["title"] for each in studio.owner.get(f"{studio.project}/tasks")["tasks"]] == ["1", "2"]
    back = studio.owner.post(f"{path}/restore")["task"]
    assert back == {**made[0], "position": 2, "updated_at": back["updated_at"]}
    [event] = studio.happened()
    assert (event.action, event.record) == ("created", back)
    assert studio.owner.post(f"{path}/restore")["task"] == back
    assert studio.happened() == []
    assert studio.owner.get(path)["task"] == back


def test_a_task_whose_column_was_deleted_is_restored_to_the_first(studio: Studio) -> None:
    first, gone = studio.column("First", stage="done"), studio.column("Gone")
    made = studio.owner.new_task(gone)
    studio.owner.delete(f"/tasks/{made['id']}")
    studio.owner.delete(f"/columns/{gone}")
    back = studio.owner.post(f"/tasks/{made['id']}/restore")["task"]
    assert (back["column"]["id"], back["position"]) == (first, 0)
    assert back["completed_at"] is not None
    assert [each["id"] for each in studio.owner.get(f"/columns/{first}/tasks")["tasks"]] == [made["id"]]


def test_an_emptied_column_accepts_tasks(studio: Studio) -> None:
    column_id = studio.column()
    for _ in range(2):
        made = studio.owner.new_task(column_id)
        assert made["position"] == 0
        studio.owner.delete(f"/tasks/{made['id']}")


def test_a_client_can_change_only_its_own_tasks(studio: Studio) -> None:
    column_id, other = studio.column(), studio.column("Doing")
    theirs, own = studio.owner.new_task(column_id), studio.client.new_task(column_id, "Wish")
    for method, body in (("PATCH", {"title": "x"}), ("PATCH", {"column_id": other}), ("DELETE", {})):
        refused = studio.client.refused(403, method, f"/tasks/{theirs['id']}", json=body)
        assert refused["code"] == "missing_role"
    assert studio.client.patch(f"/tasks/{own['id']}", json={"title": "Wishes"})["task"]["title"] == "Wishes"
    studio.owner.delete(f"/tasks/{theirs['id']}")
    studio.client.refused(403, "POST", f"/tasks/{theirs['id']}/restore")
    studio.client.delete(f"/tasks/{own['id']}")
    studio.client.post(f"/tasks/{own['id']}/restore")


# --- tasks bulk ------------------------------------------------------------------------------------------------------
# Bulk changes of tasks.


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


def test_a_bulk_request_can_mix_all_operations(studio: Studio) -> None:
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


def test_a_task_named_twice_is_one_event(studio: Studio) -> None:
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


def test_a_bulk_request_without_changes_is_not_an_event(studio: Studio) -> None:
    todo = studio.column()
    one, two = filled(studio, todo, 2)
    before = studio.owner.get(f"/columns/{todo}/tasks")["tasks"]
    studio.happened()
    tasks = bulk(studio, {"action": "edit", "id": one}, {"action": "move", "id": two, "position": 9})
    assert tasks == before
    assert studio.happened() == []


def test_errors_name_the_operation(studio: Studio) -> None:
    todo = studio.column()
    [one] = filled(studio, todo, 1)
    other = studio.owner.post("/projects", json={"title": "Other", "organization": studio.world.organization})
    far = studio.owner.post(f"/projects/{other['project']['id']}/columns", json={"title": "Far"})["column"]["id"]
    studio.happened()
    assert faults(studio, create(todo), create(todo, "x" * 256), {"action": "paint"}) == {
        "operations[1].title": "invalid",
        "operations[2].action": "invalid",
    }
    wrong: list[JsonObject] = [
        {"action": "create"},
        {"action": "create", "column_id": todo, "title": "x", "id": one},
        {"action": "edit", "title": "x"},
        {"action": "move", "id": one},
        {"action": "move", "id": one, "position": 0, "title": "x"},
        {"action": "delete", "id": one, "column_id": todo},
    ]
    coloured = {"action": "edit", "id": one, "colour": "red"}
    assert faults(studio, *wrong, coloured) == {"operations[6].colour": "unknown"}
    assert faults(studio, *wrong) == {
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


def test_the_number_of_operations_is_limited(studio: Studio) -> None:
    todo = studio.column()
    assert studio.owner.faults("POST", "/tasks/bulk", json={}) == {"operations": "missing"}
    for wrong in ([], [create(todo)] * 1001, "x", [1]):
        assert studio.owner.faults("POST", "/tasks/bulk", json={"operations": wrong}) == {"operations": "invalid"}


def test_a_thousand_changes_match_a_plain_list(studio: Studio) -> None:
    """The tasks are spread over several buckets."""
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


def test_an_edit_beside_an_append_works_in_a_column_of_several_buckets(studio: Studio) -> None:
    """If tasks are only appended, just the last bucket of the column is read."""
    todo = studio.column()
    first, *rest = filled(studio, todo, 200)
    edited, made = bulk(studio, {"action": "edit", "id": first, "title": "Edited"}, create(todo, "Last"))
    assert (edited["title"], edited["position"], made["position"]) == ("Edited", 0, 200)
    assert order(studio, todo) == [first, *rest, made["id"]]


def test_a_bulk_request_can_span_projects(studio: Studio) -> None:
    here = studio.column()
    other = studio.owner.post("/projects", json={"title": "Other", "organization": studio.world.organization})
    far = studio.owner.post(f"/projects/{other['project']['id']}/columns", json={"title": "Far"})["column"]["id"]
    tasks = bulk(studio, create(here, assignees=[studio.world.owner]), create(far, assignees=[studio.world.owner]))
    assert [each["project"]["id"] for each in tasks] == [studio.project_id, other["project"]["id"]]


def test_bulk_moves_start_timers_and_complete_tasks(studio: Studio) -> None:
    todo = studio.column()
    doing, done = studio.column("Doing", start_timer=True), studio.column("Done", stage="done")
    one, two = filled(studio, todo, 2)
    studio.happened()
    bulk(studio, *({"action": "move", "id": each, "column_id": doing} for each in (one, two)))
    assert [(each.name, each.action) for each in studio.happened()][2:] == [("timesheet", "started")]
    bulk(studio, *({"action": "move", "id": each, "column_id": done} for each in (one, two)))
    events = [(each.name, each.action) for each in studio.happened()]
    assert events == [("task", "completed"), ("task", "completed"), ("timesheet", "finished")]


def test_bulk_requests_check_permissions(studio: Studio) -> None:
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


def test_concurrent_bulk_requests_lose_no_task(studio: Studio) -> None:
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
