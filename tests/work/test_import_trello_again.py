"""A board that is imported again: what is new is added, and what is there is left alone."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from tests.work.studio import Studio
from tests.work.trello import make_export
from tests.work.trello_importer import (
    Importer,
    board_of,
    columns_of,
    comment,
    comments_of,
    logins,
    small,
    tasks_of,
)
from workhook.core.clock import now_ms
from workhook.core.errors import Conflict
from workhook.identity.tables import projects
from workhook.work.portability.imports import apply
from workhook.work.portability.imports.remaining import Remaining
from workhook.work.portability.imports.writer import BatchWriter


def test_a_newer_export_adds_what_is_new_and_nothing_else(studio: Studio, importer: Importer) -> None:
    first = small({}, {}, {}, actions=[comment(1, "old")])
    made = importer.board(first)
    project_id = made["project_id"]
    ideas, done = columns_of(studio, project_id)
    tasks = tasks_of(studio, ideas)
    studio.owner.patch(f"/tasks/{tasks[0]['id']}", json={"title": "Edited here", "column_id": done["id"]})
    studio.owner.delete(f"/tasks/{tasks[1]['id']}")
    studio.owner.patch(f"/columns/{ideas['id']}", json={"title": "Thoughts"})
    studio.happened()

    newer = small({}, {}, {"name": "Edited there"}, {"name": "New", "pos": 0.5})
    newer["lists"].append({"id": "l3", "name": "Later", "pos": 1.5})
    newer["cards"].append({"id": "c9", "idList": "l3", "name": "In a new list"})
    newer["actions"] = [
        comment(3, "on a deleted task", "c1"),
        comment(2, "new"),
        comment(1, "old"),
        comment(4, "first", "c3"),
    ]
    again = importer.board(newer)
    assert again["project_id"] == project_id
    assert again["created"] == {"projects": 0, "columns": 1, "tasks": 2, "comments": 2, "labels": 0}
    assert again["skipped"] == {"columns": 2, "tasks": 3, "comments": 2}
    assert again["changed"] == 1
    assert "1 task has changed there since, and stayed as here: Edited there" in again["warnings"]
    assert board_of(studio, project_id) == {
        "Thoughts": ["Card 2", "New"], "Done": ["Edited here"], "Later": ["In a new list"],
    }  # fmt: skip
    assert [each["text"].split("\n")[-1] for each in comments_of(studio, tasks[0]["id"])] == ["old", "new"]
    happened = studio.happened()
    assert [(each.name, each.action) for each in happened] == [
        ("column", "created"), ("task", "created"), ("task", "created"), ("task_comment", "created"),
        ("task_comment", "created"),
    ]  # fmt: skip
    assert [each.record["position"] for each in happened if each.name == "task"] == [1, 0]
    importer.board(newer)
    assert studio.happened() == []


def test_a_column_that_was_deleted_comes_back_for_new_cards_only(studio: Studio, importer: Importer) -> None:
    project_id = importer.board(small({}))["project_id"]
    _, done = columns_of(studio, project_id)
    studio.owner.delete(f"/columns/{done['id']}")
    assert importer.board(small({}))["created"]["columns"] == 0
    made = importer.board(small({}, {"idList": "l2"}))
    assert made["created"]["columns"] == 1
    assert board_of(studio, project_id) == {"Ideas": ["Card 0"], "Done": ["Card 1"]}
    assert importer.board(small({}, {"idList": "l2"}))["created"]["columns"] == 0


def test_a_board_whose_project_was_deleted_is_imported_anew(studio: Studio, importer: Importer) -> None:
    first = importer.board(small({}))
    studio.owner.delete(f"/projects/{first['project_id']}")
    second = importer.board(small({}))
    assert second["project_id"] != first["project_id"]
    assert second["created"] == first["created"]
    assert board_of(studio, second["project_id"])["Ideas"] == ["Card 0"]


def test_two_boards_of_one_name_are_two_projects(studio: Studio, importer: Importer) -> None:
    other = {**small({"id": "other"}), "id": "b2", "lists": []}
    files = importer.file(small({}), "a.json"), importer.file(other, "b.json")
    made = json.loads(importer.run(*files, "--json").stdout)
    assert [each["repository"].rpartition("/")[2] for each in made] == ["website-relaunch", "website-relaunch-2"]
    assert [each["file"] for each in made] == list(files)


def test_a_card_that_moved_to_another_board_stays_and_is_named(studio: Studio, importer: Importer) -> None:
    importer.board(small({"id": "moved", "name": "Moved"}, {"id": "stays"}))
    other = {**small({"id": "moved", "name": "Moved"}, {"id": "new", "name": "New"}), "id": "b2", "name": "Other"}
    for board in (other, other):
        made = importer.board(board)
        assert "imported to another project before, and left there: Moved" in made["warnings"]
        assert [each for some in board_of(studio, made["project_id"]).values() for each in some] == ["New"]


def test_an_archived_project_is_left_alone(studio: Studio, importer: Importer) -> None:
    project_id = importer.board(small({}))["project_id"]
    studio.owner.patch(f"/projects/{project_id}", json={"archive": True})
    assert importer.board(small({}))["created"]["tasks"] == 0
    studio.happened()
    with pytest.raises(Conflict, match="archived"):
        importer.board(small({}, {}))
    assert studio.happened() == []


def test_who_does_not_see_a_private_project_is_not_assigned(studio: Studio, importer: Importer) -> None:
    project_id = importer.board(small({}))["project_id"]
    studio.owner.patch(f"/projects/{project_id}", json={"private": True})
    member = {"id": "m1", "username": logins(studio)["member"], "fullName": ""}
    importer.board(small({}, {"idMembers": ["m1"]}, members=[member]))
    ideas, _ = columns_of(studio, project_id)
    task = tasks_of(studio, ideas)[1]
    assert task["assignees"] == []
    assert task["fields"] == {"trello_members": member["username"]}


_KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from workhook.bootstrap import open_services
from workhook.cli.imports import Wanted, import_boards
from workhook.core.config import load
from workhook.work.portability.imports import apply
from workhook.work.portability.imports.trello.mapping import plan_of
from workhook.work.portability.imports.trello.export import read_export

def progress(what, number, total):
    if (what, number, total) == ("tasks", 25, 60):
        os.kill(os.getpid(), signal.SIGKILL)

async def run():
    plan = plan_of(read_export(Path(sys.argv[1]).read_bytes()))
    async with open_services(load({}, dict(os.environ))) as services:
        await import_boards(services.database, [plan], Wanted(sys.argv[2], base="http://127.0.0.1"), progress)

apply.BATCH = 10
asyncio.run(run())
"""


