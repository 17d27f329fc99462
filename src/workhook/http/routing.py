"""Turns operations into an ASGI application: request ids, versions, the guard, ETags, problems, metrics."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cache, partial
from typing import Any, cast

import structlog
from litestar import Litestar, Request, Response
from litestar.config.app import AppConfig
from litestar.exceptions import HTTPException, InternalServerException
from litestar.handlers import HTTPRouteHandler
from litestar.plugins import PluginProtocol
from litestar.plugins.core import MsgspecDIPlugin
from litestar.types import ASGIApp
from litestar.utils import normalize_path

from workhook.core import json
from workhook.core.errors import Malformed, MethodNotAllowed, NotFound, Problem, TooLarge
from workhook.core.ids import new_request_id
from workhook.http import request_log
from workhook.http.calls import Answer, Call, Services, begin, is_host, origin
from workhook.http.negotiation import prefers_page
from workhook.http.operations import AREA_A, AREA_B, PAGES, VERSION_HEADERS, VERSIONS, Area, Operation
from workhook.http.problems import UnsupportedVersion, render
from workhook.http.streams import Streamed
from workhook.http.undeclared import refuse_undeclared
from workhook.http.whole import Whole

_HEADERS = {"X-Content-Type-Options": "nosniff"}  # of every answer
_PARAMETER = "[^/]+"
_CHARSET = "; charset=utf-8"
_HANDLES = "handles"  # of a route: its operations by method
_FAILED = "The server failed. The request id helps to find out why."

Guard = Callable[[Call], Awaitable[None]]  # called again for a call whose body came slowly
Refused = Callable[[Call, Problem], None]  # told of every problem that an operation is answered with, or in other words
ProblemPage = Callable[[Problem, str], Answer]  # gets the request id; for browsers, never under /api
Handle = Callable[[Request[Any, Any, Any]], Awaitable[Response[bytes]]]
Lifespan = Callable[[Litestar], AbstractAsyncContextManager[None]]

log = structlog.get_logger(__name__)


def build(
    operations: Sequence[Operation],
    services: Callable[[], Services],
    guard: Guard,
    lifespan: Sequence[Lifespan] = (),
    *,
    refused: Refused = lambda call, problem: None,
    problem_page: ProblemPage | None = None,
) -> Litestar:
    """The application. `services` is asked per request, so that the database may open after the routes are made."""
    table = [
        (_pattern(prefix, each), method)
        for each in operations
        for prefix in each.area.prefixes
        for method in _methods(each)
    ]

    def allowed(path: str) -> list[str]:
        """The methods of the route that serves the path: a part that is written out wins over a parameter."""
        fitting = [(pattern.pattern, method) for pattern, method in table if pattern.fullmatch(path)]
        route = min((_parameters_first_at(pattern) for pattern, _ in fitting), default=[])
        methods = {method for pattern, method in fitting if _parameters_first_at(pattern) == route}
        return sorted(methods | {"OPTIONS"}) if methods else []

    def outside(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
        return _outside(request, error, allowed, services(), problem_page)

    routes: dict[str, dict[str, Handle]] = {}
    for each in operations:
        for prefix in each.area.prefixes:
            handle = _handle(each, prefix, services, guard, refused, problem_page)
            by_method = routes.setdefault(prefix + each.path, {})
            assert by_method.keys().isdisjoint(_methods(each)), f"a second {each.method} {prefix}{each.path}"
            by_method.update(dict.fromkeys(_methods(each), handle))
    return _Plain(
        route_handlers=[_route(route, {**by, "OPTIONS": _options(route, allowed)}) for route, by in routes.items()],
        openapi_config=None,
        exception_handlers={HTTPException: outside, Exception: outside},
        lifespan=list(lifespan),
        request_max_body_size=None,  # `Call.body` bounds it, per operation
        logging_config=None,
        on_app_init=[_no_signature_namespace],
    )


class _Plain(Litestar):
    """Without the plugins for bodies that others describe: ours are bytes here, and Pydantic's takes megabytes.

    Litestar finds the route, and answers whatever leads to none. For a request that leads to an operation it would look
    at every turn for what nobody asks for here: hooks, dependencies, other types of answers. Half of what that takes is
    not spent if the operation is called at once.
    """

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        found = self._find(scope) if scope["type"] == "http" else None
        if found is None:
            await super().__call__(scope, receive, send)
            return
        route, handle = found
        request: Request[Any, Any, Any] = Request(scope, receive, send)
        try:
            response = await handle(request)
            answer = await _to_send(self, route, request, response)
        except Exception as error:  # noqa: BLE001  # what answers it tells of it
            log.debug("answered_outside", error=repr(error))
            response = cast(Response[bytes], self.exception_handlers[Exception](request, error))
            answer = await _to_send(self, route, request, response)
        await answer(scope, receive, send)

    def _find(self, scope: Any) -> tuple[HTTPRouteHandler, Handle] | None:
        """The route's handler and the operation, noted in the scope as Litestar's router would; None: it has to say."""
        host = next((value for name, value in scope["headers"] if name == b"host"), None)
        if scope.get("root_path") or (host is not None and not is_host(host.decode("latin-1"))):
            return None
        try:
            _, route, path, params, template = self.asgi_router.handle_routing(
                path=normalize_path(scope["path"]), method=scope["method"]
            )
        except HTTPException:
            return None
        if not isinstance(route, HTTPRouteHandler):
            return None
        scope["app"] = scope["litestar_app"] = self
        scope.setdefault("state", {})
        scope.update(path=path, path_params=params, route_handler=route, path_template=template)
        return route, route.opt[_HANDLES][scope["method"]]

    @staticmethod
    def _get_default_plugins(plugins: list[PluginProtocol]) -> list[PluginProtocol]:
        return [*plugins, MsgspecDIPlugin()]


async def _to_send(app: Litestar, route: HTTPRouteHandler, request: Request[Any, Any, Any], response: Any) -> ASGIApp:
    if isinstance(response, Whole):
        return response.to_asgi_response()
    return await route.to_response(app=app, data=response, request=request)


def _no_signature_namespace(config: AppConfig) -> AppConfig:
    config.signature_namespace = {"Request": Request, "Response": Response, "Any": Any}
    return config


def _pattern(prefix: str, operation: Operation) -> re.Pattern[str]:
    parts = re.split(r"\{\w+\}", prefix + operation.path)
    return re.compile(_PARAMETER.join(map(re.escape, parts)) + "/?")


def _parameters_first_at(pattern: str) -> list[bool]:
    return [part == _PARAMETER for part in pattern.removesuffix("/?").split("/")]


def _handle(
    operation: Operation,
    prefix: str,
    services: Callable[[], Services],
    guard: Guard,
    refused: Refused,
    problem_page: ProblemPage | None,
) -> Handle:
    route = prefix + operation.path
    # Looked up once, and not before the first request: `/metrics` tells only of what was asked for.
    answered = cache(partial(request_log.REQUESTS.labels, operation.method, route))
    seconds = cache(partial(request_log.REQUEST_SECONDS.labels, operation.method, route))

    async def check(call: Call) -> None:
        await guard(call)
        call.checked_at_s, call.recheck = time.monotonic(), partial(check, call)

    def tell_refused(call: Call, problem: Problem) -> None:
        refused(call, problem)
        request_log.note_refusal(problem, request_id=call.request_id, method=operation.method, route=route)

    async def handle(request: Request[Any, Any, Any]) -> Response[bytes]:
        started = time.perf_counter()
        call = Call(request, operation, services(), new_request_id(), prefix)
        begin(call)
        try:
            await check(call)
            if operation.area.versioned:
                _check_version(call)
            await refuse_undeclared(call)
            answer = await operation.handler(call)
            if call.refused is not None:
                tell_refused(call, call.refused)
            response = _respond(call, answer)
        except Problem as problem:
            tell_refused(call, problem)
            response = _refuse(call, problem, problem_page)
        except InternalServerException:  # of the body's stream: the client has gone, and reads no answer
            response = _refuse(call, Malformed("The request ended before its body did."), None)
        except Exception:
            log.exception("request_failed", request_id=call.request_id, route=route, method=operation.method)
            response = _refuse(call, Problem(_FAILED), problem_page)
        answered(response.status_code).inc()
        seconds().observe(time.perf_counter() - started)
        return response

    return handle


def _methods(operation: Operation) -> list[str]:
    return ["GET", "HEAD"] if operation.method == "GET" and operation.head else [operation.method]


def _options(route: str, allowed: Callable[[str], list[str]]) -> Handle:
    """What a path takes; anybody may ask."""

    async def handle(request: Request[Any, Any, Any]) -> Response[bytes]:
        request_log.REQUESTS.labels("OPTIONS", route, 204).inc()
        headers = {**_HEADERS, "X-Request-Id": new_request_id(), "Allow": ", ".join(allowed(request.scope["path"]))}
        return Response(b"", status_code=204, headers=headers, media_type="")

    return handle


def _route(route: str, by_method: Mapping[str, Handle]) -> HTTPRouteHandler:
    """One for all methods of a path: each that Litestar knows costs 13 KB, and time at the start."""

    async def handle(request: Request[Any, Any, Any]) -> Response[bytes]:
        return await by_method[request.method](request)

    path = re.sub(r"\{(\w+)\}", r"{\1:str}", route)
    methods = list(by_method)
    options = {"include_in_schema": False, "status_code": 200, _HANDLES: by_method}
    return HTTPRouteHandler(path or "/", http_method=methods, **options)(handle)  # type: ignore[arg-type]  # Litestar types the list of methods narrowly


def _check_version(call: Call) -> None:
    for name in VERSION_HEADERS:
        value = call.header(name)
        if value is not None and value not in VERSIONS:
            raise UnsupportedVersion(name, value, VERSIONS)


def _respond(call: Call, answer: Answer) -> Response[bytes]:
    named = call.operation.area.request_headers(call.request_id)
    headers = {**_HEADERS, **named, **call.answer_headers, **answer.headers}
    if answer.body is None:
        return Response(b"", status_code=answer.status, headers=headers, media_type="")
    if isinstance(answer.body, AsyncIterator):
        return Streamed(answer.body, status_code=answer.status, headers=headers, media_type=answer.media_type)
    body = call.encode(answer.body)
    if call.operation.etag and answer.status in (200, 201) and call.operation.method in ("GET", "POST"):
        if "ETag" not in answer.headers:  # an answer that changes by itself, a running timer, brings its own
            tag = f'"{hashlib.sha256(body).hexdigest()}"'
            headers["ETag"] = tag if answer.status == 201 else f"W/{tag}"
        if call.operation.method == "GET" and _matches(call.header("if-none-match"), headers["ETag"]):
            headers |= call.unchanged() if call.unchanged is not None else {}
            return Response(b"", status_code=304, headers=headers, media_type="")
    return _written(body, answer, headers)


def _written(body: bytes, answer: Answer, headers: dict[str, str]) -> Response[bytes]:
    text = answer.media_type.startswith("text/")
    media_type = answer.media_type.removesuffix(_CHARSET) + _CHARSET if text else answer.media_type
    return Whole(body, status_code=answer.status, headers=headers, media_type=media_type)


def _matches(condition: str | None, tag: str) -> bool:
    """RFC 9110, 13.1.2: weak comparison."""
    if condition is None:
        return False
    named = [each.strip().removeprefix("W/") for each in condition.split(",")]
    return condition.strip() == "*" or tag.removeprefix("W/") in named


def _refuse(call: Call, problem: Problem, problem_page: ProblemPage | None) -> Response[bytes]:
    if problem_page is not None and _has_pages(call):
        call.answer_headers["Vary"] = "Accept"  # of the JSON too: a cache may keep either
    if problem_page is not None and _is_for_people(call):
        return _respond(call, problem_page(problem, call.request_id))
    documentation = f"{call.base.removesuffix(call.prefix)}/docs#{call.operation.name}"
    return _problem_response(problem, call.operation.area, call.request_id, documentation, call.answer_headers)


def _has_pages(call: Call) -> bool:
    """Whether a page may answer."""
    return call.operation.area is PAGES or (call.operation.for_people and not call.prefix)


def _is_for_people(call: Call) -> bool:
    """Whether a page answers. Where pages are everybody gets one but who asks for JSON."""
    return _has_pages(call) and prefers_page(call.header("accept"), otherwise=call.operation.area is PAGES)


def _problem_response(
    problem: Problem, area: Area, request_id: str, documentation_url: str, extra: dict[str, str] | None = None
) -> Response[bytes]:
    body = render(problem, area, request_id=request_id, documentation_url=documentation_url)
    headers = {**_HEADERS, **area.request_headers(request_id), **(extra or {}), **problem.headers}
    return Whole(
        json.encode(body),
        status_code=problem.status,
        headers=headers,
        media_type="application/json; charset=utf-8",
    )


def _outside(
    request: Request[Any, Any, Any],
    error: Exception,
    allowed: Callable[[str], list[str]],
    services: Services,
    problem_page: ProblemPage | None,
) -> Response[bytes]:
    """Errors before an operation was found: no such route, a wrong method, a Host that is none."""
    path: str = request.scope["path"]
    status = getattr(error, "status_code", 500)
    problem: Problem
    if isinstance(error, Problem):
        problem = error
    elif status == 405:
        methods = ", ".join(allowed(path))
        problem = MethodNotAllowed(f"This path takes {methods}.", headers={"Allow": methods})
    elif status == 413:
        problem = TooLarge("The request body is too large.")
    elif status == 404:
        problem = NotFound()
    elif status == 400:
        problem = Malformed("Problems parsing the request")
    else:
        problem = Problem(_FAILED)
    request_id = new_request_id()
    if problem.status == 500:
        log.error("request_failed", request_id=request_id, path=path, exc_info=error)
    else:
        request_log.note_refusal(problem, request_id=request_id, method=request.method, route="(none)")
    area = AREA_A if f"{path}/".startswith("/api/v1/") else AREA_B
    request_log.REQUESTS.labels(request.method, "(none)", problem.status).inc()
    of_the_api = f"/{path.lstrip('/')}/".startswith("/api/")
    accept = request.headers.get("accept")
    if problem_page is not None and not of_the_api and prefers_page(accept, otherwise=False):
        page = problem_page(problem, request_id)
        headers = {**_HEADERS, "X-Request-Id": request_id, "Vary": "Accept", **page.headers}
        assert isinstance(page.body, bytes), "pages are made at once"
        return _written(page.body, page, headers)
    documentation = f"{origin(request, services.settings.trust_proxy)}/docs"
    return _problem_response(problem, area, request_id, documentation, {} if of_the_api else {"Vary": "Accept"})


__all__ = ["Guard", "build"]
