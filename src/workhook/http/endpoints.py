"""Routes, declared with decorators on their handlers.

    routes = Routes(WORK_API, "Columns")

    @routes.patch("/columns/{id}")
    async def edit_column(write: Write, column_id: str, edit: ColumnEdit) -> ColumnAnswer:
        \"\"\"Change or move a column.\"\"\"

The rest follows from the signature. The first parameter is the `Call` or, for a change, a context created with
`for_call` of its class for each transaction. The handler of a change runs in a transaction, once per
`Idempotency-Key`. A parameter of type str or int is the path parameter with its name; `…_id` may also stand for
`{id}`. `query` is read from the query string, and a `Page` from its `page` and `per_page`. Any other struct is read
from the JSON body or, in the work API, from the query string. The return type is the response body: None is 204 without
a body, `Listed` and `Paged` are a page of a list, and `Created` is 201. The docstring's first paragraph is the summary
in the OpenAPI document, and the rest is the description.

A handler that returns a `Response` builds the response itself. Its `answers` are declared in the decorator, like
everything else that the signature does not express (the fields of `Operation`).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from workhook.http import idempotency, parameters
from workhook.http.calls import Call, Response
from workhook.http.lists import PAGING, page_link, page_of
from workhook.http.operations import WORK_API, Area, Operation
from workhook.storage import Transaction
from workhook.storage.pages import Page

B = TypeVar("B")
R = TypeVar("R")
H = TypeVar("H", bound=Callable[..., Awaitable[object]])


class Listed(msgspec.Struct, Generic[B], frozen=True):
    """A page of a list, and the headers that link to the next one."""

    body: B
    headers: Mapping[str, str]


class Paged(msgspec.Struct, Generic[B], frozen=True):
    """The requested `Page` of a list, and the number of results on all pages."""

    body: B
    total: int


class Created(msgspec.Struct, Generic[B], frozen=True):
    """A new resource, its URL and further headers."""

    body: B
    location: str
    headers: Mapping[str, str] = {}


class EmptyObject(msgspec.Struct):
    """An empty object, because clients parse the response as JSON."""


class Retry(NamedTuple):
    """A policy that repeats a change that raises `error`, up to `tries` attempts in all."""

    error: type[Exception]
    tries: int = 2

    async def of(self, run: Callable[[], Awaitable[R]]) -> R:
        for _ in range(self.tries - 1):
            with suppress(self.error):
                return await run()
        return await run()


class RouteDecorators:
    def get(self, path: str, **facts: Any) -> Callable[[H], H]:
        return self.route("GET", path, **facts)

    def post(self, path: str, **facts: Any) -> Callable[[H], H]:
        return self.route("POST", path, **facts)

    def put(self, path: str, **facts: Any) -> Callable[[H], H]:
        return self.route("PUT", path, **facts)

    def patch(self, path: str, **facts: Any) -> Callable[[H], H]:
        return self.route("PATCH", path, **facts)

    def delete(self, path: str, **facts: Any) -> Callable[[H], H]:
        return self.route("DELETE", path, **facts)

    def route(self, method: str, path: str, **facts: Any) -> Callable[[H], H]:
        raise NotImplementedError


class Routes(Sequence[Operation], RouteDecorators):
    """The operations of one area and tag, in the order of their declaration.

    `read` and `write` override the access of the area. `retry` states which changes are retried. `resource` is the name
    of request bodies in faults, and `facts` are fields of every `Operation` here.
    """

    def __init__(
        self,
        area: Area,
        tag: str = "",
        *,
        read: str | None = None,
        write: str | None = None,
        retry: Retry | None = None,
        resource: str | None = None,
        **facts: Any,
    ) -> None:
        self.area, self.retry = area, retry
        self.read, self.write = read or area.read, write or area.write
        self.facts = {"tag": tag, **facts}
        self.resource = resource
        self.operations: list[Operation] = []

    def __getitem__(self, index: Any) -> Any:
        return self.operations[index]

    def __len__(self) -> int:
        return len(self.operations)

    def route(
        self,
        method: str,
        path: str,
        *,
        status: int = 200,
        retry: Retry | None = None,
        resource: str | None = None,
        called: str = "",
        **facts: Any,
    ) -> Callable[[H], H]:
        """Declare the decorated function. `facts` are fields of `Operation`, and `status` is that of the response."""

        def declare(function: H) -> H:
            values: dict[str, Any] = {"access": self.read if method == "GET" else self.write, **self.facts}
            signature = _signature_of(function, path)
            values |= _facts_of(function, signature, self.area, status) | facts
            if any(kind is Page for _, kind in signature.structs):
                values["query"] = (*facts.get("query", ()), *PAGING)
            for text in ("summary", "description"):
                values[text] = values[text].replace("{called}", called)
            again, thing = retry or self.retry, resource or self.resource
            handler = _handler_of(function, signature, self.area, status, again, thing)
            self.operations.append(Operation(self.area, method, path, handler, **values))
            return function

        return declare


class RoutesPerKind(RouteDecorators):
    """A decorator factory that declares each function once per kind of resource.

    A kind consists of its `Routes`, the start of its paths, the prefix of its operation names, and the text for
    `{called}` in texts and facts. A fact may be a function of that text.
    """

    def __init__(self, *kinds: tuple[Routes, str, str, str]) -> None:
        self.kinds = kinds

    def route(self, method: str, path: str, **facts: Any) -> Callable[[H], H]:
        def declare(function: H) -> H:
            for routes, root, prefix, called in self.kinds:
                own = {name: each.format(called=called) for name, each in facts.items() if isinstance(each, str)}
                own |= {name: each(called) for name, each in facts.items() if inspect.isfunction(each)}
                name = f"{prefix}_{getattr(function, '__name__', '')}"
                routes.route(method, root + path, **{"name": name, **facts, **own}, called=called)(function)
            return function

        return declare


class _Signature(NamedTuple):
    """The parts of a handler's signature.

    `parts` contains parameter name, path parameter and type; `structs` has the other parameters.
    """

    context: Any
    parts: Sequence[tuple[str, str, Any]]
    structs: Sequence[tuple[str, Any]]
    answer: Any


def _signature_of(function: Callable[..., Any], path: str) -> _Signature:
    hints = get_type_hints(function, include_extras=True)
    first, *others = inspect.signature(function).parameters
    of_path = re.findall(r"\{(\w+)\}", path)
    parts = []
    for name in others:
        if hints[name] in (str, int):
            part = name if name in of_path else "id"
            assert part in of_path, f"{path} has no part {name}"
            assert part == name or name.endswith("_id"), f"{name} is not the id in {path}"
            parts.append((name, part, hints[name]))
    structs = [(name, hints[name]) for name in others if hints[name] not in (str, int)]
    return _Signature(hints[first], parts, structs, hints["return"])


def _facts_of(function: Callable[..., Any], signature: _Signature, area: Area, status: int) -> dict[str, Any]:
    summary, _, description = (inspect.getdoc(function) or "").partition("\n\n")
    facts: dict[str, Any] = {
        "name": getattr(function, "__name__", ""),
        "summary": " ".join(summary.split()).removesuffix("."),
        "description": "\n\n".join(" ".join(each.split()) for each in description.split("\n\n")),
        "path_types": {part: "integer" for _, part, kind in signature.parts if kind is int},
    }
    for name, kind in signature.structs:
        if name == "query":
            facts["query"] = parameters.documented(kind)
        elif kind is not Page:
            facts["body"] = kind
            if area.undeclared == "refused":  # the query string may contain the fields of the body
                facts["query"] = parameters.documented(kind, or_body=True)
            else:
                facts["body_required"] = any(field.required for field in msgspec.structs.fields(kind))
    answer = signature.answer
    if answer is type(None):
        facts["answers"] = {204: None}
    elif answer is not Response:
        wrapper = get_origin(answer)
        body = get_args(answer)[0] if wrapper in (Listed, Paged, Created) else answer
        facts["answers"] = {201 if wrapper is Created else status: body}
    return facts


def _handler_of(
    function: Callable[..., Any],
    signature: _Signature,
    area: Area,
    status: int,
    retry: Retry | None,
    resource: str | None,
) -> Callable[[Call], Awaitable[Response]]:
    context, parts, structs, answer = signature
    # Parameters with slow work that must precede the transaction of the change.
    prepared = [name for name, kind in structs if hasattr(kind, "prepare")]

    async def arguments(call: Call) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, kind in structs:
            if kind is Page:
                found[name] = page_of(call)
            elif name == "query":
                found[name] = parameters.gather(kind, call.query, {})
            else:
                in_query = area.undeclared == "refused"  # the query string may contain the fields of the body
                body = await call.json_object(strict_type=in_query)
                found[name] = parameters.gather(kind, call.query if in_query else {}, body, resource=resource)
        for name in prepared:
            await found[name].prepare()
        for name, part, kind in parts:
            found[name] = call.path_integer(part) if kind is int else call.path(part)
        return found

    async def read(call: Call) -> Response:
        values = await arguments(call)
        return _answer(call, await function(call, **values), values, status)

    async def write(call: Call) -> Response:
        values = await arguments(call)

        async def change(tx: Transaction) -> Response:
            return _answer(call, await function(context.for_call(call, tx), **values), values, status)

        # Only the work API supports `Idempotency-Key`.
        run = partial(idempotency.write, call) if area is WORK_API else call.database.in_transaction
        return await (run(change) if retry is None else retry.of(partial(run, change)))

    if context is Call:
        return function if not (parts or structs) and answer is Response else read
    return write


def _answer(call: Call, result: object, values: Mapping[str, Any], status: int) -> Response:
    match result:
        case Response():
            return result
        case Listed():
            return Response(result.body, headers=result.headers)
        case Paged():
            page = next(each for each in values.values() if isinstance(each, Page))
            return Response(result.body, headers=page_link(call, page, result.total))
        case Created():
            return Response(result.body, 201, {"Location": result.location, **result.headers})
        case None:
            return Response(status=204)
    return Response(result, status)
