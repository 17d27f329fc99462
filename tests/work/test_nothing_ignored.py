"""No parameter is ever ignored: every operation of the work API refuses what it does not take, and does nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import httpx
import msgspec
import pytest

from tests.work.scene import Scene
from tests.work.studio import Studio
from tests.work.test_matrix import TABLE
from workhook.core import json
from workhook.http.operations import Operation
from workhook.work.operations import OPERATIONS

UNKNOWN = "no_such_parameter"
STREAM = "GET /projects/{}/stream"  # it answers for as long as it is read: a refusal it does not begin


@pytest.fixture
def scene(studio: Studio) -> Scene:
    login = studio.member.get("/me")["user"]["username"]
    return Scene(studio.owner, studio.project_id, studio.world.organization, login)


Request = tuple[str, str, dict[str, Any]]
"""Method, path, and what a good request has beside them."""


def _requests(scene: Scene) -> Iterator[tuple[str, Request]]:
    """A good request of every operation, each about a thing of its own."""
    for key, (_, make, body) in {**TABLE, STREAM: (None, lambda scene: scene.project_id, {})}.items():
        method, pattern = key.split()
        ids = make(scene)
        given = body(scene) if callable(body) else body
        path = pattern.format(*(ids if isinstance(ids, tuple) else (ids,)))
        yield key, (method, path, given if {"params", "files"} & set(given) else {"json": given} if given else {})


def _must_be(status: int, response: httpx.Response, key: str, named: str | None = None) -> Iterator[str]:
    """What is wrong with the answer."""
    if response.status_code != status:
        yield f"{key}: {response.status_code}, not {status}: {response.text[:200]}"
    elif named is not None and [each["field"] for each in response.json()["errors"]] != [named]:
        yield f"{key}: names {response.json()['errors']}"


def _unread(studio: Studio, call: Request, **more: Any) -> httpx.Response:
    """The answer, without what a stream would go on to say."""
    method, path, given = call
    with studio.owner.http.stream(method, f"/api/v1{path}", **{**given, **more}) as response:
        if response.status_code != 200:
            response.read()
        return response


def test_an_unknown_parameter_in_the_query_is_refused(studio: Studio, scene: Scene) -> None:
    wrong: list[str] = []
    for key, call in _requests(scene):
        studio.happened()
        params = {**call[2].get("params", {}), UNKNOWN: "1"}
        wrong += _must_be(422, _unread(studio, call, params=params), key, UNKNOWN)
        wrong += [f"{key}: {each.name} {each.action} happened" for each in studio.happened()]
    assert wrong == [], "\n".join(wrong)


def test_an_unknown_parameter_in_the_body_is_refused(studio: Studio, scene: Scene) -> None:
    wrong: list[str] = []
    for key, call in _requests(scene):
        studio.happened()
        more = {"data": {UNKNOWN: "1"}} if "files" in call[2] else {"json": {**call[2].get("json", {}), UNKNOWN: 1}}
        wrong += _must_be(422, _unread(studio, call, **more), key, UNKNOWN)
        wrong += [f"{key}: {each.name} {each.action} happened" for each in studio.happened()]
    assert wrong == [], "\n".join(wrong)


@pytest.mark.parametrize("body", [b'{"a"', b"a=b", b"[]", b"null", b"\xff"])
def test_a_body_that_is_no_json_object_is_refused(studio: Studio, scene: Scene, body: bytes) -> None:
    wrong: list[str] = []
    for key, (method, path, given) in _requests(scene):
        if "files" in given:
            continue  # a form; test_files_upload.py
        studio.happened()
        call = (method, path, {name: value for name, value in given.items() if name != "json"})
        response = _unread(studio, call, content=body, headers={"Content-Type": "application/json"})
        wrong += _must_be(400, response, key)
        wrong += [f"{key}: {each.name} {each.action} happened" for each in studio.happened()]
    assert wrong == [], "\n".join(wrong)


def test_a_body_of_another_media_type_is_refused(studio: Studio, scene: Scene) -> None:
    wrong: list[str] = []
    for key, (method, path, given) in _requests(scene):
        if "files" not in given:
            headers = {"Content-Type": "text/plain"}
            wrong += _must_be(415, _unread(studio, (method, path, {}), content=b"{}", headers=headers), key)
    assert wrong == [], "\n".join(wrong)


def test_no_bytes_are_no_body_whatever_they_are_declared_to_be(studio: Studio, scene: Scene) -> None:
    wrong: list[str] = []
    for key, call in _requests(scene):
        if not call[2] and key != STREAM:
            response = _unread(studio, call, content=b"", headers={"Content-Type": "application/json"})
            wrong += _must_be(200, response, key) if key not in _NEEDS_MORE else ()
    assert wrong == [], "\n".join(wrong)


_NEEDS_MORE: frozenset[str] = frozenset()


def test_an_empty_object_is_a_body_that_asks_for_nothing(studio: Studio, scene: Scene) -> None:
    running = scene.running()
    assert studio.owner.post(f"/timesheets/{running}/pause", json={})["timesheet"]["is_active"] is False
    assert studio.owner.delete(f"/timesheets/{running}", content=b" {} ") == {"success": True}


def test_every_fault_of_body_and_query_is_named_at_once(studio: Studio, scene: Scene) -> None:
    path = f"/timesheets/{scene.running()}/pause"
    faults = studio.owner.faults("POST", path, params={"a": "1"}, json={"b": 1})
    assert faults == {"a": "unknown", "b": "unknown"}
    more = {"params": {"per_page": "0", "a": "1"}, "json": {"b": 1}}
    assert studio.owner.faults("GET", "/projects", **more) == {"per_page": "invalid", "a": "unknown", "b": "unknown"}


def test_the_parameters_of_a_list_are_none_in_its_body(studio: Studio) -> None:
    assert studio.owner.faults("GET", "/projects", json={"per_page": 1}) == {"per_page": "unknown"}


def test_the_link_of_a_file_takes_nothing_but_its_signature(studio: Studio, scene: Scene) -> None:
    link = httpx.URL(studio.owner.get(f"/files/{scene.file()}")["file"]["file_link"])
    path = link.path.removeprefix("/api/v1")
    assert studio.nobody.call("GET", path, params=dict(link.params)).status_code == 200
    assert studio.nobody.faults("GET", path, params={**link.params, UNKNOWN: "1"}) == {UNKNOWN: "unknown"}


def test_who_may_not_is_told_so_first(studio: Studio, scene: Scene) -> None:
    path = f"/timesheets/{scene.running()}/pause"
    assert studio.nobody.call("POST", path, json={UNKNOWN: 1}).status_code == 401


def _nested(shape: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every struct within a struct, with the name of the parameter that holds it."""
    options = [option for each in (get_args(shape) or (shape,)) for option in (get_args(each) or (each,))]
    for option in options:
        if isinstance(option, type) and issubclass(option, msgspec.Struct):
            yield name, option
            for field in msgspec.structs.fields(option):
                yield from _nested(field.type, f"{name}.{field.encode_name}")
        elif get_args(option):
            yield from _nested(option, name)


@pytest.mark.parametrize(
    "operation", [each for each in OPERATIONS if isinstance(each.body, type)], ids=lambda op: op.name
)
def test_the_items_of_a_list_take_nothing_unknown_either(studio: Studio, scene: Scene, operation: Operation) -> None:
    nested = [name for name, _ in _nested(operation.body) if name]
    for name in nested:
        field = name.removeprefix(".")
        assert "." not in field, "deeper than this test looks"
        path = operation.path.replace("{id}", studio.project_id).replace("{invoice_id}", scene.invoice())
        faults = studio.owner.faults(operation.method, path, json={field: [{UNKNOWN: json.encode(1).decode()}]})
        assert faults[f"{field}[0].{UNKNOWN}"] == "unknown"
