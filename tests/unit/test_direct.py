"""The application called directly through ASGI: dispatch to operations, and responses to unknown and failing ones."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any, cast

import httpx
import pytest

from workhook.core.config import load
from workhook.core.errors import NotFound, Problem
from workhook.http import routing
from workhook.http.calls import Call, Response, Services
from workhook.http.operations import SYSTEM, Operation


async def _told(call: Call) -> Response:
    if call.path("name") == "nothing":
        return Response(status=204)
    return Response({"name": call.path("name"), "first": call.header("X-Twice"), "body": len(await call.body())})


async def _missing(call: Call) -> Response:
    raise NotFound()


def _app() -> routing.AsgiApp:
    async def anybody(call: Call) -> None:
        return None

    def refused(call: Call, problem: Problem) -> None:
        raise RuntimeError("whoever is told fails")

    operations = [
        Operation(SYSTEM, "GET", "/told/{name}", _told, "told", "Tell", None),
        Operation(SYSTEM, "POST", "/told/{name}", _told, "told_body", "Tell", None),
        Operation(SYSTEM, "GET", "/missing", _missing, "missing", "Miss", None),
    ]
    services = Services(load({}, {}), *cast(Any, [None] * 5))  # no test here uses a database
    return routing.AsgiApp(operations, lambda: services, anybody, refused=refused)


def _ask(method: str, path: str, **more: Any) -> httpx.Response:
    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(_app(), raise_app_exceptions=True)
        async with httpx.AsyncClient(transport=transport, base_url="http://there") as client:
            return await client.request(method, path, **more)

    return asyncio.run(run())


@pytest.mark.parametrize(("problem", "status"), [(None, 204), (NotFound, 404), (RuntimeError, 500)])
def test_an_answered_request_is_freed(problem: type[Exception] | None, status: int) -> None:
    """The request must be freed without waiting for garbage collection, because its body can be large."""
    calls = []

    async def read(call: Call) -> Response:
        calls.append(weakref.ref(call))
        await call.body()
        if problem is not None:
            raise problem
        return Response(status=204)

    async def anybody(call: Call) -> None:
        return None

    services = Services(load({}, {}), *cast(Any, [None] * 5))
    app = routing.AsgiApp([Operation(SYSTEM, "POST", "/read", read, "read", "Read", None)], lambda: services, anybody)
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"a body"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/read", "query_string": b"", "scheme": "http", "headers": []}
    gc.collect()
    gc.disable()
    try:
        asyncio.run(app({**scope}, receive, send))
        assert [each() for each in calls] == [None]
    finally:
        gc.enable()
    assert sent[0]["status"] == status


def test_an_operation_receives_path_headers_and_body() -> None:
    for path in ("/told/me", "/told//me/"):
        answer = _ask("POST", path, content=b"four", headers=[("X-Twice", "a"), ("x-twice", "b")])
        assert answer.status_code == 200
        assert answer.json() == {"name": "me", "first": "a", "body": 4}
        assert answer.headers["content-length"] == str(len(answer.content))


def test_responses_may_have_no_body() -> None:
    empty = _ask("GET", "/told/nothing")
    assert (empty.status_code, empty.content) == (204, b"")
    options = _ask("OPTIONS", "/told/me")
    assert (options.status_code, options.headers["allow"]) == (204, "GET, HEAD, OPTIONS, POST")


def test_a_truncated_body_is_not_processed() -> None:
    """The response is not counted as a server error, even though the client no longer reads it."""
    scope = {"type": "http", "method": "POST", "path": "/told/me", "query_string": b"", "scheme": "http", "headers": []}
    messages = [{"type": "http.request", "body": b"fo", "more_body": True}, {"type": "http.disconnect"}]
    sent: list[Any] = []

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(_app()({**scope}, receive, send))
    assert sent[0]["status"] == 400
    assert b"The request ended before its body was complete." in sent[1]["body"]


def test_a_request_without_an_operation_is_a_problem() -> None:
    assert _ask("GET", "/nowhere").status_code == 404
    for path in ("/told/me", "/told//me//"):
        wrong = _ask("DELETE", path)
        assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, HEAD, OPTIONS, POST")
        assert wrong.json()["message"] == "This path accepts GET, HEAD, OPTIONS, POST."
    assert _ask("GET", "/told/me", headers={"Host": "not a host"}).status_code == 400


def test_an_uncaught_error_of_an_operation_is_a_problem() -> None:
    answer = _ask("GET", "/missing")
    assert answer.status_code == 500
    assert answer.json()["message"] == "The server failed. Its log contains the cause, under the request ID."
