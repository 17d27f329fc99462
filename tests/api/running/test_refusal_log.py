"""A refused request can be found in the log by its request ID at the default log level."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.api.protocol.test_heads import send
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.harness.world import World

pytestmark = pytest.mark.one_database


def lines(server: Server, request_id: str) -> list[dict[str, Any]]:
    return [json.loads(each) for each in server.log().splitlines() if request_id in each and each.startswith("{")]


def test_the_id_of_each_refused_request_is_in_the_log(server: Server, world: World) -> None:
    secret = "a-secret-in-a-query"  # the log is searched for it
    with server.client(world.token) as client, server.client(None) as nobody:
        bad = {"Authorization": f"Bearer {secret}"}
        asked = [
            (nobody.get("/user"), "/user", 401, "unauthenticated"),
            (nobody.get("/user", headers=bad), "/user", 401, "unauthenticated"),
            (client.get(f"/api/v1/projects/{secret}"), "/api/v1/projects/{id}", 404, "not_found"),
            (client.post("/api/v1/projects", json={"title": 7}), "/api/v1/projects", 422, "validation_failed"),
            (client.post("/api/v1/projects", content=b"{"), "/api/v1/projects", 400, "malformed"),
            (client.get(f"/no/such/{secret}?x={secret}"), "(none)", 404, "not_found"),
            (client.put("/user"), "(none)", 405, "method_not_allowed"),
        ]
    for answer, route, status, code in asked:
        request_id = answer.headers["x-request-id"]
        [line] = until(lambda known=request_id: lines(server, known))  # type: ignore[misc]  # called immediately
        assert (answer.status_code, line["status"], line["code"]) == (status, status, code)
        assert (line["level"], line["event"], line["method"]) == ("info", "request_refused", answer.request.method)
        assert line["route"] == route
    assert secret not in server.log()


def test_a_malformed_request_is_in_the_log_too(server: Server) -> None:
    _, head, _ = send(server, "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n")
    [request_id] = re.findall(r"(?im)^x-request-id: (\w+)", head)
    [line] = until(lambda: lines(server, request_id))
    assert (line["event"], line["status"], line["code"]) == ("request_refused", 400, "malformed")


def test_a_successful_request_is_not_in_the_log(server: Server, world: World) -> None:
    with server.client(world.token) as client:
        request_id = client.get("/user").headers["x-request-id"]
        refused = client.get("/nope").headers["x-request-id"]
    until(lambda: lines(server, refused))
    assert lines(server, request_id) == []
