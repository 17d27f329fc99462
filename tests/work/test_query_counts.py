"""A read takes at most two statements and a write four, independent of size: there are no N+1 queries.

Token lookups are not counted. The token is used once before measuring because its first use is recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.databases import Databases
from tests.work.counted import CountedServer
from tests.work.requests_kit import TABLE
from tests.work.scene import Scene
from tests.work.studio import Caller

READ_MAX, WRITE_MAX = 2, 4

# Operations that take more, with the reason. None depends on the number of rows. Each write includes the audit log.
MORE = {
    "GET /search": 3,  # the newest, then the word index for kinds without enough matches, then the texts
    "PUT /organizations/{}/billing/logo": 5,  # locks the settings; the new and the previous logo
    "POST /projects": 7,  # finds an owner and a free name, and makes the creator an admin
    "POST /projects/{}/restore": 6,  # finds a free name, in the account and permanently
    "POST /projects/{}/clients": 6,  # an invitation
    "POST /service_checkouts/{}/complete": 11,  # three records with one event each: checkout, invoice and credits
    "DELETE /task_credits/{}": 5,  # two entries, and the grant whose credits are returned
    "POST /invoices/{}/send": 6,  # the project lock, the current settings and the number
    "POST /payments/{}/refund": 6,  # access, the invoice lock and the remaining amount
    "POST /invoices/{}/credit_notes": 6,  # the number; a full credit releases the time
    "POST /timesheets/{}/resume": 5,  # locks the user's other timers; checks whether the user may run one here
    # Subscriptions, issued invoices, everyone who could start a timer, and the timers.
    "DELETE /projects/{}": 7,
    "DELETE /tasks/{}": 5,  # as above
    # The user lock; invitations, timers and app webhooks that end with the right; pending invitations.
    "DELETE /projects/{}/members/{}": 9,
    "DELETE /clients/{}": 8,  # as above
}


@pytest.fixture(scope="module")
def counted(backend: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CountedServer]:
    folder: Path = tmp_path_factory.mktemp("counted")
    server = CountedServer({"data": str(folder), **backend.new(folder)}).start()
    yield server
    server.close()


@pytest.fixture
def owner(counted: CountedServer) -> Iterator[Caller]:
    owner = Caller(counted, counted.world.token)  # type: ignore[arg-type]  # has the only method that callers need
    yield owner
    owner.http.close()


@pytest.fixture
def scene(counted: CountedServer, owner: Caller) -> Scene:
    """Return a scene with a webhook for every event."""
    hook = {"name": "web", "events": ["*"], "config": {"url": "http://127.0.0.1:9/"}}
    assert owner.http.post(f"{counted.world.org_path}/hooks", json=hook).status_code == 201
    member = Caller(counted, counted.member_token)  # type: ignore[arg-type]  # as above
    somebody = member.login
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
    found = counted.of_requests
    assert response.status_code == 200, f"{key}: {response.text}"
    return found


def _fill(scene: Scene, rows: int) -> None:
    """Create rows in every list, along with related objects."""
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


def test_the_number_of_statements_of_every_operation_is_limited(counted: CountedServer, scene: Scene) -> None:
    scene.owner.get("/me")  # records the first use of the token
    few = {key: _measure(counted, scene, key) for key in TABLE}
    _fill(scene, 12)
    many = {key: _measure(counted, scene, key) for key in TABLE}
    wrong = []
    for key, statements in many.items():
        bound = MORE.get(key, READ_MAX if key.startswith("GET ") else WRITE_MAX)
        most = max(few[key], statements, key=len)
        if len(most) > bound:
            wrong.append(f"{key}: {len(most)}\n    " + "\n    ".join(most))
        if key in MORE and len(most) < bound:
            wrong.append(f"{key}: {len(most)} are enough")
        if len(statements) > len(few[key]):
            wrong.append(f"{key}: {len(few[key])} with few rows, {len(statements)} with many")
    assert wrong == [], "\n".join(wrong)


def test_the_number_of_statements_for_memberships_is_limited(counted: CountedServer, owner: Caller) -> None:
    """GitHub clients make these requests for each page and each person."""
    member = Caller(counted, counted.member_token)  # type: ignore[arg-type]  # as above
    place, login = counted.world, member.login
    member.http.close()
    owner.get("/me")  # records the first use of the token
    wrong = {}
    for path in (
        "/user/orgs", "/user/repos", "/user/memberships/orgs", f"/users/{login}", f"/users/{login}/orgs",
        f"/users/{place.organization}/repos", place.org_path, f"{place.org_path}/members",
        f"{place.org_path}/members/{login}", f"{place.repo_path}/collaborators?affiliation=direct",
        f"{place.repo_path}/collaborators/{login}", f"{place.repo_path}/collaborators/{login}/permission",
    ):  # fmt: skip
        counted.forget()
        assert owner.http.get(path).is_success, path
        found = counted.of_requests
        if len(found) > READ_MAX:
            wrong[path] = found
    assert wrong == {}


ACROSS = ("/tasks", "/timesheets", "/timesheets/running", "/invoices", "/files", "/comments")


def test_a_list_across_projects_takes_one_statement(counted: CountedServer, owner: Caller) -> None:
    """Independent of the number of projects and of filters."""
    for number in range(5):
        made = {"title": f"Project {number}", "organization": counted.world.organization}
        project = owner.post("/projects", json=made)["project"]["id"]
        column = owner.post(f"/projects/{project}/columns", json={"title": "To do"})["column"]["id"]
        task = owner.new_task(column)["id"]
        owner.post(f"/tasks/{task}/task_comments", json={"text": "Said"})
        owner.post(f"/projects/{project}/timesheets", json={"task_id": task, "duration": 1000})
        owner.post(f"/projects/{project}/invoices", json={})
        owner.post(f"/projects/{project}/files", files={"file": ("a.txt", b"a file")})
    for path in ACROSS:
        mine = "assignee" if path == "/tasks" else "user"
        for query in ({}, {"per_page": 2}, {mine: "me"}, {"project_id": project}):
            counted.forget()
            owner.get(path, params=query)
            found = counted.of_requests
            assert len(found) == 1, (path, query, found)


def test_a_mention_takes_no_extra_round_trip(counted: CountedServer, owner: Caller) -> None:
    """Only an edit that replaces names takes one more."""
    member = Caller(counted, counted.member_token)  # type: ignore[arg-type]  # as above
    login = member.login
    member.http.close()
    column = owner.post(f"/projects/{counted.world.project_id}/columns", json={"title": "To do"})["column"]["id"]
    comments = f"/tasks/{owner.new_task(column)['id']}/task_comments"

    def trips(method: str, path: str, text: str) -> tuple[int, Any]:
        counted.forget()
        answer = owner.answer(method, path, json={"text": text})
        return len(counted.of_requests), answer["task_comment"]["id"]

    trips("POST", comments, "the first use of the token is noted")
    plain, _ = trips("POST", comments, "plain")
    named, number = trips("POST", comments, f"@{login}")
    assert named == plain
    edits = [trips("PATCH", f"/task_comments/{number}", text)[0] for text in (f"@{login}!", "plain", f"@{login}")]
    assert edits == [edits[0]] * 3
    assert trips("PATCH", f"/task_comments/{number}", "@somebody-else")[0] == edits[0] + 1
