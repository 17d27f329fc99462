"""No parameter is ignored: what an operation does not declare, or gets twice, is refused before its handler runs.

An operation that declares a body reads body and query with `parameters.read`, which names what it does not know. One
that declares none takes none, and of the query only what it declares; that is checked here, for all of them, by
`http.routing`. `Area.undeclared` says for which areas.
"""

from __future__ import annotations

from typing import Any

from workhook.core.errors import Fault, Invalid
from workhook.http import parameters
from workhook.http.calls import Call, repeated
from workhook.http.operations import Queries


async def refuse_undeclared(call: Call) -> None:
    """Raises `Invalid` that names every parameter which the operation does not declare, and `Malformed`, `TooLarge` or
    `UnsupportedMediaType` for a body that is no JSON object.

    In an area that ignores undeclared parameters only `Malformed` and `TooLarge` are raised.
    """
    rule, operation = call.operation.area.undeclared, call.operation
    if rule == "handler" or operation.body is not None:
        return
    refused = rule == "refused"
    body = await call.json_object(strict_type=refused, null=not refused) if _has_body(call) else {}
    if refused and (body or call.query):
        _refuse(call, body)


def _has_body(call: Call) -> bool:
    """RFC 9112, 6.3: a request has a body if it declares a length or an encoding of transfer."""
    return call.header("transfer-encoding") is not None or call.header("content-length") not in (None, "0")


def _refuse(call: Call, body: dict[str, Any]) -> None:
    declared = call.operation.query
    names = {each.name for each in declared}
    surplus = [name for name in call.query if name not in names]
    # What a struct declares is read by `parameters`, which tells of these itself.
    twice = [] if isinstance(declared, Queries) else [name for name in names if len(call.query.get(name, ())) > 1]
    if not body and not surplus and not twice:
        return
    if isinstance(declared, Queries):
        of_query = _faults_of_query(call, declared)
    else:
        of_query = [*map(repeated, sorted(twice)), *parameters.unknown(surplus)]
    raise Invalid(faults=[*parameters.unknown(body), *of_query])


def _faults_of_query(call: Call, declared: Queries) -> list[Fault]:
    """Everything that is wrong with the query: an answer names all faults at once."""
    try:
        parameters.gather(declared.shape, call.query, {})
    except Invalid as error:
        return list(error.faults)
    return []
