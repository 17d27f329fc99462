"""`workhook import trello`, run as users run it beside a server, on both databases."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Thread

import pytest
import sqlalchemy as sa

from tests.docs.pages import Shell, blocks, new_machine
from tests.harness.depth import deep
from tests.harness.receiver import Receiver
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
from workhook.cli.error_messages import CliError
from workhook.core.clock import now_ms
from workhook.core.errors import Conflict, Invalid
from workhook.identity.tables import projects
from workhook.work.portability.imports import apply
from workhook.work.portability.imports.apply import BatchWriter, Remaining

# --- one board --------------------------------------------------------------------------------------------------------


def test_a_large_old_board_is_imported_completely_and_once(studio: Studio, importer: Importer) -> None:
    board = make_export(7)
    studio.happened()
    file = importer.file(board)
    made = json.loads(importer.run(file, "--json").stdout)
    organization = studio.world.organization
    assert made == {
        "file": file,
        "title": "Website relaunch",
        "project_id": made["project_id"],
        "repository": f"{organization}/website-relaunch",
        "created": {"projects": 1, "columns": 19, "tasks": 122, "comments": 300, "labels": 10},
        "skipped": {"columns": 0, "tasks": 0, "comments": 0},
        "changed": 0,
        "warnings": made["warnings"],
        "lost": made["lost"],
        "columns": made["columns"],
        "fields": [],
        "unmatched": made["unmatched"],
        "dry_run": False,
    }
    assert any("1,000 actions" in each for each in made["warnings"])
    assert {"what": "history", "count": 700, "names": [], "kept": None} in made["lost"]
    [in_the_page] = blocks("docs/team/import-trello.md", "json")
    assert shape(json.loads(in_the_page)) == shape(made)

    columns = columns_of(studio, made["project_id"])
    lists = sorted(board["lists"], key=lambda each: (each["closed"], each.get("pos", float("inf"))))
    wanted = [each["name"].strip() or "(no name)" for each in lists]
    assert [each["title"].removesuffix(" (archived)") for each in columns] == [*wanted, "Archived"]
    for column, one in zip(columns, lists, strict=False):
        inside = [card for card in board["cards"] if card["idList"] == one["id"] and not card["closed"]]
        inside.sort(key=lambda card: card.get("pos", float("inf")))
        tasks = tasks_of(studio, column)
        assert [each["title"] for each in tasks] == [card["name"].strip() for card in inside]
        assert [each["position"] for each in tasks] == list(range(len(tasks)))
    archived = tasks_of(studio, columns[-1])
    assert len(archived) == 78
    assert all(each["completed_at"] for each in archived)

    happened = studio.happened()
    names = [each.name for each in happened]
    assert names[:20] == ["project", *["column"] * 19]
    assert Counter(names[20:]) == {"task": 122, "task_comment": 300}
    told = [each.record["id"] for each in happened if each.name == "task"]
    spoken_of = [each.record["task"]["id"] for each in happened if each.name == "task_comment"]
    assert sorted(spoken_of, key=told.index) == spoken_of, "tasks in their order, and behind each batch what is said"
    assert {each.action for each in happened} == {"created"}
    shown = {each["id"]: each for column in columns for each in tasks_of(studio, column)}
    assert {each.record["id"]: each.record for each in happened if each.name == "task"} == shown

    again = json.loads(importer.run(file, "--json").stdout)
    nothing = {"projects": 0, "columns": 0, "tasks": 0, "comments": 0, "labels": 0}
    assert again == {
        **made,
        "created": nothing,
        "skipped": {"columns": 19, "tasks": 122, "comments": 300},
        "warnings": [each for each in made["warnings"] if "no user matches" not in each],
        "unmatched": [],
    }
    assert studio.happened() == []
    assert len(studio.owner.get("/projects")["projects"]) == 2


def test_a_task_has_the_data_of_its_card(studio: Studio, importer: Importer) -> None:
    login = logins(studio)
    ada = {"id": "m1", "fullName": "Ada Lovelace", "username": login["member"].upper()}
    bob = {"id": "m2", "fullName": "Bob", "username": "bob77"}
    eve = {"id": "m3", "fullName": "Eve", "username": "eve"}
    card = {
        "desc": "What to *do*",
        "due": "2024-05-01T12:00:00.000Z",
        "dueComplete": True,
        "dateLastActivity": "2024-05-02T12:00:00.000Z",
        "id": "5ad3c82d8ac5afdb542bf3da",
        "idMembers": ["m1", "m2", "m3"],
        "labels": [{"id": "x", "name": "", "color": "green"}, {"id": "y", "name": "Urgent", "color": "red_dark"}],
        "cover": {"sharedSourceUrl": "https://images.example.com/a.jpg"},
        "attachments": [{"name": "Plan", "url": "https://example.com/plan"}],
        "customFieldItems": [{"idCustomField": "f", "value": {"number": "3"}}],
    }
    items = [{"name": "a", "state": "complete", "pos": 2}, {"name": "b", "state": "incomplete", "pos": 1}]
    board = small(
        card,
        {"idList": "l2", "name": "Second"},
        members=[ada, bob, eve],
        customFields=[{"id": "f", "name": "Points"}],
        checklists=[{"id": "k", "idCard": card["id"], "name": "Steps", "checkItems": items}],
        actions=[
            comment(3, "from Eve", str(card["id"]), eve),
            comment(2, "from Bob", str(card["id"]), bob),
            comment(1, "from Ada", str(card["id"]), ada),
        ],
    )
    made = importer.board(board, member=[("bob77", login["owner"])])
    assert made["warnings"] == ["no user matches Eve (eve): use --member NAME=LOGIN to match people"]
    ideas, done = columns_of(studio, made["project_id"])
    assert (ideas["stage"], done["stage"]) == (None, "done")
    project = studio.owner.get(f"/projects/{made['project_id']}")["project"]
    assert project["label_colors"] == {"Urgent": "red"}
    [task] = tasks_of(studio, ideas)
    assert {name: task[name] for name in ("title", "description", "deadline", "cover_url", "labels", "sections")} == {
        "title": "Card 0",
        "description": "What to *do*",
        "deadline": "2024-05-01T12:00:00.000Z",
        "cover_url": "https://images.example.com/a.jpg",
        "labels": ["Green", "Urgent"],
        "sections": {"Steps": {"b": "incomplete", "a": "complete"}},
    }
    assert task["fields"] == {
        "trello_attachments": "Plan: https://example.com/plan",
        "Points": "3",
        "trello_members": "Eve (eve)",
    }
    assert (task["completed_at"], task["created_at"]) == ("2024-05-02T12:00:00.000Z", "2018-04-15T21:46:21.000Z")
    assert {each["username"] for each in task["assignees"]} == {login["owner"], login["member"]}
    assert [
        (each["text"], each["user"]["username"], each["imported_author"], each["created_at"])
        for each in comments_of(studio, task["id"])
    ] == [
        ("from Ada", login["member"], None, "2024-01-01T10:00:00.000Z"),
        ("from Bob", login["owner"], None, "2024-01-02T10:00:00.000Z"),
        ("from Eve", login["owner"], "Eve (eve)", "2024-01-03T10:00:00.000Z"),
    ]
    [second] = tasks_of(studio, done)
    assert second["completed_at"] is not None


def test_imported_tasks_can_be_reordered(studio: Studio, importer: Importer) -> None:
    made = importer.board(small(*({} for _ in range(300))))
    [ideas, _] = columns_of(studio, made["project_id"])
    tasks = tasks_of(studio, ideas)
    assert [each["title"] for each in tasks] == [f"Card {at}" for at in range(300)]
    assert [each["position"] for each in tasks] == list(range(300))
    assert [each["id"] for each in tasks] == sorted(each["id"] for each in tasks)
    studio.owner.patch(f"/tasks/{tasks[299]['id']}", json={"position": 130})
    new = studio.owner.post(f"/columns/{ideas['id']}/tasks", json={"title": "New", "position": 1})["task"]
    assert new["position"] == 1
    wanted = [f"Card {at}" for at in (*range(130), 299, *range(130, 299))]
    assert [each["title"] for each in tasks_of(studio, ideas)] == ["Card 0", "New", *wanted[1:]]


def test_webhooks_receive_every_event_of_an_import(studio: Studio, importer: Importer, receiver: Receiver) -> None:
    studio.hook(receiver.url, place=studio.world.org_path)
    importer.board(small({}, {}, actions=[comment(1, "Said")]))
    wanted = ["column", "column", "project", "task", "task", "task_comment"]
    received = receiver.wait_for(lambda requests: len([each for each in requests if each.event in wanted]) == 6)
    assert sorted(each.event for each in received if each.event != "ping") == wanted
    [said] = [each.payload() for each in received if each.event == "task_comment"]
    assert said["action"] == "created"
    assert said["task_comment"]["task"]["title"] == "Card 0"
    assert said["sender"]["login"] == studio.world.owner


# --- nothing is written -----------------------------------------------------------------------------------------------


def test_a_dry_run_reports_the_result_without_writing(studio: Studio, importer: Importer) -> None:
    studio.happened()
    would = importer.board(small({}, actions=[comment(1, "Said")]), dry_run=True)
    assert (would["project_id"], would["repository"]) == (None, None)
    assert would["created"] == {"projects": 1, "columns": 2, "tasks": 1, "comments": 1, "labels": 0}
    said = importer.run(importer.file(small({})), "--dry-run").stdout
    line = "Website relaunch: would create 2 columns, 1 task, 0 comments, 0 labels\n"
    assert said == line + "  columns whose tasks are finished: Done\n"
    assert studio.happened() == []
    assert len(studio.owner.get("/projects")["projects"]) == 1


@pytest.mark.one_database
def test_one_invalid_file_stops_the_whole_import(studio: Studio, importer: Importer) -> None:
    studio.happened()
    good = importer.file(small({}), "good.json")
    wrong = importer.file(small({"pos": "top"}, {"closed": 1}), "wrong.json")
    none = importer.file(b"Card ID,Card Name\n", "cards.csv")
    said = importer.refused(good, wrong, none)
    assert said.splitlines()[-5:] == [
        "workhook: this cannot be imported:",
        f"  {wrong}: cards[0].pos must be a number, but is the text “top”",
        f"  {wrong}: cards[1].closed must be true or false, but is the number 1",
        f"  {none}: the file is not valid JSON: line 1, column 1: Expecting value",
        "In Trello, open the board's menu and choose Print, export, and share, then Export as JSON. "
        "Nothing was imported.",
    ]
    assert "No such file" in importer.refused(good, str(importer.folder / "gone.json"))
    assert "cannot be read" in importer.refused(good, str(importer.folder))
    assert studio.happened() == []


def test_an_import_that_fails_halfway_writes_nothing(studio: Studio, importer: Importer) -> None:
    """The project already has too many columns for another one."""
    project_id = importer.board(small({}))["project_id"]
    for at in range(198):
        studio.owner.post(f"/projects/{project_id}/columns", json={"title": f"{at}"})
    studio.happened()
    with pytest.raises(Invalid) as raised:
        importer.board(small({}, {}, {"closed": True}))
    assert "at most 200 columns" in str(raised.value.faults[0].message)
    assert studio.happened() == []
    assert board_of(studio, project_id)["Ideas"] == ["Card 0"]


@pytest.mark.one_database
def test_unknown_people_and_organizations_are_named(studio: Studio, importer: Importer) -> None:
    place = studio.world.organization
    login = studio.stranger.login
    for wanted in ({"as_login": login}, {"member": [("x", login)]}):
        with pytest.raises(CliError, match=f"{login} is not in {place}"):
            importer.board(small({}), **wanted)
    file = importer.file(small({}))
    assert "organization nowhere does not exist" in importer.refused(file, "--organization", "nowhere")
    assert "'x' is not of the form NAME=LOGIN" in importer.refused(file, "--member", "x", status=2)
    assert len(studio.owner.get("/projects")["projects"]) == 1


def test_a_member_can_import(studio: Studio, importer: Importer) -> None:
    login = logins(studio)["member"]
    studio.happened()
    importer.board(small({}), as_login=login)
    assert {each.payload["sender"]["login"] for each in studio.happened()} == {login}


# --- output -----------------------------------------------------------------------------------------------------------


@pytest.mark.one_database
def test_a_terminal_shows_a_progress_bar(studio: Studio, importer: Importer) -> None:
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "workhook", "import", "trello", importer.file(make_export(3, cards=60, closed=9))]
    command += ["--organization", studio.world.organization]
    environment = {**importer.environment, "TERM": "xterm", "COLUMNS": "100"}
    shown = bytearray()

    def read() -> None:
        with contextlib.suppress(OSError):  # closing the other end of the terminal raises OSError
            while block := os.read(ours, 65_536):
                shown.extend(block)

    reader = Thread(target=read, daemon=True)
    reader.start()
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=theirs, text=True, timeout=110)
    os.close(theirs)
    reader.join(30)
    os.close(ours)
    assert done.returncode == 0
    assert "created 19 columns, 60 tasks" in done.stdout
    assert "━" in shown.decode()
    assert "tasks" in shown.decode()


@pytest.mark.one_database
def test_without_a_terminal_progress_is_printed_in_lines(importer: Importer) -> None:
    done = importer.run(importer.file(small({}, {"name": "n" * 300}), "board.json"))
    assert done.stderr.splitlines()[1:3] == ["workhook: columns: 2", "workhook: tasks: 2"]
    assert "its name is shortened to 255 characters" in done.stderr
    assert done.stdout.endswith("/website-relaunch: created 2 columns, 2 tasks, 0 comments, 0 labels\n")


@pytest.mark.whole
@pytest.mark.one_database
def test_the_import_guide_works(studio: Studio, importer: Importer) -> None:
    """Run the code blocks of docs/team/import-trello.md as a reader would."""
    login = logins(studio)
    member = {"id": "m", "fullName": "Ada Lovelace", "username": "al"}
    importer.file(small({"idMembers": ["m"]}, members=[member]))
    try_out, take_in, with_members = blocks("docs/team/import-trello.md", "sh")
    shell = Shell(importer.folder, importer.environment | new_machine(importer.folder) | importer.environment)
    try:
        said = [
            shell.run(
                each.replace("workhook ", f"{sys.executable} -m workhook ")
                .replace("--organization acme", f"--organization {studio.world.organization}")
                .replace("=ada", f"={login['member']}")
                .replace("=bob", f"={login['owner']}")
            )
            for each in (try_out, with_members, take_in)
        ]
    finally:
        shell.stop()
    assert "would create 2 columns, 1 task" in said[0]
    assert "created 2 columns, 1 task" in said[1]
    assert "created 0 columns, 0 tasks" in said[2]
    project_id = next(p["id"] for p in studio.owner.get("/projects")["projects"] if p["title"] == "Website relaunch")
    [task] = tasks_of(studio, columns_of(studio, project_id)[0])
    assert [each["username"] for each in task["assignees"]] == [login["member"]]


def shape(value: object) -> object:
    """Replace the values with their types."""
    return {name: shape(each) for name, each in value.items()} if isinstance(value, dict) else type(value)


@pytest.mark.whole
def test_thousands_of_cards_can_be_imported(studio: Studio, importer: Importer) -> None:
    cards, closed = deep(2_500, 10_000), deep(1_100, 4_000)
    board = make_export(5, lists=6, closed_lists=1, cards=cards, closed=closed, actions=50, comments=50, checklists=500)
    made = importer.board(board)
    assert made["created"]["tasks"] == cards
    archived = columns_of(studio, made["project_id"])[-1]
    page = studio.owner.get(f"/columns/{archived['id']}/tasks")["tasks"]
    assert [each["position"] for each in page] == list(range(1000))
    assert importer.board(board)["skipped"]["tasks"] == cards


# --- import trello again ---------------------------------------------------------------------------------------------
# Importing a board again: new items are added, existing ones are left alone.


def test_a_newer_export_adds_only_new_items(studio: Studio, importer: Importer) -> None:
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
    assert (
        "1 task has changed in the source since the last import and was not updated here: Edited there"
        in again["warnings"]
    )
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


def test_a_deleted_column_is_recreated_only_for_new_cards(studio: Studio, importer: Importer) -> None:
    project_id = importer.board(small({}))["project_id"]
    _, done = columns_of(studio, project_id)
    studio.owner.delete(f"/columns/{done['id']}")
    assert importer.board(small({}))["created"]["columns"] == 0
    made = importer.board(small({}, {"idList": "l2"}))
    assert made["created"]["columns"] == 1
    assert board_of(studio, project_id) == {"Ideas": ["Card 0"], "Done": ["Card 1"]}
    assert importer.board(small({}, {"idList": "l2"}))["created"]["columns"] == 0


def test_a_board_is_imported_again_if_its_project_was_deleted(studio: Studio, importer: Importer) -> None:
    first = importer.board(small({}))
    studio.owner.delete(f"/projects/{first['project_id']}")
    second = importer.board(small({}))
    assert second["project_id"] != first["project_id"]
    assert second["created"] == first["created"]
    assert board_of(studio, second["project_id"])["Ideas"] == ["Card 0"]


def test_two_boards_with_one_name_become_two_projects(studio: Studio, importer: Importer) -> None:
    other = {**small({"id": "other"}), "id": "b2", "lists": []}
    files = importer.file(small({}), "a.json"), importer.file(other, "b.json")
    made = json.loads(importer.run(*files, "--json").stdout)
    assert [each["repository"].rpartition("/")[2] for each in made] == ["website-relaunch", "website-relaunch-2"]
    assert [each["file"] for each in made] == list(files)


def test_a_card_moved_to_another_board_stays_and_is_reported(studio: Studio, importer: Importer) -> None:
    importer.board(small({"id": "moved", "name": "Moved"}, {"id": "stays"}))
    other = {**small({"id": "moved", "name": "Moved"}, {"id": "new", "name": "New"}), "id": "b2", "name": "Other"}
    for board in (other, other):
        made = importer.board(board)
        assert "already imported into another project, so not imported here: Moved" in made["warnings"]
        assert [each for some in board_of(studio, made["project_id"]).values() for each in some] == ["New"]


def test_an_archived_project_is_left_alone(studio: Studio, importer: Importer) -> None:
    project_id = importer.board(small({}))["project_id"]
    studio.owner.patch(f"/projects/{project_id}", json={"archive": True})
    assert importer.board(small({}))["created"]["tasks"] == 0
    studio.happened()
    with pytest.raises(Conflict, match="archived"):
        importer.board(small({}, {}))
    assert studio.happened() == []


def test_people_who_cannot_see_a_private_project_are_not_assigned(studio: Studio, importer: Importer) -> None:
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
from workhook.cli.imports import ImportTarget, import_boards
from workhook.core.config import load
from workhook.work.portability.imports import apply
from workhook.work.portability.imports.plan import Choices
from workhook.work.portability.imports.trello import plan_of, read_export

def progress(what, number, total):
    if (what, number, total) == ("tasks", 25, 60):
        os.kill(os.getpid(), signal.SIGKILL)

async def run():
    plan = plan_of(read_export(Path(sys.argv[1]).read_bytes()), Choices())
    async with open_services(load({}, dict(os.environ))) as services:
        await import_boards(services.database, [plan], ImportTarget(sys.argv[2]), "http://127.0.0.1", progress)

apply.BATCH = 10
asyncio.run(run())
"""


