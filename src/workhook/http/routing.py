"""The ASGI application for operations: request IDs, versions, authentication, ETags, problems and metrics."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import structlog
from prometheus_client import Counter, Histogram

from workhook.core import json, tracing
from workhook.core.config import Settings
from workhook.core.errors import Fault, Invalid, Malformed, MethodNotAllowed, NotFound, Problem
from workhook.http import parameters, request_log
from workhook.http.calls import (
    Call,
    Response,
    Services,
    address_of,
    begin,
    is_host,
    names_tag,
    origin,
    repeated,
    request_id_of,
    tag_of,
)
from workhook.http.messages import (
    ClientGone,
    EncodedResponse,
    Receive,
    Request,
    Scope,
    Send,
    Streamed,
)
from workhook.http.negotiation import prefers_page
from workhook.http.operations import (
    PAGES,
    PLACES,
    VERSION_HEADERS,
    VERSIONS,
    WEBHOOK_API,
    WORK_API,
    Area,
    Operation,
    Queries,
)
from workhook.http.problems import UnsupportedVersion, render

_HEADERS = {"X-Content-Type-Options": "nosniff"}  # in every response
_CHARSET = "; charset=utf-8"
_SERVER_FAILED = 500
_FAILED = "The server failed. Its log contains the cause, under the request ID."

Authenticator = Callable[[Call], Awaitable[None]]  # called again for a call whose body arrived slowly
Refused = Callable[[Call, Problem], None]  # receives every problem of an operation, however the response shows it
ProblemPage = Callable[[Problem, str], Response]  # receives the request ID; for browsers, never under /api
Reply = EncodedResponse | Streamed

log = structlog.get_logger(__name__)

Target = TypeVar("Target")


async def _lead_nowhere(call: Call) -> Response:
    raise NotFound()


_NOWHERE = Operation(PAGES, "GET", "(none)", _lead_nowhere, "nowhere", "", None)  # for requests that match no operation


class AsgiApp:
    """The ASGI application. It passes each request to the operation of its path and method."""

    def __init__(
        self,
        operations: Sequence[Operation],
        services: Callable[[], Services],
        authenticator: Authenticator,
        *,
        refused: Refused = lambda call, problem: None,
        problem_page: ProblemPage | None = None,
    ) -> None:
        """Create the application. `services` is called per request, so the database may open after the routes exist."""
        self.services, self.authenticator = services, authenticator
        self.refused, self.problem_page = refused, problem_page
        self._routes = PathTree[_Endpoint]()
        for each in operations:
            for prefix in each.area.prefixes:
                endpoint = _Endpoint(each, prefix, self)
                for method in ("GET", "HEAD") if each.method == "GET" and each.head else (each.method,):
                    self._routes.add(prefix + each.path, method, endpoint)
        self._places = frozenset(each.path for each in operations if each.area is PLACES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http", "a server that asks for more goes on without it"
        request = Request(scope, receive)
        try:
            reply = await self._answer(request)
        except Exception as error:  # noqa: BLE001  # reported by the code that responds
            log.debug("request_not_routed", error=repr(error))
            reply = _outside(request, error, self.services(), self.problem_page)
        await reply(scope, receive, send)

    async def _answer(self, request: Request) -> Reply:
        """Handle a request. Raises the errors of its operation, and a `Problem` if it matches none."""
        host = request.headers.get("host")
        if host is not None and not is_host(host):
            raise Malformed("Problems parsing the request")
        found = self._routes.find(request.scope["path"])
        if found is None or (found[0].path in self._places and not _is_browser(request)):
            raise NotFound()
        route, request.path_params, path = found
        endpoint = route.targets.get(request.method)
        if endpoint is not None:
            request.scope["path"] = path
            return await endpoint.handle(request)
        if request.method == "OPTIONS":
            return _options(request, route, self.services().settings)
        methods = route.methods()
        raise MethodNotAllowed(f"This path accepts {methods}.", headers={"Allow": methods})


class _Endpoint:
    """An operation at one of its paths. There are hundreds of them, so each one is small."""

    __slots__ = ("_answered", "_app", "_operation", "_prefix", "_route", "_seconds")

    def __init__(self, operation: Operation, prefix: str, app: AsgiApp) -> None:
        self._operation, self._prefix, self._app = operation, prefix, app
        self._route = prefix + operation.path
        # Looked up once, but not before the first request, so that `/metrics` lists only requested routes.
        self._answered: dict[int, Counter] | None = None
        self._seconds: Histogram | None = None

    async def handle(self, request: Request) -> Reply:
        started = time.perf_counter()
        operation, problem_page = self._operation, self._app.problem_page
        services = self._app.services()
        call = Call(request, operation, services, request_id_of(request, services.settings), self._prefix)
        begin(call)
        span = tracing.begin_request(operation.method, self._route, request.headers.get(tracing.HEADER))
        try:
            await self._check(call)
            for name in VERSION_HEADERS if operation.area.versioned else ():
                if (version := call.header(name)) is not None and version not in VERSIONS:
                    raise UnsupportedVersion(name, version)
            if operation.body is None and operation.area.undeclared != "handler":
                await _refuse_undeclared(call)
            answer = await operation.handler(call)
            if call.refused is not None:
                self._note_refused(call, call.refused)
            response = _respond(call, answer)
        except Problem as problem:
            self._note_refused(call, problem)
            response = _refuse(call, problem, problem_page)
        except ClientGone:
            response = _refuse(call, Malformed("The request ended before its body was complete."), None)
        except Exception:
            log.exception("request_failed", request_id=call.request_id, route=self._route, method=operation.method)
            response = _refuse(call, Problem(_FAILED), problem_page)
        seconds = time.perf_counter() - started
        if self._answered is None or self._seconds is None:
            self._answered, self._seconds = {}, request_log.REQUEST_SECONDS.labels(operation.method, self._route)
        if (answered := self._answered.get(response.status)) is None:
            answered = request_log.REQUESTS.labels(operation.method, self._route, response.status)
            self._answered[response.status] = answered
        answered.inc()
        self._seconds.observe(seconds)
        request_log.record_request(request, services.settings, call.request_id, self._route, response.status, seconds)
        if span is not None:
            span.end(response.status, error=str(response.status) if response.status >= _SERVER_FAILED else None)
        return response

    async def _check(self, call: Call) -> None:
        await self._app.authenticator(call)
        # A bound method without the call, because a cycle would keep the body in memory until the next garbage
        # collection.
        call.checked_at_s, call.recheck = time.monotonic(), self._check

    def _note_refused(self, call: Call, problem: Problem) -> None:
        self._app.refused(call, problem)
        method = self._operation.method
        request_log.record_refusal(
            problem, request_id=call.request_id, method=method, route=self._route, address=call.address
        )


def _is_browser(request: Request) -> bool:
    """Return whether a browser sent the request: it prefers HTML or has a session cookie."""
    is_from_page = "workhook_session=" in request.headers.get("cookie", "")
    return is_from_page or prefers_page(request.headers.get("accept"), otherwise=False)


def _options(request: Request, route: Route[_Endpoint], settings: Settings) -> EncodedResponse:
    """Respond with the methods of a path, without authentication."""
    request_log.REQUESTS.labels("OPTIONS", route.path, 204).inc()
    request_id = request_id_of(request, settings)
    request_log.record_request(request, settings, request_id, route.path, 204)
    return EncodedResponse(b"", status=204, headers={**_HEADERS, "X-Request-Id": request_id, "Allow": route.methods()})


async def _refuse_undeclared(call: Call) -> None:
    """Reject parameters that an operation does not declare or that are repeated, before its handler runs.

    An operation with a body reads body and query with `parameters.gather`, which reports unknown names. The others have
    no body and only their declared query parameters. `Area.undeclared` determines the areas that reject them.

    Raises `Invalid` listing every such parameter, and `Malformed`, `TooLarge` or `UnsupportedMediaType` for a body that
    is not a JSON object. In an area that ignores undeclared parameters, raises only `Malformed` and `TooLarge`.
    """
    refused = call.operation.area.undeclared == "refused"
    # RFC 9112, 6.3: a request has a body if it declares a length or a transfer encoding.
    has_body = call.header("transfer-encoding") is not None or call.header("content-length") not in (None, "0")
    body = await call.json_object(strict_type=refused, null=not refused) if has_body else {}
    if not refused or not (body or call.query):
        return
    declared = call.operation.query
    names = {each.name for each in declared}
    surplus = [name for name in call.query if name not in names]
    of_query: Sequence[Fault] = ()
    if not isinstance(declared, Queries):
        twice = sorted(name for name in names if len(call.query.get(name, ())) > 1)
        of_query = [*map(repeated, twice), *parameters.unknown(surplus)]
    elif body or surplus:
        try:
            parameters.gather(declared.shape, call.query, {})
        except Invalid as error:  # one response reports all faults
            of_query = error.faults
    if body or of_query:
        raise Invalid(faults=[*parameters.unknown(body), *of_query])


def _respond(call: Call, answer: Response) -> Reply:
    named = call.operation.area.request_headers(call.request_id)
    headers = {**_HEADERS, **named, **_joined_vary(call.answer_headers, answer.headers)}
    if answer.body is None:
        return EncodedResponse(b"", status=answer.status, headers=headers)
    if isinstance(answer.body, AsyncIterator):
        return Streamed(answer.body, status=answer.status, headers=headers, media_type=_media_type(answer))
    body = call.encode(answer.body)
    if call.operation.etag and answer.status in (200, 201) and call.operation.method in ("GET", "POST"):
        if "ETag" not in answer.headers:  # a response that changes by itself (a running timer) has its own
            tag = tag_of(body)
            headers["ETag"] = tag if answer.status == 201 else f"W/{tag}"
        if call.operation.method == "GET" and names_tag(call.header("if-none-match"), headers["ETag"]):
            headers |= call.unchanged() if call.unchanged is not None else {}
            return EncodedResponse(b"", status=304, headers=headers)
    return EncodedResponse(body, status=answer.status, headers=headers, media_type=_media_type(answer))


def _joined_vary(first: Mapping[str, str], then: Mapping[str, str]) -> dict[str, str]:
    """Merge the headers. The second mapping wins, but `Vary` lists everything either depends on."""
    vary = dict.fromkeys(each["Vary"] for each in (first, then) if "Vary" in each)
    return {**first, **then, **({"Vary": ", ".join(vary)} if vary else {})}


def _media_type(answer: Response) -> str:
    text = answer.media_type.startswith("text/")
    return answer.media_type.removesuffix(_CHARSET) + _CHARSET if text else answer.media_type


def _refuse(call: Call, problem: Problem, problem_page: ProblemPage | None) -> Reply:
    operation = call.operation
    if problem_page is not None and (operation.area.style == "page" or (operation.for_people and not call.prefix)):
        call.answer_headers["Vary"] = "Accept"  # on the JSON too, because caches may store either
        if prefers_page(call.header("accept"), otherwise=operation.area.style == "page"):
            return _respond(call, problem_page(problem, call.request_id))
    documentation = f"{call.base.removesuffix(call.prefix)}/docs#{call.operation.name}"
    return _problem_response(problem, call.operation.area, call.request_id, documentation, call.answer_headers)


def _problem_response(
    problem: Problem, area: Area, request_id: str, documentation_url: str, extra: dict[str, str] | None = None
) -> EncodedResponse:
    body = render(problem, area, request_id=request_id, documentation_url=documentation_url)
    headers = {**_HEADERS, **area.request_headers(request_id), **(extra or {}), **problem.headers}
    return EncodedResponse(
        json.encode(body), status=problem.status, headers=headers, media_type="application/json; charset=utf-8"
    )


def _outside(request: Request, error: Exception, services: Services, problem_page: ProblemPage | None) -> Reply:
    """Respond to a request that no operation handled: unknown route, wrong method, invalid Host or server fault."""
    path: str = request.scope["path"]
    problem = error if isinstance(error, Problem) else Problem(_FAILED)
    request_id, address = request_id_of(request, services.settings), address_of(request, services.settings)
    if problem.status == 500:
        log.error("request_failed", request_id=request_id, path=path, exc_info=error)
    else:
        request_log.record_refusal(
            problem, request_id=request_id, method=request.method, route="(none)", address=address
        )
    request_log.record_request(request, services.settings, request_id, "(none)", problem.status)
    area = WORK_API if f"{path}/".startswith("/api/v1/") else WEBHOOK_API
    request_log.REQUESTS.labels(request.method, "(none)", problem.status).inc()
    of_the_api = f"/{path.lstrip('/')}/".startswith("/api/")
    accept = request.headers.get("accept")
    if problem_page is not None and not of_the_api and prefers_page(accept, otherwise=False):
        call = Call(request, _NOWHERE, services, request_id, "", answer_headers={"Vary": "Accept"})
        begin(call)  # makes the page use the reader's language
        page = problem_page(problem, request_id)
        assert isinstance(page.body, bytes), "pages are made at once"
        return _respond(call, page)
    documentation = f"{origin(request, services.settings.trust_proxy)}/docs"
    return _problem_response(problem, area, request_id, documentation, {} if of_the_api else {"Vary": "Accept"})


# --- the tree of routes by path ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class Route(Generic[Target]):
    """A path with `{names}`, and its target for each method."""

    path: str
    targets: dict[str, Target] = field(default_factory=dict)
    parts: list[str] = field(init=False)
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.parts = split(self.path)
        self.names = tuple(part[1:-1] for part in self.parts if part.startswith("{"))

    def methods(self) -> str:
        """Return the methods of the path for an `Allow` header. OPTIONS is always allowed."""
        return ", ".join(sorted({*self.targets, "OPTIONS"}))


@dataclass(slots=True)
class _Node(Generic[Target]):
    written: dict[str, _Node[Target]] = field(default_factory=dict)
    parameter: _Node[Target] | None = None
    route: Route[Target] | None = None


class PathTree(Generic[Target]):
    """Routes by path. Duplicate and trailing slashes are ignored.

    A path without parameters takes precedence over all others. Among the rest, a literal segment takes precedence over
    a parameter, whatever follows it.
    """

    def __init__(self) -> None:
        self._plain: dict[str, Route[Target]] = {}
        self._root: _Node[Target] = _Node()

    def add(self, path: str, method: str, target: Target) -> None:
        new = Route[Target](path)
        route = self._add_parts(new) if new.names else self._plain.setdefault("/" + "/".join(new.parts), new)
        assert method not in route.targets, f"a second {method} {path}"
        route.targets[method] = target

    def _add_parts(self, new: Route[Target]) -> Route[Target]:
        node = self._root
        for part in new.parts:
            if part.startswith("{"):
                node.parameter = node.parameter or _Node()
                node = node.parameter
            else:
                node = node.written.setdefault(part, _Node())
        node.route = node.route or new
        assert node.route.path == new.path, f"{new.path} is {node.route.path} by another name"
        return node.route

    def find(self, path: str) -> tuple[Route[Target], dict[str, str], str] | None:
        """Return the route, the values of its parameters, and the path without surplus slashes."""
        parts = split(path)
        path = "/" + "/".join(parts)
        if (plain := self._plain.get(path)) is not None:
            return plain, {}, path
        node = self._root
        values = []
        for part in parts:
            if (following := node.written.get(part)) is None:
                following = node.parameter
                values.append(part)
            if following is None:
                return None
            node = following
        return None if node.route is None else (node.route, dict(zip(node.route.names, values, strict=True)), path)


def split(path: str) -> list[str]:
    return [part for part in path.split("/") if part]
