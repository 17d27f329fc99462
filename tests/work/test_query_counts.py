"""A read costs at most three statements and a write six, whatever the size: nothing is asked row by row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.databases import Databases
from tests.work.counted import CountedServer
from tests.work.scene import Scene
from tests.work.studio import Caller
from tests.work.test_matrix import TABLE

READ_MAX, WRITE_MAX = 3, 6

# What takes more, and why. The numbers do not grow with the rows.
MORE = {
    "POST /projects": 11,  # chooses an owner and a name that is free, makes its creator an admin; the audit log
    "DELETE /projects/{}": 7,  # the audit log
    "POST /projects/{}/restore": 10,  # a name that is free, in the account and for good; the audit log
    "POST /projects/{}/members": 7,  # the audit log
    "DELETE /projects/{}/members/{}": 7,
    "POST /projects/{}/clients": 9,  # invites an account with a login that is free; the audit log
    "DELETE /clients/{}": 7,
    "POST /projects/{}/files": 7,  # who may is asked before the body comes and again after it
    "PATCH /file_comments/{}": 7,  # replies are read once the comment is locked
    "DELETE /file_comments/{}": 7,
    "POST /services": 7,  # a service and its prices
    "PATCH /services/{}": 7,
    "POST /service_checkouts/{}/complete": 15,  # three records with an event each: checkout, invoice, credits
    "POST /projects/{}/task_credits": 7,  # the ledger is read once the project is locked
    "DELETE /task_credits/{}": 9,  # two entries, and the grant that gets its credits back
    "POST /invoices/{}/send": 8,  # the number
    "POST /invoices/{}/void": 7,  # timesheets go back
    "POST /timesheets/{}/resume": 7,  # the other timers of the user, locked first
    "POST /tasks/bulk": 14,  # for any number of tasks
}


@pytest.fixture(scope="module")
def counted(backend: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CountedServer]:
    folder: Path = tmp_path_factory.mktemp("counted")
    server = CountedServer({"data": str(folder), **backend.new(folder)}).start()
    yield server
    server.close()


@pytest.fixture
def owner(counted: CountedServer) -> Iterator[Caller]:
    owner = Caller(counted, counted.world.token)  # type: ignore[arg-type]  # it has the one method that a caller needs
    yield owner
    owner.http.close()


@pytest.fixture
def scene(counted: CountedServer, owner: Caller) -> Scene:
    """A webhook hears of everything, and there are many things of each kind."""
    hook = {"name": "web", "events": ["*"], "config": {"url": "http://127.0.0.1:9/"}}
    assert owner.http.post(f"{counted.world.org_path}/hooks", json=hook).status_code == 201
    member = Caller(counted, counted.member_token)  # type: ignore[arg-type]  # likewise
    somebody = member.get("/me")["user"]["username"]
    member.http.close()
    return Scene(owner, counted.world.project_id, counted.world.organization, somebody)


def _measure(counted: CountedServer, scene: Scene, key: str) -> list[str]:
    _, made, body = TABLE[key]
    given: Any = body(scene) if callable(body) else body
    ids = made(scene)
    method, pattern = key.split()
    path = pattern.format(*(ids if isinstance(ids, tuple) else (ids,)))
    more = given if {"params", "files"} & set(given) else {"json": given} if method in ("POST", "PATCH") else {}
    counted.forget()
    response = scene.owner.call(method, path, **more)
    found = counted.statements
    assert response.status_code == 200, f"{key}: {response.text}"
    return found


def _fill(scene: Scene, rows: int) -> None:
    """More of everything that lists hold, with what hangs on each."""
    column_id = scene.column()
    file_id = scene.file()
    for _ in range(rows):
        task_id = scene.task(column_id, assignees=[scene.somebody], labels=["a", "b"])
        scene.owner.post(f"/tasks/{task_id}/task_comments", json={"text": "Said"})
        comment = scene.owner.post(f"/files/{file_id}/file_comments", json={"text": "Said"})
        scene.reply(comment["id"])
        scene.folder()
        scene.client()
    scene.timesheet()
    scene.checkout("complete")
    scene.invoice()
    scene.credit()


def test_statements_of_every_operation(counted: CountedServer, scene: Scene) -> None:
    scene.owner.get("/me")  # the first use of a token is noted
    few = {key: _measure(counted, scene, key) for key in TABLE}
    _fill(scene, 12)
    many = {key: _measure(counted, scene, key) for key in TABLE}
    wrong = []
    for key, statements in many.items():
        bound = MORE.get(key, READ_MAX if key.startswith("GET ") else WRITE_MAX)
        if len(statements) > bound:
            wrong.append(f"{key}: {len(statements)}\n    " + "\n    ".join(statements))
        if len(statements) > len(few[key]):
            wrong.append(f"{key}: {len(few[key])} with few rows, {len(statements)} with many")
    assert wrong == [], "\n".join(wrong)
