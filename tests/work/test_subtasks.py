"""Subtasks: one level below a task of the same project, counted by it, and each a task of its own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.work.studio import Caller, Studio
from workhook.work.board.tasks.relations import SUBTASKS_MAX

NOT_FOUND = "parent_id: there is no such task in the task's project"
NO_LEVELS = "parent_id: a subtask cannot have subtasks; name the task above it"
HAS_SUBTASKS = "parent_id: the task has subtasks, perhaps in the trash, so it cannot be one; move them first"


def _counts(studio: Studio, task: str) -> tuple[int, int]:
    counts = studio.owner.get(f"/tasks/{task}")["task"]["subtasks"]
    return counts["total"], counts["completed"]


def _ids(caller: Caller, path: str, **query: str) -> list[str]:
    return [each["id"] for each in caller.get(path, params=query)["tasks"]]


def _says(studio: Studio, path: str, **body: Any) -> str:
    method = "POST" if "/columns/" in path else "PATCH"
    (fault,) = studio.owner.refused(422, method, path, json=body)["errors"]
    assert fault["field"] == "parent_id"
    return str(fault["message"])


def test_a_task_counts_its_subtasks(studio: Studio) -> None:
    column, done = studio.column(), studio.column("Done", finished=True)
    parent = studio.task(column, "Website")
    first, second = (studio.task(column, each, parent_id=parent) for each in ("Texts", "Pictures"))
    assert _counts(studio, parent) == (2, 0)
    studio.happened()
    moved = studio.owner.patch(f"/tasks/{first}", json={"column_id": done})["task"]
    assert (moved["parent_id"], _counts(studio, parent)) == (parent, (2, 1))
    (event,) = studio.happened()
    assert (event.action, event.record["parent_id"]) == ("completed", parent)
    assert studio.owner.get(f"/tasks/{parent}")["task"]["completed_at"] is None, "each completes by itself"
    lists = (f"/columns/{column}/tasks", f"{studio.project}/tasks", "/tasks")
    for path in lists:
        found = {each["id"]: each for each in studio.owner.get(path)["tasks"]}
        assert found[parent]["subtasks"] == {"total": 2, "completed": 1}
        assert found[second]["parent_id"] == parent
    for path in lists[1:]:
        assert _ids(studio.owner, path, parent_id=parent) == [first, second]
        assert _ids(studio.owner, path, parent_id=parent, finished="true") == [first]
        assert _ids(studio.owner, path, parent_id=parent, sort="title") == [second, first]
    assert _ids(studio.owner, lists[0], parent_id=parent) == [second]
    assert _ids(studio.client, lists[1], parent_id=parent) == [first, second]


def test_a_task_comes_below_another_and_out_again(studio: Studio) -> None:
    column = studio.column()
    parent, task = studio.task(column), studio.task(column)
    studio.happened()
    assert studio.owner.patch(f"/tasks/{task}", json={"parent_id": parent})["task"]["parent_id"] == parent
    (event,) = studio.happened()
    assert (event.action, event.changes) == ("edited", {"parent_id": {"from": None, "to": parent}})
    studio.owner.patch(f"/tasks/{task}", json={"parent_id": parent})
    assert studio.happened() == []
    assert studio.owner.patch(f"/tasks/{task}", json={"parent_id": None})["task"]["parent_id"] is None
    assert _counts(studio, parent) == (0, 0)


def test_there_is_one_level(studio: Studio) -> None:
    column = studio.column()
    parent = studio.task(column)
    child = studio.task(column, parent_id=parent)
    other = studio.task(column)
    assert _says(studio, f"/columns/{column}/tasks", title="Below", parent_id=child) == NO_LEVELS
    assert _says(studio, f"/tasks/{other}", parent_id=child) == NO_LEVELS
    assert _says(studio, f"/tasks/{parent}", parent_id=other) == HAS_SUBTASKS
    assert _says(studio, f"/tasks/{other}", parent_id=other) == "parent_id: a task cannot be a subtask of itself"
    studio.owner.delete(f"/tasks/{child}")
    assert _says(studio, f"/tasks/{parent}", parent_id=other) == HAS_SUBTASKS, "the subtask can be restored"


def test_only_a_task_of_the_same_project_will_do(studio: Studio) -> None:
    column = studio.column()
    elsewhere = studio.owner.post("/projects", json={"title": "Elsewhere"})["project"]["id"]
    theirs = studio.task(studio.column(project=f"/projects/{elsewhere}"))
    deleted, task = studio.task(column), studio.task(column)
    studio.owner.delete(f"/tasks/{deleted}")
    for wrong in (theirs, deleted, "tsk_nothing"):
        assert _says(studio, f"/tasks/{task}", parent_id=wrong) == NOT_FOUND
        assert _says(studio, f"/columns/{column}/tasks", title="New", parent_id=wrong) == NOT_FOUND
    assert _ids(studio.owner, f"{studio.project}/tasks", parent_id=theirs) == []


def test_the_trash_loses_nothing(studio: Studio) -> None:
    column = studio.column()
    parent = studio.task(column)
    child = studio.task(column, parent_id=parent)
    studio.owner.delete(f"/tasks/{parent}")
    shown = studio.owner.get(f"/tasks/{child}")["task"]
    assert shown["parent_id"] == parent, "it stays where it is"
    studio.owner.patch(f"/tasks/{child}", json={"title": "Else"})
    studio.owner.post(f"/tasks/{parent}/restore")
    assert _counts(studio, parent) == (1, 0)
    studio.owner.delete(f"/tasks/{child}")
    assert _counts(studio, parent) == (0, 0)
    studio.owner.post(f"/tasks/{child}/restore")
    assert _counts(studio, parent) == (1, 0)


def test_many_at_once_keep_it(studio: Studio) -> None:
    column = studio.column()
    parent, first, second = (studio.task(column, each) for each in ("Parent", "First", "Second"))

    def bulk(status: int, *operations: Any) -> Any:
        response = studio.owner.call("POST", "/tasks/bulk", json={"operations": operations})
        assert response.status_code == status, response.text
        return response.json()

    create = {"action": "create", "column_id": column, "title": "New", "parent_id": parent}
    made, edited = bulk(200, create, {"action": "edit", "id": first, "parent_id": parent})["tasks"]
    assert made["parent_id"] == edited["parent_id"] == parent
    assert _counts(studio, parent) == (2, 0)
    below = {"action": "edit", "id": second, "parent_id": parent}
    faults = bulk(422, below, {"action": "edit", "id": parent, "parent_id": second})["errors"]
    assert [each["field"] for each in faults] == ["operations[0].parent_id", "operations[1].parent_id"]
    (fault,) = bulk(422, below, {"action": "delete", "id": parent})["errors"]
    assert fault["code"] == "not_found"
    # What each becomes in the end counts, not what it is in between.
    out = [{"action": "edit", "id": each, "parent_id": None} for each in (made["id"], first)]
    bulk(200, *out, {"action": "edit", "id": parent, "parent_id": second})
    assert _counts(studio, second) == (1, 0)


def test_a_task_has_at_most_a_hundred(studio: Studio) -> None:
    column = studio.column()
    parent = studio.task(column)
    create = {"action": "create", "column_id": column, "title": "New", "parent_id": parent}
    studio.owner.post("/tasks/bulk", json={"operations": [create] * SUBTASKS_MAX})
    (fault,) = studio.owner.refused(422, "POST", f"/columns/{column}/tasks", json={"title": "X", "parent_id": parent})[
        "errors"
    ]
    assert fault["code"] == "too_many"
    assert _counts(studio, parent) == (SUBTASKS_MAX, 0)


def test_of_two_at_once_no_second_level_comes(studio: Studio) -> None:
    column = studio.column()
    tasks = [studio.task(column, str(number)) for number in range(10)]

    def put(number: int) -> int:
        below = {"parent_id": tasks[(number + 1) % len(tasks)]}
        return studio.owner.call("PATCH", f"/tasks/{tasks[number]}", json=below).status_code

    with ThreadPoolExecutor(10) as pool:
        assert set(pool.map(put, range(10))) <= {200, 422}
    found = {each["id"]: each["parent_id"] for each in studio.owner.get(f"{studio.project}/tasks")["tasks"]}
    levels = [task for task, parent in found.items() if parent is not None and found[parent] is not None]
    assert levels == []
    assert any(found.values())


@pytest.mark.parametrize("value", ["", "x" * 65])
def test_what_is_no_id_is_refused(studio: Studio, value: str) -> None:
    studio.owner.refused(422, "POST", f"/columns/{studio.column()}/tasks", json={"title": "New", "parent_id": value})