def test_a_killed_import_is_completed_by_the_next(
    studio: Studio, importer: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is killed in the third batch, so only the first two batches are visible."""
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


def test_deleting_the_project_during_the_import_stops_it(
    studio: Studio, importer: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest does not end up in a second project."""
    monkeypatch.setattr(apply, "BATCH", 2)
    project_id = importer.board(small({}))["project_id"]
    write = BatchWriter.write

    async def write_and_delete(self: BatchWriter, rest: Remaining) -> None:
        await write(self, rest)
        await self._tx.execute(sa.update(projects).where(projects.c.id == project_id).values(deleted_at=now_ms()))

    monkeypatch.setattr(BatchWriter, "write", write_and_delete)
    with pytest.raises(Conflict, match="deleted during the import"):
        importer.board(small(*({} for _ in range(6))))
    assert len(studio.owner.get("/projects")["projects"]) == 1


def test_two_concurrent_imports_create_one_project(studio: Studio, importer: Importer) -> None:
    file = importer.file(make_export(2, lists=5, cards=200, comments=50))
    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(importer.run, file, "--json") for _ in range(2)]
    done = [each.result() for each in running]
    assert [each.returncode for each in done] == [0, 0], [each.stderr for each in done]
    made = [json.loads(each.stdout) for each in done]
    assert sorted(each["created"]["tasks"] for each in made) == [0, 200]
    assert len({each["project_id"] for each in made}) == 1
    assert len(studio.owner.get("/projects")["projects"]) == 2
