"""Routes, declared above their handlers.

    routes = Routes(WORK_API, "Columns", read="work.read", write="work.write")

    @routes.patch("/columns/{id}")
    async def edit_column(write: Write, column_id: str, edit: ColumnEdit) -> ColumnAnswer:
        \"\"\"Change or move a column.\"\"\"

The signature says the rest. The first parameter is the `Call` or, for a change, a context that is made for each
transaction (`WriteContext`); the handler of a change runs in one, once for each `Idempotency-Key`. A parameter of type
str or int is the part of the path that has its name; `…_id` may stand for `{id}`. `query` is read from the query
string, any other struct from the JSON body or the query string. The return type is the body of the answer: None is 204
without one, `Listed` a page of a list. The first paragraph of the docstring is the summary in the OpenAPI document, the
others are the description.

A handler that returns an `Answer` decides itself; its `answers` are declared beside the path, as is whatever else the
signature does not say (the fields of `Operation`).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Generic, Protocol, Self, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from workhook.http import parameters
from workhook.http.calls import Answer, Call
from workhook.http.operations import Area, Operation
from workhook.storage import Transaction

BUSY_TRIES = 20

B = TypeVar("B")
H = TypeVar("H", bound=Callable[..., Awaitable[object]])


class WriteContext(Protocol):
    """What the handler of a change works with."""

    @classmethod
    def for_call(cls, call: Call, tx: Transaction) -> Self: ...


class Listed(msgspec.Struct, Generic[B], frozen=True):
    """A page of a list, and the headers that lead to the next."""

    body: B
    headers: Mapping[str, str]


class Routes(Sequence[Operation]):
    """The operations of one area and tag, in the order in which they are declared.

    `read` and `write` name who may call a GET and anything else (`Operation.access`). A change that raises `again_on`
    is tried again, since others were faster at what it is about. `facts` are fields of every `Operation` here.
    """

    def __init__(
        self,
        area: Area,
        tag: str = "",
        *,
        read: str | None = None,
        write: str | None = None,
        again_on: type[Exception] | None = None,
        **facts: Any,
    ) -> None:
        self.area, self.read, self.write, self.again_on = area, read, write, again_on
        self.facts = {"tag": tag, **facts}
        self.operations: list[Operation] = []

    def __getitem__(self, index: Any) -> Any:
        return self.operations[index]

    def __len__(self) -> int:
        return len(self.operations)

    def get(self, path: str, **facts: Any) -> Callable[[H], H]:
        return self.route("GET", path, **{"access": self.read, **facts})

    def post(self, path: str, **facts: Any) -> Callable[[H], H]:
        return self.route("POST", path, **facts)

    def put(self, path: str, **facts: Any) -> Callable[[H], H]:
        return self.route("PUT", path, **facts)

    def patch(self, path: str, **facts: Any) -> Callable[[H], H]:
        return self.route("PATCH", path, **facts)

    def delete(self, path: str, **facts: Any) -> Callable[[H], H]:
        return self.route("DELETE", path, **facts)

    def route(
        self, method: str, path: str, *, status: int = 200, again_on: type[Exception] | None = None, **facts: Any
    ) -> Callable[[H], H]:
        """Declare the function below. `facts` are fields of `Operation`, `status` that of the answer."""

        def declare(function: H) -> H:
            said = {"access": self.write, **self.facts, **_facts_of(function, path, status), **facts}
            handler = _handler_of(function, path, status, again_on or self.again_on)
            self.operations.append(Operation(self.area, method, path, handler, **said))
            return function

        return declare


def _facts_of(function: Callable[..., Any], path: str, status: int) -> dict[str, Any]:
    """What name, docstring and signature say of the operation."""
    summary, _, description = (inspect.getdoc(function) or "").partition("\n\n")
    facts: dict[str, Any] = {
        "name": getattr(function, "__name__", ""),
        "summary": _one_line(summary).removesuffix("."),
        "description": "\n\n".join(map(_one_line, description.split("\n\n"))),
        "path_types": {part: "integer" for _, part, kind in _parts_of_path(function, path) if kind is int},
    }
    for name, kind in _structs(function):
        if name == "query":
            facts["query"] = parameters.documented(kind)
        else:
            facts |= {"body": kind, "query": parameters.documented(kind, or_body=True)}
    answer = get_type_hints(function, include_extras=True)["return"]
    if answer is type(None):
        facts["answers"] = {204: None}
    elif answer is not Answer:
        facts["answers"] = {status: get_args(answer)[0] if get_origin(answer) is Listed else answer}
    return facts


def _one_line(paragraph: str) -> str:
    return " ".join(paragraph.split())


def _parameters(function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Names and types of all parameters but the first."""
    hints = get_type_hints(function, include_extras=True)
    yield from [(name, hints[name]) for name in inspect.signature(function).parameters][1:]


def _parts_of_path(function: Callable[..., Any], path: str) -> list[tuple[str, str, Any]]:
    """Parameter, part of the path and type of each parameter that the path gives."""
    parts = re.findall(r"\{(\w+)\}", path)
    found = []
    for name, kind in _parameters(function):
        if kind in (str, int):
            part = name if name in parts else "id"
            assert part in parts, f"{path} has no part {name}"
            assert part == name or name.endswith("_id"), f"{name} is not the id in {path}"
            found.append((name, part, kind))
    return found


def _structs(function: Callable[..., Any]) -> list[tuple[str, Any]]:
    return [(name, kind) for name, kind in _parameters(function) if kind not in (str, int)]


def _handler_of(
    function: Callable[..., Any], path: str, status: int, again_on: type[Exception] | None
) -> Callable[[Call], Awaitable[Answer]]:
    first, *_ = inspect.signature(function).parameters
    context = get_type_hints(function)[first]
    parts, structs = _parts_of_path(function, path), _structs(function)

    async def arguments(call: Call) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, kind in structs:
            found[name] = parameters.read_query(call, kind) if name == "query" else await parameters.read(call, kind)
        for name, part, kind in parts:
            found[name] = call.path_integer(part) if kind is int else call.path(part)
        return found

    async def read(call: Call) -> Answer:
        return _answer(await function(call, **await arguments(call)), status)

    async def write(call: Call) -> Answer:
        given = await arguments(call)

        async def change(tx: Transaction) -> Answer:
            return _answer(await function(context.for_call(call, tx), **given), status)

        if again_on is not None:
            for _ in range(BUSY_TRIES - 1):
                with suppress(again_on):
                    return await call.write(change)
        return await call.write(change)

    if context is Call:
        return function if not (parts or structs) and get_type_hints(function)["return"] is Answer else read
    return write


def _answer(result: object, status: int) -> Answer:
    match result:
        case Answer():
            return result
        case Listed():
            return Answer(result.body, headers=result.headers)
        case None:
            return Answer(status=204)
    return Answer(result, status)
