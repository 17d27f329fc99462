"""Every operation of the work API: who may call it, and rules common to all operations of a kind."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from tests.work.requests_kit import TABLE
from tests.work.scene import Scene
from tests.work.studio import Caller, Studio
from workhook.http.operations import WORK_API
from workhook.identity.tables import projects
from workhook.work.operations import OPERATIONS

pytestmark = pytest.mark.usual

CALLERS = ("owner", "member", "client", "stranger")


@pytest.fixture
def scene(studio: Studio) -> Scene:
    login = studio.add(member="member").login
    return Scene(studio.owner, studio.project_id, studio.world.organization, login)


# A stream does not end by itself, so test_stream.py covers its permissions.
ELSEWHERE = {"GET /projects/{}/stream"}


def _key(operation: Any) -> str:
    return f"{operation.method} " + re.sub(r"\{\w+\}", "{}", operation.path)


def test_every_operation_is_in_the_table() -> None:
    assert {_key(each) for each in OPERATIONS} == set(TABLE) | ELSEWHERE
    assert all(each.area is WORK_API for each in OPERATIONS)


def _path(key: str, ids: Any) -> str:
    return key.split()[1].format(*(ids if isinstance(ids, tuple) else (ids,)))


def _call(caller: Caller, key: str, ids: Any, body: Any, **more: Any) -> httpx.Response:
    method = key.split()[0]
    given = body if {"params", "files"} & set(body) else {"json": body} if method in ("POST", "PATCH") else {}
    return caller.call(method, _path(key, ids), **given, **more)


def test_each_caller_gets_the_expected_status(studio: Studio, scene: Scene) -> None:
    """Callers with the fewest rights come first, so a refused call leaves the object to the next one."""
    wrong = []
    for key, (expected, made, body) in TABLE.items():
        used = True
        for name, status in zip(("nobody", *reversed(CALLERS)), (401, *reversed(expected)), strict=True):
            if used:
                ids, given = made(scene), body(scene) if callable(body) else body
            response = _call(getattr(studio, name), key, ids, given)
            if response.status_code != status:
                wrong.append(f"{key} as {name}: {response.status_code}, not {status}: {response.text[:200]}")
            if name == "nobody" and response.headers.get("www-authenticate") != "Bearer":
                wrong.append(f"{key} as {name}: {response.headers}")
            used = response.is_success and not key.startswith("GET ")
    assert wrong == [], "\n".join(wrong)


# --- rules for all operations ----------------------------------------------------------------------------------------

ELSEWHERE_OR_WHOLE = re.compile("/organizations/|/services|/me/|DELETE /projects/{}$|POST /projects/{}/restore")
IN_PROJECT = [key for key, row in TABLE.items() if row[0][3] == 404 and not ELSEWHERE_OR_WHOLE.search(key)]
READS = [key for key in IN_PROJECT if key.startswith("GET ")]
CHANGES = [key for key in IN_PROJECT if not key.startswith("GET ")]

Asked = dict[str, tuple[Any, Any]]
"""By operation: the IDs in its path, and its body or a function returning it."""


def _ready(scene: Scene, keys: Iterable[str]) -> Asked:
    """Return a valid request for each operation, each with an object of its own."""
    asked = {}
    for key in keys:
        _, make, body = TABLE[key]
        asked[key] = make(scene), body(scene) if callable(body) else body
    return asked


def _unexpected(caller: Caller, asked: Asked, status: int, code: str | None = None, **more: Any) -> list[str]:
    """Return the operations with an unexpected response."""
    answers = [(key, _call(caller, key, *given, **more)) for key, given in asked.items()]
    return [
        f"{key}: {answer.status_code} {answer.text[:200]}"
        for key, answer in answers
        if answer.status_code != status or (code is not None and answer.json()["code"] != code)
    ]


def test_a_reader_can_read_but_not_change(studio: Studio, scene: Scene) -> None:
    reader, reads, changes = studio.add(role="read"), _ready(scene, READS), _ready(scene, CHANGES)
    studio.happened()
    assert _unexpected(reader, reads, 200) == []
    assert _unexpected(reader, changes, 403, "missing_role") == []
    assert studio.happened() == []


def test_an_archived_project_is_read_only_and_a_deleted_one_is_gone(studio: Studio, scene: Scene) -> None:
    reads, changes = _ready(scene, READS), _ready(scene, CHANGES)
    studio.owner.patch(studio.project, json={"archive": True})
    studio.happened()
    assert _unexpected(studio.owner, reads, 200) == []
    assert _unexpected(studio.owner, changes, 409, "archived") == []
    assert studio.happened() == []

    studio.server.execute(sa.update(projects).where(projects.c.id == studio.project_id).values(deleted_at=1))
    assert _unexpected(studio.owner, {**reads, **changes}, 404, "not_found") == []


@pytest.mark.parametrize("no_such", ["no-such", "0", "9" * 40])
def test_an_unknown_id_is_not_found(studio: Studio, scene: Scene, no_such: str) -> None:
    asked = {
        key: ((no_such,) * key.count("{}"), body(scene) if callable(body) else body)
        for key, (_, _, body) in TABLE.items()
        if "{}" in key
    }
    assert _unexpected(studio.owner, asked, 404, "not_found") == []


# A membership has no state that a caller could have seen.
STATELESS = {"DELETE /projects/{}/members/{}"}


def test_if_match_restricts_changes_to_the_named_state(studio: Studio, scene: Scene) -> None:
    asked = _ready(scene, [key for key in TABLE if key.startswith(("PATCH", "DELETE")) and key not in STATELESS])
    studio.happened()
    assert _unexpected(studio.owner, asked, 412, "precondition_failed", headers={"If-Match": '"else"'}) == []
    assert studio.happened() == []
    for key, given in asked.items():
        path = _path(key, given[0])
        is_read = f"GET {key.split()[1]}" in TABLE
        tag = studio.owner.call("GET", path).headers["etag"] if is_read else "*"
        if tag != "*":
            assert studio.owner.call("GET", path, headers={"If-None-Match": tag}).status_code == 304, key
        assert _unexpected(studio.owner, {key: given}, 200, headers={"If-Match": tag}) == []
        if key.startswith("PATCH") and tag != "*":
            assert _unexpected(studio.owner, {key: given}, 412, headers={"If-Match": tag}) == []


def test_concurrent_deletions_take_effect_once(studio: Studio, scene: Scene) -> None:
    asked = _ready(scene, [key for key in CHANGES if key.startswith("DELETE")])
    studio.happened()
    for key, given in asked.items():
        with ThreadPoolExecutor(4) as pool:
            calls = [pool.submit(_call, studio.owner, key, *given) for _ in range(4)]
            statuses = Counter(each.result().status_code for each in calls)
        # Repeated reversals succeed. The organization member stays in the project.
        expected = {"DELETE /task_credits/{}": {200: 4}, "DELETE /projects/{}/members/{}": {200: 1, 409: 3}}
        assert statuses == expected.get(key, {200: 1, 404: 3}), key
        assert len([each for each in studio.happened() if each.action in ("deleted", "removed", "reversed")]) == 1, key


def test_parameters_can_be_in_the_query(studio: Studio, scene: Scene) -> None:
    wrong = []
    for key in TABLE:
        if not key.startswith(("POST", "PATCH")):
            continue
        ids, body = _ready(scene, [key])[key]
        if body and all(isinstance(value, str | int | float) for value in body.values()):
            response = studio.owner.call(key.split()[0], _path(key, ids), params=body)
            texts = [value for name, value in body.items() if isinstance(value, str) and name in response.text]
            if response.status_code != 200 or not all(each in response.text for each in texts):
                wrong.append(f"{key}: {response.status_code} {response.text[:200]}")
    assert wrong == [], "\n".join(wrong)


def _with_comments(scene: Scene, what: str, noun: str) -> str:
    """Return the ID of a task or file with five comments, the second and the fourth of which are private."""
    thing: str = getattr(scene, what)()
    for number in range(5):
        scene.owner.post(f"/{what}s/{thing}/{noun}", json={"text": "Said", "private": number % 2 == 1})
    return thing


def _with_files(scene: Scene) -> str:
    task_id = scene.task()
    for number in range(5):
        scene.file(task_id=task_id, private=str(number % 2 == 1).lower())
    return task_id


def _with_tasks(scene: Scene) -> str:
    column_id = scene.column()
    for _ in range(3):
        scene.task(column_id)
    return column_id


def _with_money(scene: Scene) -> str:
    """Return the ID of an invoice with two payments and two credit notes."""
    invoice_id = scene.invoice("send")
    for _ in range(2):
        scene.owner.post(f"/invoices/{invoice_id}/payments", json={"amount": 1})
        scene.owner.post(f"/invoices/{invoice_id}/credit_notes", json={"total": 1, "reason": "Late"})
    return invoice_id


FILLED: dict[str, Callable[[Scene], Any]] = {
    "GET /columns/{}/tasks": _with_tasks,
    "GET /tasks/{}/task_comments": lambda scene: _with_comments(scene, "task", "task_comments"),
    "GET /files/{}/file_comments": lambda scene: _with_comments(scene, "file", "file_comments"),
    "GET /tasks/{}/files": _with_files,
    "GET /invoices/{}/payments": _with_money,
    "GET /invoices/{}/credit_notes": _with_money,
}
ONE_ROW = {"GET /timesheets/running", "GET /trash"}  # the scene has at most one of these


def _rows(response: httpx.Response) -> list[Any]:
    assert response.status_code == 200, response.text
    answer = response.json()
    rows = answer if isinstance(answer, list) else next(each for each in answer.values() if isinstance(each, list))
    return [_without_clock(each) for each in rows]


def _without_clock(row: Any) -> Any:
    """Omit the durations of a running timer, which change between requests."""
    if not isinstance(row, dict) or not row.get("is_active"):
        return row
    return {name: each for name, each in row.items() if "duration" not in name and name != "elapsed_time"}


def test_the_pages_of_a_list_add_up_to_the_whole_list(studio: Studio, scene: Scene) -> None:
    asked = _ready(scene, TABLE)
    lists = [_key(each) for each in OPERATIONS if any(query.name == "per_page" for query in each.query)]
    assert len(lists) > 20
    for key in lists:
        ids = FILLED[key](scene) if key in FILLED else asked[key][0]
        path, query = _path(key, ids), asked[key][1].get("params", {})
        for caller in (studio.owner, studio.client) if TABLE[key][0][2] == 200 else (studio.owner,):
            whole = _rows(caller.call("GET", path, params=query))
            assert caller is studio.client or key in ONE_ROW or len(whole) > 1, key
            size = max(1, (len(whole) + 1) // 3)
            response = caller.call("GET", path, params={**query, "per_page": size})
            pages = [_rows(response)]
            while "next" in response.links:
                response = caller.http.get(response.links["next"]["url"])
                pages.append(_rows(response))
            assert [row for page in pages for row in page] == whole, key
            assert {len(page) for page in pages[:-1]} <= {size}, key
            assert pages[-1] or not whole, f"{key}: the last page is empty"
