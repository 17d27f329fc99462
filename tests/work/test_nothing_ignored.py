"""No parameter is silently ignored: every operation of the work API refuses unknown input without side effects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args

import httpx
import msgspec
import pytest

from tests.harness.depth import DEPTH, is_taken
from tests.harness.server import Server
from tests.work.requests_kit import TABLE
from tests.work.scene import Scene
from tests.work.studio import Studio
from workhook.core import json
from workhook.http.operations import Operation
from workhook.work.operations import OPERATIONS

pytestmark = pytest.mark.one_database

UNKNOWN = "no_such_parameter"
STREAM = "GET /projects/{}/stream"  # a successful response never ends, so only refusals are tested


def scene_of(studio: Studio) -> Scene:
    login = studio.member.login
    return Scene(studio.owner, studio.project_id, studio.world.organization, login)


@pytest.fixture
def scene(studio: Studio) -> Scene:
    return scene_of(studio)


Request = tuple[str, str, dict[str, Any]]
"""Method, path and the other arguments of a valid request."""


def _requests(scene: Scene) -> Iterator[tuple[str, Request]]:
    """Yield a valid request for each tested operation, each with an object of its own."""
    for key, (_, make, body) in {**TABLE, STREAM: (None, lambda scene: scene.project_id, {})}.items():
        if not is_taken(key):
            continue
        method, pattern = key.split()
        ids = make(scene)
        given = body(scene) if callable(body) else body
        path = pattern.format(*(ids if isinstance(ids, tuple) else (ids,)))
        yield key, (method, path, given if {"params", "files"} & set(given) else {"json": given} if given else {})


Asked = list[tuple[str, Request]]


@pytest.fixture(scope="module")
def refusing(server: Server) -> Iterator[Studio]:
    """Yield a studio that receives only invalid requests."""
    studio = Studio(server, server.world())
    yield studio
    studio.close()


@pytest.fixture(scope="module")
def asked(refusing: Studio) -> Asked:
    """Return requests that can be reused, since refused requests leave their objects intact."""
    return list(_requests(scene_of(refusing)))


def _unexpected(status: int, response: httpx.Response, key: str, named: str | None = None) -> Iterator[str]:
    """Yield the differences between the expected and the actual response."""
    if response.status_code != status:
        told = "" if response.status_code == 200 else f": {response.text[:200]}"
        yield f"{key}: {response.status_code}, not {status}{told}"
    elif named is not None and [each["field"] for each in response.json()["errors"]] != [named]:
        yield f"{key}: names {response.json()['errors']}"


def _response_head(studio: Studio, call: Request, **more: Any) -> httpx.Response:
    """Return the response without reading the body of a stream."""
    method, path, given = call
    with studio.owner.http.stream(method, f"/api/v1{path}", **{**given, **more}) as response:
        if response.status_code != 200:
            response.read()
        return response


def test_an_unknown_query_parameter_is_refused(refusing: Studio, asked: Asked) -> None:
    wrong: list[str] = []
    refusing.happened()
    for key, call in asked:
        params = {**call[2].get("params", {}), UNKNOWN: "1"}
        wrong += _unexpected(422, _response_head(refusing, call, params=params), key, UNKNOWN)
    wrong += [f"{each.name} {each.action} happened" for each in refusing.happened()]
    assert wrong == [], "\n".join(wrong)


def test_an_unknown_body_parameter_is_refused(refusing: Studio, asked: Asked) -> None:
    wrong: list[str] = []
    refusing.happened()
    for key, call in asked:
        more = {"data": {UNKNOWN: "1"}} if "files" in call[2] else {"json": {**call[2].get("json", {}), UNKNOWN: 1}}
        wrong += _unexpected(422, _response_head(refusing, call, **more), key, UNKNOWN)
    wrong += [f"{each.name} {each.action} happened" for each in refusing.happened()]
    assert wrong == [], "\n".join(wrong)


@pytest.mark.variants("body")
@pytest.mark.parametrize("body", [b'{"a"', b"a=b", b"[]", b"null", b"\xff"])
def test_a_body_that_is_not_a_json_object_is_refused(refusing: Studio, asked: Asked, body: bytes) -> None:
    wrong: list[str] = []
    refusing.happened()
    for key, (method, path, given) in asked:
        if "files" in given:
            continue  # forms are covered in test_files_upload.py
        call = (method, path, {name: value for name, value in given.items() if name != "json"})
        response = _response_head(refusing, call, content=body, headers={"Content-Type": "application/json"})
        wrong += _unexpected(400, response, key)
    wrong += [f"{each.name} {each.action} happened" for each in refusing.happened()]
    assert wrong == [], "\n".join(wrong)


def test_a_body_of_another_media_type_is_refused(refusing: Studio, asked: Asked) -> None:
    wrong: list[str] = []
    for key, (method, path, given) in asked:
        if "files" not in given:
            headers = {"Content-Type": "text/plain"}
            wrong += _unexpected(415, _response_head(refusing, (method, path, {}), content=b"{}", headers=headers), key)
    assert wrong == [], "\n".join(wrong)


def test_an_empty_body_is_accepted_with_any_content_type(studio: Studio, scene: Scene) -> None:
    wrong: list[str] = []
    for key, call in _requests(scene):
        if not call[2] and key != STREAM:
            response = _response_head(studio, call, content=b"", headers={"Content-Type": "application/json"})
            wrong += _unexpected(200, response, key) if key not in _NEEDS_MORE else ()
    assert wrong == [], "\n".join(wrong)


_NEEDS_MORE: frozenset[str] = frozenset()


def test_an_empty_object_is_accepted_as_a_body(studio: Studio, scene: Scene) -> None:
    running = scene.running()
    assert studio.owner.post(f"/timesheets/{running}/pause", json={})["timesheet"]["is_active"] is False
    assert studio.owner.delete(f"/timesheets/{running}", content=b" {} ") == {"success": True}


def test_all_errors_in_body_and_query_are_reported_together(studio: Studio, scene: Scene) -> None:
    path = f"/timesheets/{scene.running()}/pause"
    faults = studio.owner.faults("POST", path, params={"a": "1"}, json={"b": 1})
    assert faults == {"a": "unknown", "b": "unknown"}
    more = {"params": {"per_page": "0", "a": "1"}, "json": {"b": 1}}
    assert studio.owner.faults("GET", "/projects", **more) == {"per_page": "invalid", "a": "unknown", "b": "unknown"}


def test_list_parameters_are_refused_in_the_body(studio: Studio) -> None:
    assert studio.owner.faults("GET", "/projects", json={"per_page": 1}) == {"per_page": "unknown"}


def test_a_file_link_accepts_only_its_signature(studio: Studio, scene: Scene) -> None:
    link = httpx.URL(studio.owner.get(f"/files/{scene.file()}")["file"]["file_link"])
    path = link.path.removeprefix("/api/v1")
    assert studio.nobody.call("GET", path, params=dict(link.params)).status_code == 200
    assert studio.nobody.faults("GET", path, params={**link.params, UNKNOWN: "1"}) == {UNKNOWN: "unknown"}


def test_authorization_is_checked_before_the_parameters(studio: Studio, scene: Scene) -> None:
    path = f"/timesheets/{scene.running()}/pause"
    assert studio.nobody.call("POST", path, json={UNKNOWN: 1}).status_code == 401


def _nested(shape: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every nested struct with the path of the parameter that contains it."""
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
def test_unknown_fields_in_nested_objects_are_refused(studio: Studio, scene: Scene, operation: Operation) -> None:
    nested = [name for name, _ in _nested(operation.body) if name]
    for name in nested:
        field = name.removeprefix(".")
        assert "." not in field, "deeper than this test looks"
        path = operation.path.replace("{id}", studio.project_id).replace("{invoice_id}", scene.invoice())
        path = path.replace("{login}", studio.world.organization)
        inside = {UNKNOWN: json.encode(1).decode()}
        is_object = field in OBJECTS or operation.name == "edit_notification_settings"
        is_list, place = (False, field) if is_object else (True, f"{field}[0]")
        faults = studio.owner.faults(operation.method, path, json={field: [inside] if is_list else inside})
        assert faults[f"{place}.{UNKNOWN}"] == "unknown"


