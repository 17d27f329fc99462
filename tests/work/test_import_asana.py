"""Asana projects: how an export is converted, and that it is imported once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.work.studio import Studio
from tests.work.trello_importer import Importer, board_of, columns_of, logins, tasks_of
from workhook.core.clock import parse_rfc3339
from workhook.work.portability.imports import asana
from workhook.work.portability.imports.json_file import InvalidFile
from workhook.work.portability.imports.plan import Choices, ImportPlan

Object = dict[str, Any]

PROJECT = {"gid": "1200", "name": "Website relaunch", "resource_type": "project"}
ADA = {"gid": "11", "name": "Ada Lovelace", "resource_type": "user"}
BOB = {"gid": "12", "name": "Bob", "resource_type": "user"}


def section(name: str) -> Object:
    found = {"gid": f"s-{name}", "name": name, "resource_type": "section"}
    return {"project": PROJECT, "section": found}


def task(gid: str, name: str, *sections: str, **more: Any) -> Object:
    """Return a task as Asana exports it, with the keys every task has."""
    return {
        "gid": gid, "assignee": None, "assignee_status": "upcoming", "completed": False, "completed_at": None,
        "created_at": "2026-01-01T10:00:00.000Z", "custom_fields": [], "due_at": None, "due_on": None,
        "followers": [], "hearted": False, "hearts": [], "liked": False, "likes": [],
        "memberships": [section(each) for each in sections], "modified_at": "2026-01-05T10:00:00.000Z", "name": name,
        "notes": "", "num_hearts": 0, "num_likes": 0, "parent": None,
        "permalink_url": f"https://app.asana.com/0/1200/{gid}", "projects": [PROJECT], "resource_type": "task",
        "start_at": None, "start_on": None, "subtasks": [], "tags": [], "resource_subtype": "default_task",
        "workspace": {"gid": "1", "name": "Studio", "resource_type": "workspace"}, **more,
    }  # fmt: skip


def encoded(*tasks: Object) -> bytes:
    return json.dumps({"data": tasks}).encode()


def plan(*tasks: Object, **more: Any) -> ImportPlan:
    return asana.plan_of_project(asana.read_project(encoded(*tasks)), "file", Choices(**more))


def project_with(**assignee: Any) -> list[Object]:
    """Return the tasks of a small project."""
    return [
        task(
            "1", "Write the text", "To do", notes="What to *do*", due_on="2026-02-01", assignee=assignee or ADA,
            tags=[{"gid": "t", "name": "draft"}],
            custom_fields=[
                {"gid": "f", "name": "Priority", "type": "enum", "display_value": "High"},
                {"gid": "g", "name": "Budget", "type": "number", "display_value": "300"},
            ],
            subtasks=[
                task("2", "Collect", due_at="2026-01-30T12:00:00.000Z"),
                task("3", "Draft", completed=True, completed_at="2026-01-04T10:00:00.000Z"),
            ],
            followers=[ADA, BOB], num_likes=2, likes=[{"gid": "l", "user": BOB}],
        ),
        task("4", "Publish", "Doing", dependencies=[{"gid": "1", "resource_type": "task"}, {"gid": "3"}]),
        task("5", "Kick-off", "Done", resource_subtype="milestone", completed=True,
             completed_at="2026-01-02T10:00:00.000Z"),
    ]  # fmt: skip


def test_a_project_is_converted() -> None:
    made = plan(*project_with())
    assert (made.key, made.title) == ("project:1200", "Website relaunch")
    assert [(each.key, each.title, each.stage) for each in made.columns] == [
        ("column:s-To do", "To do", "in_queue"),
        ("column:s-Doing", "Doing", "in_progress"),
        ("column:s-Done", "Done", "done"),
    ]
    first, collect, draft, publish, kick_off = made.tasks
    assert (first.title, first.description, first.priority, first.labels) == (
        "Write the text", "What to *do*", "high", ["draft"],
    )  # fmt: skip
    assert first.deadline == parse_rfc3339("2026-02-01T00:00:00Z")
    assert collect.deadline == parse_rfc3339("2026-01-30T12:00:00Z")
    assert first.fields == {
        "asana_url": "https://app.asana.com/0/1200/1", "asana_likes": "2", "Budget": "300",
    }  # fmt: skip
    assert [each.display_name for each in first.members] == ["Ada Lovelace"]
    assert {each.parent_key for each in (collect, draft)} == {first.key} == {"task:1200/1"}
    assert {each.column_key for each in (first, collect, draft)} == {"column:s-To do"}
    assert (draft.finished, draft.finished_at) == (True, parse_rfc3339("2026-01-04T10:00:00Z"))
    assert publish.blocked_by == [first.key, draft.key]
    assert kick_off.fields["asana_type"] == "milestone"
    assert {each.what: (each.count, each.names) for each in made.lost} == {
        "votes": (2, ["Write the text"]), "followers": (1, ["Bob"]),
    }  # fmt: skip
    assert made.warnings == []


def test_fields_missing_from_exports_are_not_errors() -> None:
    made = plan({}, {"gid": "1", "name": None, "memberships": None, "subtasks": [None, {"gid": "2"}]}, {"id": 7})
    assert [each.title for each in made.tasks] == ["(no name)"] * 4
    assert [each.title for each in made.columns] == ["No section"]
    assert made.title == "file"
    assert plan({"name": "a"}, title="Mine").key == "project:Mine"


def test_a_task_in_two_projects_is_in_the_section_of_the_imported_one() -> None:
    other = {"project": {"gid": "9", "name": "Other"}, "section": {"gid": "s9", "name": "There"}}
    made = plan(task("1", "a", "Here"), {**task("2", "b"), "memberships": [other, section("Here")]})
    assert [each.title for each in made.columns] == ["Here"]


def test_a_subtask_listed_twice_is_imported_once() -> None:
    made = plan(task("2", "b", "Doing"), task("1", "a", "To do", subtasks=[task("2", "b")]))
    assert [(each.title, each.parent_key) for each in made.tasks] == [("a", None), ("b", "task:1200/1")]
    assert made.tasks[1].column_key == "column:s-Doing"


def test_a_flat_list_from_the_api_names_the_parents() -> None:
    made = plan(task("2", "b", parent={"gid": "1", "name": "a"}), task("1", "a", "Doing"))
    assert [(each.title, each.parent_key) for each in made.tasks] == [("a", None), ("b", "task:1200/1")]
    assert {each.column_key for each in made.tasks} == {"column:s-Doing"}


def test_deep_and_excess_subtasks_become_tasks() -> None:
    deep = task("0", "top", "To do")
    inner = deep
    for at in range(1, 40):
        inner["subtasks"] = [task(str(at), f"level {at}")]
        inner = inner["subtasks"][0]
    made = plan(deep)
    assert [each.parent_key for each in made.tasks] == [None, *["task:1200/0"] * 39]
    assert [(each.what, each.count) for each in made.lost] == [("deep_subtasks", 38)]
    wide = plan(task("0", "top", "To do", subtasks=[task(str(at), f"{at}") for at in range(1, 131)]))
    assert sum(each.parent_key is not None for each in wide.tasks) == 100
    assert [(each.what, each.count) for each in wide.lost] == [("more_subtasks", 30)]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"[]", ["this is not an Asana export: it contains a list, not an object"]),
        (b"{}", ["this is not an Asana export: it has no list of tasks called data"]),
        (b'{"data": [\n{"gid" 1}]}', ["the file is not valid JSON: line 2, column 8: Expecting ':' delimiter"]),
        (
            b'{"data": [{"name": 7, "subtasks": [{"completed": "yes"}], "memberships": [{"section": []}]}, 3]}',
            [
                "data[1] must be an object, but is the number 3",
                "data[0].memberships[0].section must be an object, but is a list",
                "data[0].name must be text, but is the number 7",
                "data[0].subtasks[0].completed must be true or false, but is the text “yes”",
            ],
        ),
    ],
)
def test_errors_name_the_location(data: bytes, said: list[str]) -> None:
    with pytest.raises(InvalidFile) as raised:
        asana.read_project(data)
    assert raised.value.faults == said


# --- in a studio ---------------------------------------------------------------------------------------------------


def test_a_project_is_imported_once(studio: Studio, importer: Importer) -> None:
    file = importer.file(encoded(*project_with()), "relaunch.json")
    studio.happened()
    words = (file, "--member", f"Ada Lovelace={logins(studio)['member']}", "--json")
    made = json.loads(importer.run(*words, source="asana").stdout)
    assert made["created"] == {"projects": 1, "columns": 3, "tasks": 5, "comments": 0, "labels": 1}
    assert board_of(studio, made["project_id"]) == {
        "To do": ["Write the text", "Collect", "Draft"], "Doing": ["Publish"], "Done": ["Kick-off"],
    }  # fmt: skip
    tasks = {each["title"]: each for one in columns_of(studio, made["project_id"]) for each in tasks_of(studio, one)}
    first = tasks["Write the text"]
    assert [each["username"] for each in first["assignees"]] == [logins(studio)["member"]]
    assert first["subtasks"] == {"total": 2, "completed": 1}
    assert tasks["Publish"]["blocked_by"] == sorted([first["id"], tasks["Draft"]["id"]])
    assert tasks["Publish"]["blocked"] is True
    assert len(studio.happened()) == 1 + 3 + 5 + 1
    again = json.loads(importer.run(*words, source="asana").stdout)
    assert again["created"] == {"projects": 0, "columns": 0, "tasks": 0, "comments": 0, "labels": 0}
    assert studio.happened() == []


def test_a_new_subtask_is_added_to_its_task(studio: Studio, importer: Importer) -> None:
    project_id = importer.plan(plan(*project_with()))["project_id"]
    newer = project_with()
    newer[0]["subtasks"].append(task("6", "Proofread"))
    newer[2]["dependencies"] = [{"gid": "6"}]
    studio.happened()
    made = importer.plan(plan(*newer))
    assert (made["created"]["tasks"], made["changed"]) == (1, 1)
    assert [f"{each.name} {each.action}" for each in studio.happened()] == ["task created", "task edited"]
    tasks = {each["title"]: each for one in columns_of(studio, project_id) for each in tasks_of(studio, one)}
    assert tasks["Proofread"]["parent_id"] == tasks["Write the text"]["id"]
    assert tasks["Kick-off"]["blocked_by"] == [tasks["Proofread"]["id"]]


def test_a_dependency_removed_after_the_import_is_not_restored(studio: Studio, importer: Importer) -> None:
    project_id = importer.plan(plan(*project_with()))["project_id"]
    [publish] = tasks_of(studio, columns_of(studio, project_id)[1])
    studio.owner.patch(f"/tasks/{publish['id']}", json={"blocked_by": []})
    studio.happened()
    importer.plan(plan(*project_with()))
    assert studio.happened() == []