def test_an_import_that_is_killed_is_completed_by_the_next(
    studio: Studio, importer: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the third batch: two are there, whole, as others see them; of the third there is nothing."""
    board = small(*({"idList": f"l{1 + number % 2}"} for number in range(60)), actions=[comment(1, "Said", "c59")])
    command = [sys.executable, "-c", _KILLED, importer.file(board), studio.world.organization]
    studio.happened()
    killed = subprocess.run(command, env=importer.environment, capture_output=True, text=True, timeout=60)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    first = [f"{each.name} {each.action}" for each in studio.happened()]
    assert first == ["project created", "column created", "column created", *["task created"] * 20]
    monkeypatch.setattr(apply, "BATCH", 10)
    made = importer.board(board)
    assert made["created"] == {"projects": 0, "columns": 0, "tasks": 40, "comments": 1, "labels": 0}
    assert made["skipped"] == {"columns": 2, "tasks": 20, "comments": 0}
    rest = [f"{each.name} {each.action}" for each in studio.happened()]
    assert (rest.count("task created"), rest.count("task_comment created"), len(rest)) == (40, 1, 41)
    there = board_of(studio, made["project_id"])
    assert {title: len(cards) for title, cards in there.items()} == {"Ideas": 30, "Done": 30}
    for column in columns_of(studio, made["project_id"]):
        assert [each["position"] for each in tasks_of(studio, column)] == list(range(30))
    assert importer.board(board)["skipped"] == {"columns": 2, "tasks": 60, "comments": 1}
    assert studio.happened() == []


def test_a_project_that_is_deleted_meanwhile_ends_it(
    studio: Studio, importer: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not make another one of what was left."""
    monkeypatch.setattr(apply, "BATCH", 2)
    project_id = importer.board(small({}))["project_id"]
    write = BatchWriter.write

    async def write_and_delete(self: BatchWriter, rest: Remaining) -> None:
        await write(self, rest)
        await self._tx.execute(sa.update(projects).where(projects.c.id == project_id).values(deleted_at=now_ms()))

    monkeypatch.setattr(BatchWriter, "write", write_and_delete)
    with pytest.raises(Conflict, match="deleted while it was imported"):
        importer.board(small(*({} for _ in range(6))))
    assert len(studio.owner.get("/projects")["projects"]) == 1


def test_two_imports_at_once_make_one_project(studio: Studio, importer: Importer) -> None:
    file = importer.file(make_export(2, lists=5, cards=200, comments=50))
    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(importer.run, file, "--json") for _ in range(2)]
    done = [each.result() for each in running]
    assert [each.returncode for each in done] == [0, 0], [each.stderr for each in done]
    made = [json.loads(each.stdout) for each in done]
    assert sorted(each["created"]["tasks"] for each in made) == [0, 200]
    assert len({each["project_id"] for each in made}) == 1
    assert len(studio.owner.get("/projects")["projects"]) == 2