OBJECTS = {"buyer", "budget"}  # parameters that are a single object
LISTS = {"assignees", "blocked_by", "labels", "timesheet_ids"}  # parameters that can be repeated in a query


def _query_of(key: str) -> Iterator[str]:
    """Yield the declared query parameters that are not lists."""
    [operation] = [each for each in OPERATIONS if f"{each.method} {re.sub('{[a-z_]+}', '{}', each.path)}" == key]
    for each in operation.query:
        is_list = not each.json and any(
            option.get("type") == "array" for option in each.schema.get("anyOf", [each.schema])
        )
        assert is_list == (each.name in LISTS), each
        if not is_list:
            yield each.name


def test_a_repeated_query_parameter_is_refused(refusing: Studio, asked: Asked) -> None:
    wrong: list[str] = []
    refusing.happened()
    tried = 0
    for key, call in asked:
        for name in _query_of(key):
            tried += 1
            for values in (["1", "1"], ["1", ""]):
                params = {**call[2].get("params", {}), name: values}
                wrong += _unexpected(422, _response_head(refusing, call, params=params), f"{key}?{name}", name)
    assert tried > (30 if DEPTH == "usual" else 100), "operations declare more"
    wrong += [f"{each.name} {each.action} happened" for each in refusing.happened()]
    assert wrong == [], "\n".join(wrong)


