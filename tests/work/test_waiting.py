"""Tasks that wait for others: of the same project, never in a circle, and blocked while one of them is open."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.work.studio import Caller, JsonObject, Studio
from workhook.work.board.tasks.field_types import BLOCKERS_MAX
from workhook.work.board.tasks.waiting import find_circle

NOT_FOUND = "blocked_by: there is no such task in the task's project"


def _task(studio: Studio, task: str) -> JsonObject:
    found: JsonObject = studio.owner.get(f"/tasks/{task}")["task"]
    return found


def _wait(studio: Studio, task: str, *blockers: str) -> JsonObject:
    edited: JsonObject = studio.owner.patch(f"/tasks/{task}", json={"blocked_by": list(blockers)})["task"]
    return edited


def _fault(studio: Studio, task: str, *blockers: str) -> JsonObject:
    path, body = f"/tasks/{task}", {"blocked_by": list(blockers)}
    (fault,) = studio.owner.refused(422, "PATCH", path, json=body)["errors"]
    assert fault["field"] == "blocked_by"
    return dict(fault)


def _ids(caller: Caller, path: str, **query: str) -> list[str]:
    return [each["id"] for each in caller.get(path, params=query)["tasks"]]


def test_a_task_is_blocked_while_one_that_it_waits_for_is_open(studio: Studio) -> None:
    column, done = studio.column(), studio.column("Done", finished=True)
    first, second = studio.task(column, "First"), studio.task(column, "Second")
    task = studio.task(column, "Task")
    studio.happened()
    edited = _wait(studio, task, second, first, second)
    assert (edited["blocked_by"], edited["blocked"]) == ([first, second], True)
    (event,) = studio.happened()
    assert event.action == "edited"
    assert event.changes["blocked_by"] == {"from": [], "to": [first, second]}
    _wait(studio, task, first, second)
    assert studio.happened() == []
    for path in (f"/columns/{column}/tasks", f"{studio.project}/tasks", "/tasks"):
        found = {each["id"]: each["blocked"] for each in studio.owner.get(path)["tasks"]}
        assert found == {first: False, second: False, task: True}
        assert _ids(studio.owner, path, blocked="true") == [task]
        assert _ids(studio.client, path, blocked="false") == [first, second]
    studio.owner.patch(f"/tasks/{first}", json={"column_id": done})
    assert _task(studio, task)["blocked"], "the second is open"
    assert not _wait(studio, task, first)["blocked"]
    assert _wait(studio, task, first, second)["blocked"]
    studio.owner.delete(f"/tasks/{second}")
    shown = _task(studio, task)
    assert (shown["blocked_by"], shown["blocked"]) == ([first, second], False), "what is in the trash does not block"
    studio.owner.post(f"/tasks/{second}/restore")
    assert _task(studio, task)["blocked"]
    finished = studio.owner.patch(f"/tasks/{task}", json={"column_id": done})["task"]
    assert finished["completed_at"] is not None, "a blocked task can be completed"
    assert studio.owner.patch(f"/tasks/{task}", json={"blocked_by": None})["task"]["blocked_by"] == []


def test_a_new_task_waits(studio: Studio) -> None:
    column = studio.column()
    first = studio.task(column)
    made = studio.owner.new_task(column, blocked_by=[first])
    assert (made["blocked_by"], made["blocked"]) == ([first], True)
    operation = {"action": "create", "column_id": column, "title": "New", "blocked_by": [first, made["id"]]}
    (bulk,) = studio.owner.post("/tasks/bulk", json={"operations": [operation]})["tasks"]
    assert bulk["blocked_by"] == sorted([first, made["id"]])
    assert _task(studio, bulk["id"]) == bulk


def test_only_tasks_of_the_same_project_will_do(studio: Studio) -> None:
    column = studio.column()
    elsewhere = studio.owner.post("/projects", json={"title": "Elsewhere"})["project"]["id"]
    theirs = studio.task(studio.column(project=f"/projects/{elsewhere}"))
    deleted, task, first = (studio.task(column) for _ in range(3))
    studio.owner.delete(f"/tasks/{deleted}")
    for wrong in (theirs, deleted, "tsk_nothing"):
        assert _fault(studio, task, first, wrong)["message"] == NOT_FOUND
    assert _fault(studio, task, task)["message"] == "blocked_by: a task cannot wait for itself"
    _fault(studio, task, *(f"tsk_{number}" for number in range(BLOCKERS_MAX + 1)))


def test_a_circle_is_refused_and_named(studio: Studio) -> None:
    column = studio.column()
    a, b, c = (studio.task(column, title) for title in "ABC")
    _wait(studio, b, a)
    _wait(studio, c, b)
    fault = _fault(studio, a, c)
    names = f"A ({a}) → C ({c}) → B ({b}) → A ({a})"
    assert (fault["code"], fault["message"]) == (
        "circle",
        f"blocked_by: these tasks would wait for one another: {names}",
    )
    studio.owner.delete(f"/tasks/{b}")
    assert _fault(studio, a, c)["code"] == "circle", "it can be restored"
    edit = {"action": "edit", "id": a, "blocked_by": [c]}
    loose = {"action": "edit", "id": c, "blocked_by": None}
    assert studio.owner.call("POST", "/tasks/bulk", json={"operations": [edit]}).status_code == 422
    studio.owner.post("/tasks/bulk", json={"operations": [edit, loose]})
    assert _task(studio, a)["blocked_by"] == [c]


def test_fifty_at_once_close_no_circle(studio: Studio) -> None:
    column = studio.column()
    tasks = [studio.task(column, str(number)) for number in range(10)]

    def put(number: int) -> int:
        task, blocker = tasks[number % 10], tasks[(number * 3 + 1 + number // 10) % 10]
        return studio.owner.call("PATCH", f"/tasks/{task}", json={"blocked_by": [blocker]}).status_code

    def bulk(number: int) -> int:
        chosen = [tasks[(number + each) % 10] for each in range(3)]
        edits: list[Any] = [
            {"action": "edit", "id": task, "blocked_by": [tasks[(number + 5) % 10]]} for task in reversed(chosen)
        ]
        return studio.owner.call("POST", "/tasks/bulk", json={"operations": edits}).status_code

    with ThreadPoolExecutor(10) as pool:
        statuses = set(pool.map(lambda number: put(number) if number % 5 else bulk(number), range(50)))
    assert statuses <= {200, 422}
    found = {each["id"]: each["blocked_by"] for each in studio.owner.get(f"{studio.project}/tasks")["tasks"]}
    assert find_circle(found, found) == []
    assert any(found.values())


def _has_circle(graph: dict[str, list[str]]) -> bool:
    """By taking away what waits for nothing that is left."""
    left = {each: set(blockers) for each, blockers in graph.items()}
    while free := [each for each, blockers in left.items() if not blockers & left.keys()]:
        for each in free:
            del left[each]
    return bool(left)


@given(st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from("abcdef"), max_size=3)))
def test_a_circle_is_found_where_there_is_one(graph: dict[str, list[str]]) -> None:
    circle = find_circle(graph, graph)
    assert bool(circle) == _has_circle(graph)
    assert circle[:1] == circle[-1:]
    assert all(after in graph[before] for before, after in pairwise(circle))
