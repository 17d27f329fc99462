"""Task numbers: consecutive within a project, in order of creation, and never reused."""

from __future__ import annotations

import random
from typing import Any

from tests.work.studio import JsonObject, Studio
from tests.work.test_positions import run_concurrently
from tests.work.trello_importer import Importer, small

AT_ONCE = 50


def numbers(studio: Studio) -> list[int]:
    return [each["number"] for each in studio.owner.get(f"{studio.project}/tasks")["tasks"]]


def create(column: str, title: str = "Task") -> JsonObject:
    return {"action": "create", "column_id": column, "title": title}


def test_tasks_are_numbered_from_one_in_each_project(studio: Studio) -> None:
    one, two = studio.column(), studio.column()
    made = [studio.owner.new_task(column)["number"] for column in (one, two, one)]
    assert made == [1, 2, 3]
    other = studio.owner.post("/projects", json={"title": "Other", "organization": studio.world.organization})
    column = studio.owner.post(f"/projects/{other['project']['id']}/columns", json={"title": "To do"})["column"]["id"]
    assert studio.owner.new_task(column)["number"] == 1
    assert studio.owner.new_task(one)["number"] == 4


def test_a_number_never_changes_and_is_never_reused(studio: Studio) -> None:
    column, done = studio.column(), studio.column(stage="done")
    made = [studio.owner.new_task(column) for _ in range(3)]
    path = f"/tasks/{made[2]['id']}"
    edits: list[JsonObject] = [{"title": "New"}, {"position": 0}, {"column_id": done}]
    assert [studio.owner.patch(path, json=each)["task"]["number"] for each in edits] == [3, 3, 3]
    studio.owner.delete(path)
    assert studio.owner.new_task(column)["number"] == 4
    assert studio.owner.post(f"{path}/restore")["task"]["number"] == 3
    assert studio.owner.faults("PATCH", path, json={"number": 9}) == {"number": "unknown"}
    assert studio.owner.faults("POST", f"/columns/{column}/tasks", json={"title": "x", "number": 9}) == {
        "number": "unknown"
    }


def test_a_refused_request_uses_no_number(studio: Studio) -> None:
    column = studio.column()
    wrong = {"operations": [create(column), {"action": "edit", "id": "tsk_none", "title": "x"}]}
    studio.owner.refused(422, "POST", "/tasks/bulk", json=wrong)
    studio.owner.refused(422, "POST", f"/columns/{column}/tasks", json={"title": "x", "assignees": ["nobody-here"]})
    assert studio.owner.new_task(column)["number"] == 1


def test_a_bulk_request_assigns_numbers_in_order(studio: Studio) -> None:
    one, two = studio.column(), studio.column()
    there = studio.owner.new_task(one)
    operations = [
        create(two, "a"),
        {"action": "edit", "id": there["id"], "title": "b"},
        {**create(one, "c"), "position": 0},
        create(two, "d"),
    ]
    studio.happened()
    made = studio.owner.post("/tasks/bulk", json={"operations": operations})["tasks"]
    assert [(each["title"], each["number"]) for each in made] == [("a", 2), ("b", 1), ("c", 3), ("d", 4)]
    told = {each.record["title"]: each.record["number"] for each in studio.happened() if each.action == "created"}
    assert told == {"a": 2, "c": 3, "d": 4}


def test_fifty_concurrent_requests_leave_no_gap_or_duplicate(studio: Studio) -> None:
    columns = [studio.column() for _ in range(3)]
    shuffle = random.Random(7)  # seeds the choice of requests

    def make(count: int) -> list[Any]:
        column = columns[count % 3]
        if count < 2:
            return [studio.owner.new_task(column)]
        operations = [create(columns[(count + each) % 3]) for each in range(count)]
        made: list[Any] = studio.owner.post("/tasks/bulk", json={"operations": operations})["tasks"]
        return made

    counts = [shuffle.choice((1, 1, 1, 2, 3)) for _ in range(AT_ONCE)]
    made = run_concurrently(make, counts)
    told = [each["number"] for some in made for each in some]
    assert sorted(told) == list(range(1, sum(counts) + 1))
    for some in made:
        first = some[0]["number"]
        assert [each["number"] for each in some] == list(range(first, first + len(some)))
    assert sorted(numbers(studio)) == sorted(told)


def test_an_import_numbers_its_tasks(studio: Studio, importer: Importer) -> None:
    board = small({}, {"idList": "l2"}, {})
    importer.run(importer.file(board))
    [project] = [each for each in studio.owner.get("/projects")["projects"] if each["id"] != studio.project_id]
    tasks = studio.owner.get(f"/projects/{project['id']}/tasks")["tasks"]
    assert [(each["title"], each["number"]) for each in tasks] == [("Card 0", 1), ("Card 2", 2), ("Card 1", 3)]


def test_search_results_show_the_number(studio: Studio) -> None:
    studio.task()
    task = studio.owner.new_task(studio.column(), "Zeppelin")
    studio.owner.post(f"/tasks/{task['id']}/task_comments", json={"text": "Zeppelin, too"})
    found = studio.owner.get("/search", params={"q": "zeppelin"})["results"]
    assert [(each["type"], each["number"]) for each in found] == [("task_comment", 2), ("task", 2)]