def test_a_repeated_body_field_is_refused(refusing: Studio, asked: Asked) -> None:
    wrong: list[str] = []
    refusing.happened()
    for key, (method, path, given) in asked:
        if "files" in given:
            continue  # forms are covered below
        more = {name: value for name, value in given.items() if name != "json"}
        body = given.get("json", {UNKNOWN: "1"})
        for name, value in body.items():
            again = json.encode(name) + b":" + json.encode(value)
            content = json.encode(body)[:-1] + b", " + again + b" }"
            response = _response_head(refusing, (method, path, more), content=content)
            wrong += _unexpected(422, response, f"{key} {name}", name)
    wrong += [f"{each.name} {each.action} happened" for each in refusing.happened()]
    assert wrong == [], "\n".join(wrong)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b'{"title": "a", "title": "a"}', ["title"]),
        (b'{"title": "a:b", "t\\u0069tle": "b"}', ["title"]),
        (b'{"title": "a", "\\u003a": 1, "\\u003A": 2}', [":"]),
        (b'{"title": "a", "fields": {"x": "1", "y": "2", "x": "3"}, "title": "b"}', ["title", "fields.x"]),
        (b'{"title": "a", "sections": {"s": [{"a": 1}, {"a": 1, "a": ":"}]}}', ["sections.s[1].a"]),
    ],
)
def test_a_repeated_name_in_a_body_is_reported_with_its_path(
    studio: Studio, scene: Scene, body: bytes, named: list[str]
) -> None:
    path = f"/columns/{scene.column()}/tasks"
    problem = studio.owner.refused(422, "POST", path, content=body)
    assert [(each["field"], each["code"]) for each in problem["errors"]] == [(name, "repeated") for name in named]
    assert problem["errors"][0]["message"] == f"{named[0]} must be sent once"
    assert studio.owner.get(path)["tasks"] == []


def test_the_same_name_in_different_objects_is_accepted(studio: Studio, scene: Scene) -> None:
    fields = b'{"title": ":", "\\u003a": "1"}'
    body = b'{"title": ":", "fields": ' + fields + b', "labels": ["title", ":"]}'
    made = studio.owner.post(f"/columns/{scene.column()}/tasks", content=body)["task"]
    assert (made["title"], made["fields"]) == (":", {"title": ":", ":": "1"})


def test_a_repeated_name_in_json_inside_a_query_is_refused(studio: Studio, scene: Scene) -> None:
    path = f"/columns/{scene.column()}/tasks"
    problem = studio.owner.refused(422, "POST", path, params={"title": "a", "fields": '{"x": "1", "x": "2"}'})
    assert [each["field"] for each in problem["errors"]] == ["fields"]
    assert "x more than once" in problem["errors"][0]["message"]


def test_a_repeated_query_parameter_forms_a_list_even_with_an_empty_value(studio: Studio, scene: Scene) -> None:
    path = f"/columns/{scene.column()}/tasks"
    made = studio.owner.post(path, params={"title": "a", "labels": ["x", "y"]})["task"]
    assert [each["title"] if isinstance(each, dict) else each for each in made["labels"]] == ["x", "y"]
    assert studio.owner.faults("PATCH", f"/tasks/{made['id']}", params={"labels": ["z", ""]}) == {"labels": "invalid"}


def test_a_repeated_form_field_of_an_upload_is_refused(studio: Studio) -> None:
    upload = {"files": {"file": ("a.txt", b"a")}}
    path = f"{studio.project}/files"
    assert studio.owner.faults("POST", path, **upload, data={"title": ["a", "b"]}) == {"title": "repeated"}
    assert studio.owner.faults("POST", path, **upload, data={"title": "a"}, params={"title": ["b", "c"]}) == {
        "title": "repeated"
    }
    assert studio.owner.post(path, **upload, data={"title": "a"}, params={"title": "b"})["file"]["title"] == "a"


def test_a_repeated_parameter_of_a_file_link_is_refused(studio: Studio, scene: Scene) -> None:
    link = httpx.URL(studio.owner.get(f"/files/{scene.file()}")["file"]["file_link"])
    path, given = link.path.removeprefix("/api/v1"), dict(link.params)
    for name, value in given.items():
        for values in (["0", value], [value, "0"], [value, value]):
            for caller in (studio.nobody, studio.owner):
                assert caller.faults("GET", path, params={**given, name: values}) == {name: "repeated"}


def test_the_webhook_api_uses_the_last_of_repeated_values(studio: Studio) -> None:
    """Like GitHub, the webhook API ignores unknown parameters and tolerates repeated ones."""
    hooks = f"{studio.server.url}{studio.world.org_path}/hooks"
    body = b'{"name": "x", "name": "web", "config": {"url": "http://127.0.0.1:8/", "url": "http://127.0.0.1:9/"}}'
    made = studio.owner.http.post(hooks, content=body)
    assert made.status_code == 201, made.text
    assert made.json()["config"]["url"] == "http://127.0.0.1:9/"
    assert len(studio.owner.http.get(hooks, params={"per_page": ["2", "1"]}).json()) == 1
