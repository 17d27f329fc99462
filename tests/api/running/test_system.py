"""The system endpoints: /healthz, /readyz, /metrics and /openapi.json."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg
import pytest
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

from tests.api.wire import Api, Place
from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.harness.waiting import finish, until
from workhook import __version__
from workhook.asgi import described
from workhook.http.operations import Operation, is_for_programs
from workhook.identity.policy import RULES


def test_healthz_states_the_version(server: Server) -> None:
    with server.client(None) as client:
        response = client.get("/healthz")
        assert (response.status_code, response.json()) == (200, {"status": "ok", "version": __version__})
        assert client.head("/healthz").status_code == 200
        assert "x-ratelimit-limit" not in response.headers


def test_readyz_states_that_the_server_is_ready(server: Server) -> None:
    with server.client(None) as client:
        response = client.get("/readyz")
    assert response.status_code == 200
    assert response.json()["status"] == "ready"
    assert response.json()["checks"]["database"] == "ok"
    assert "retry-after" not in response.headers


@contextmanager
def unwritable(server: Server) -> Iterator[None]:
    """Make the database inaccessible: lock the SQLite file, or refuse connections on PostgreSQL."""
    url = server.settings.get("database_url")
    if url is None:
        holder = sqlite3.connect(server.data / "workhook.db", isolation_level=None)
        holder.execute("BEGIN EXCLUSIVE")
        yield
        holder.close()
    else:
        finish(lambda: _allow_connections(url, allow=False))
        yield
        finish(lambda: _allow_connections(url, allow=True))


async def _allow_connections(url: str, *, allow: bool) -> None:
    name = re.findall(r"t[0-9a-f]{32}", url)[0]
    connection = await asyncpg.connect(url.replace(name, "postgres"))
    try:
        await connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS {str(allow).lower()}')
        if not allow:
            await connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
    finally:
        await connection.close()


def test_an_unavailable_database_is_reported_and_recovered_from(new_server: Callable[..., Server]) -> None:
    server = new_server()
    world = server.world()
    with server.client(world.token) as client:
        project = client.get("/api/v1/projects").json()["projects"][0]
        with unwritable(server):
            until(lambda: client.get("/readyz").status_code == 503)
            ready = client.get("/readyz")
            assert ready.json()["status"] == "not ready"
            assert ready.json()["checks"]["database"] != "ok"
            assert int(ready.headers["retry-after"]) > 0
            assert client.get("/healthz").status_code == 200

            hook = client.post(f"{world.repo_path}/hooks", json={"config": {"url": "http://127.0.0.1:9/"}})
            assert hook.status_code == 503
            assert int(hook.headers["retry-after"]) > 0
            assert hook.json()["status"] == "503"
            edit = client.patch(f"/api/v1/projects/{project['id']}", json={"title": "x"})
            assert edit.status_code == 503
            assert int(edit.headers["retry-after"]) > 0
            assert (edit.json()["success"], edit.json()["code"]) == (False, "database_unavailable")
        until(lambda: client.get("/readyz").status_code == 200)
        assert client.get(f"{world.repo_path}/hooks").json() == []  # nothing was written
        assert client.get(f"/api/v1/projects/{project['id']}").json()["project"] == project


def test_metrics_count_requests_and_deliveries(api: Api, repository: Place, receiver: Receiver) -> None:
    hook = api.hook(repository, config={"url": receiver.url}, active=True)
    until(lambda: api.read(hook["deliveries_url"]))
    api.get("/no/such/path")
    # The worker learns of the commit slightly after it becomes visible to readers.
    counted = re.compile(r'^workhook_deliveries_total\{outcome="success"\} [1-9]', re.MULTILINE)
    response = until(lambda: answer if counted.search((answer := api.get("/metrics")).text) else None)
    assert response is not None
    assert response.headers["content-type"] == "text/plain; version=1.0.0; charset=utf-8"
    names = set(re.findall(r"^# TYPE (\w+)", response.text, re.MULTILINE))
    assert names >= {
        "workhook_requests_total", "workhook_request_seconds", "workhook_deliveries_total", "workhook_delivery_seconds",
        "workhook_queue_age_seconds", "workhook_deliveries_in_flight", "workhook_pending_hooks",
        "workhook_lanes_leased", "workhook_retries_scheduled_total", "workhook_throttled_total", "process_open_fds",
    }  # fmt: skip
    values = dict(re.findall(r"^(workhook_\w+(?:\{.*\})?) (\S+)$", response.text, re.MULTILINE))
    assert any(each.startswith("workhook_build_info{") and f'version="{__version__}"' in each for each in values)
    created = 'workhook_requests_total{method="POST",route="/repos/{owner}/{repo}/hooks",status="201"}'
    assert float(values[created]) >= 1
    assert float(values['workhook_deliveries_total{outcome="success"}']) >= 1
    # Neither paths nor names of accounts become labels, because their number is unbounded.
    assert float(values['workhook_requests_total{method="GET",route="(none)",status="404"}']) >= 1
    assert repository.world.organization not in response.text


# --- the OpenAPI document -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def document(server: Server) -> dict[str, Any]:
    with server.client(None) as client:
        response = client.get("/openapi.json")
        assert response.headers["content-type"] == "application/json; charset=utf-8"
        found: dict[str, Any] = response.json()
        return found


def shown_operations(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    methods = ("get", "post", "put", "patch", "delete")
    return {
        f"{method.upper()} {path}": item[method]
        for path, item in document["paths"].items()
        for method in methods
        if method in item
    }


def test_the_document_is_valid(document: dict[str, Any]) -> None:
    assert document["openapi"] == "3.1.0"
    assert document["info"]["version"] == __version__
    OPENAPI_31_VALIDATOR.validate(document)


def test_every_reference_is_resolvable(document: dict[str, Any]) -> None:
    text = repr(document)
    references = set(re.findall(r"'\$ref': '(#/[^']+)'", text))
    assert len(references) > 50
    for reference in references:
        found: Any = document
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]


def test_the_document_names_the_server(server: Server) -> None:
    with server.client(None) as client:
        for host in (server.url.removeprefix("http://"), "work.example.com:8443"):
            document = client.get("/openapi.json", headers={"Host": host}).json()
            assert document["servers"] == [{"url": f"http://{host}"}]
            item = document["paths"]["/repos/{owner}/{repo}/hooks"]
            assert [each["url"] for each in item["servers"]] == [f"http://{host}", f"http://{host}/api/v3"]
            assert "servers" not in document["paths"]["/api/v1/projects"]
            assert ".invalid" not in repr(document)


def test_the_document_is_compressed_and_cacheable(server: Server) -> None:
    """Each encoding has its own constant ETag (RFC 9110, 8.8.3.3)."""
    tags, plain, path = set(), 0, "/openapi.json"
    with server.client(None) as client:
        for encoding in ("identity", "gzip", "br", "zstd"):
            headers = {"Accept-Encoding": encoding}
            with client.stream("GET", path, headers=headers) as answer:
                raw = b"".join(answer.iter_raw())
            assert answer.headers.get("content-encoding", "identity") == encoding
            assert (answer.headers["vary"], int(answer.headers["content-length"])) == ("Accept-Encoding", len(raw))
            plain = plain or len(raw)
            assert encoding == "identity" or len(raw) < plain / 3
            tag = answer.headers["etag"]
            again = client.get(path, headers={**headers, "If-None-Match": tag})
            assert (again.status_code, again.headers["etag"], again.headers["vary"]) == (304, tag, "Accept-Encoding")
            assert client.get(path, headers={**headers, "If-None-Match": '"x"'}).status_code == 200
            other = client.get(path, headers={**headers, "Host": "work.example.com"})
            assert other.headers["etag"] != tag
            tags.add(tag)
    assert len(tags) == 4


# Status codes of each operation in the specification's tables: success first, then the others.
CONTRACT = {
    "GET {}/hooks": ("200", "404"),
    "POST {}/hooks": ("201", "404", "422"),
    "GET {}/hooks/{{hook_id}}": ("200", "404"),
    "PATCH {}/hooks/{{hook_id}}": ("200", "404", "422"),
    "DELETE {}/hooks/{{hook_id}}": ("204", "404"),
    "GET {}/hooks/{{hook_id}}/config": ("200",),
    "PATCH {}/hooks/{{hook_id}}/config": ("200",),
    "GET {}/hooks/{{hook_id}}/health": ("200", "404"),
    "GET {}/hooks/{{hook_id}}/deliveries": ("200", "400", "422"),
    "GET {}/hooks/{{hook_id}}/deliveries/{{delivery_id}}": ("200", "400", "422"),
    "POST {}/hooks/{{hook_id}}/deliveries/{{delivery_id}}/attempts": ("202", "400", "422"),
}


@pytest.mark.parametrize("root", ["/orgs/{org}", "/repos/{owner}/{repo}"])
@pytest.mark.parametrize("operation", CONTRACT)
def test_the_document_contains_the_contract(document: dict[str, Any], operation: str, root: str) -> None:
    responses = shown_operations(document)[operation.format(root)]["responses"]
    assert set(CONTRACT[operation]) <= set(responses)
    successes = {status for status in responses if status.startswith("2")}
    assert successes == {CONTRACT[operation][0]}
    if operation == "POST {}/hooks" and root.startswith("/repos"):
        assert "403" in responses


def declared_operations() -> list[Operation]:
    """Return the operations for programs, as opposed to pages."""
    every = described()
    return [each for each in every if is_for_programs(each.area)]


def test_every_operation_is_in_the_document(document: dict[str, Any]) -> None:
    declared = declared_operations()
    shown = shown_operations(document)
    assert len(shown) == len(declared)
    names = [each["operationId"] for each in shown.values()]
    assert len(set(names)) == len(names)
    for each in declared:
        operation = shown[f"{each.method} {each.area.prefixes[0]}{each.path}"]
        statuses = {int(status) for status in operation["responses"]} - {304}
        assert statuses == (set(each.answers) | each.all_problems) - {304}, each.name


def test_every_operation_is_described(document: dict[str, Any]) -> None:
    tags = {each["name"]: each["description"] for each in document["tags"]}
    assert all(len(text) > len(name) for name, text in tags.items())
    for name, operation in shown_operations(document).items():
        assert operation["summary"], name
        assert set(operation["tags"]) <= set(tags), name
        assert set(re.findall(r"{(\w+)}", name)) == {
            each["name"] for each in operation["parameters"] if each.get("in") == "path"
        }
        for parameter in operation["parameters"]:
            assert "$ref" in parameter or parameter.get("description") or parameter["in"] == "query", (name, parameter)


def test_every_operation_states_who_may_call_it(document: dict[str, Any]) -> None:
    shown = shown_operations(document)
    for each in declared_operations():
        operation = shown[f"{each.method} {each.area.prefixes[0]}{each.path}"]
        if each.access is None:
            assert operation["security"] in ([], [{}, {"bearer": []}])
            continue
        target = RULES[each.access].target
        if target in ("app", "client"):
            assert operation["security"] == [{target: []}]
            assert "Requires a JSON Web Token" in operation["description"] or target == "client"
            continue
        assert "Requires a token" in operation["description"]
        for scope in RULES[each.access].scopes:
            assert f"`{scope}`" in operation["description"]
            assert {"bearer": [scope]} in operation["security"]


def test_errors_link_to_their_operation(api: Api, place: Place, document: dict[str, Any]) -> None:
    problems = (
        api.get(f"{place.hooks}/0"),
        api.post(place.hooks, content=b"{"),
        api.post(f"{place.path}/events", json={}),
    )
    anchors = [each.json()["documentation_url"].partition("/docs#")[2] for each in problems]
    assert anchors == [f"{place.kind}_{name}" for name in ("hooks_get", "hooks_create", "events_publish")]
    assert set(anchors) <= {each["operationId"] for each in shown_operations(document).values()}
