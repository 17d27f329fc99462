"""The OpenAPI 3.1 document, made from the operations; and the pages that show it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import Any

import msgspec

from workhook import __version__
from workhook.core import json
from workhook.http.calls import Answer, Call
from workhook.http.operations import AREA_B, SYSTEM, Operation, Query
from workhook.http.problems import EnvelopeProblem, GithubProblem

_REF = "#/components/schemas/{name}"
_RETRY_AFTER = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "string"}}}
_VERSION_HEADER = {
    "name": "X-Service-Api-Version",
    "in": "header",
    "required": False,
    "description": "The version of the interface that the client was written for.",
    "schema": {"type": "string", "enum": ["2022-11-28", "2026-03-10"]},
}


def document(operations: Sequence[Operation]) -> dict[str, Any]:
    """The document of every operation, at its first prefix."""
    types = [each for op in operations for each in (op.body, *op.answers.values()) if _is_type(each)]
    types += [GithubProblem, EnvelopeProblem]
    unique = list({repr(each): each for each in types}.values())
    schemas, components = msgspec.json.schema_components(unique, ref_template=_REF)
    by_type = {repr(each): schema for each, schema in zip(unique, schemas, strict=True)}

    def schema_of(wanted: Any) -> Mapping[str, Any]:
        return by_type[repr(wanted)] if _is_type(wanted) else wanted

    paths: dict[str, dict[str, Any]] = {}
    for op in operations:
        paths.setdefault(op.area.prefixes[0] + op.path, {})[op.method.lower()] = _operation(op, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Workhook",
            "version": __version__,
            "summary": "Work management in which every change is a signed, stored, replayable webhook.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
        "tags": [{"name": tag} for tag in dict.fromkeys(op.tag for op in operations if op.tag)],
    }


def _is_type(value: Any) -> bool:
    return value is not None and not isinstance(value, Mapping)


def _operation(op: Operation, schema_of: Any) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "operationId": op.name,
        "summary": op.summary,
        "tags": [op.tag] if op.tag else [],
        "parameters": _parameters(op),
        "responses": _responses(op, schema_of),
    }
    if op.description:
        shown["description"] = op.description
    if op.body is not None:
        shown["requestBody"] = {
            "required": op.body_required,
            "content": {"application/json": {"schema": schema_of(op.body)}},
        }
    if op.access is not None:
        shown["security"] = [{"bearer": []}]
    return shown


def _parameters(op: Operation) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = []
    for name in re.findall(r"\{(\w+)\}", op.path):
        integer = op.path_types.get(name) == "integer"
        schema: dict[str, Any] = {"type": "integer", "minimum": 1} if integer else {"type": "string", "minLength": 1}
        shown.append({"name": name, "in": "path", "required": True, "schema": schema})
    shown += [_query(each) for each in op.query]
    if op.area.versioned:
        shown.append(_VERSION_HEADER)
    return shown


def _query(query: Query) -> dict[str, Any]:
    return {
        "name": query.name,
        "in": "query",
        "required": query.required,
        "description": query.description,
        "schema": dict(query.schema),
    }


def _responses(op: Operation, schema_of: Any) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, body in op.answers.items():
        answer: dict[str, Any] = {"description": HTTPStatus(status).phrase}
        if body is not None:
            answer["content"] = {op.media_type: {"schema": schema_of(body)}}
        responses[str(status)] = answer
    problem = schema_of(EnvelopeProblem if op.area.style == "envelope" else GithubProblem)
    for status in _problems(op):
        if str(status) not in responses:
            responses[str(status)] = {
                "description": HTTPStatus(status).phrase,
                "content": {"application/json": {"schema": problem}},
                **({"headers": _RETRY_AFTER} if status in (429, 503) else {}),
            }
    if op.etag and op.method == "GET" and op.area is not SYSTEM:
        responses["304"] = {"description": HTTPStatus.NOT_MODIFIED.phrase}
    return dict(sorted(responses.items()))


def _problems(op: Operation) -> set[int]:
    """What the operation itself names, and what every one of its kind can answer."""
    found = set(op.problems)
    if op.area is SYSTEM:
        return found
    found |= {400, 401, 503}  # an unreadable query or version; a token that is not good; no database
    found |= {403} if op.area is AREA_B else {429}  # the request limit
    if op.access is not None:
        found.add(403)
    if "{" in op.path:
        found.add(404)
    return found


@cache
def docs_page() -> bytes:
    """One page without a network: it reads `/openapi.json` from this server."""
    return files("workhook.http").joinpath("docs.html").read_bytes()


def operations(areas: Sequence[Operation]) -> tuple[Operation, ...]:
    """`/openapi.json` and `/docs`, for the given operations."""
    rendered: list[bytes] = []

    async def openapi(call: Call) -> Answer:
        if not rendered:
            rendered.append(json.encode(document([*areas, *own])))
        return Answer(rendered[0])

    async def docs(call: Call) -> Answer:
        policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'"
        return Answer(docs_page(), media_type="text/html; charset=utf-8", headers={"Content-Security-Policy": policy})

    own = (
        Operation(
            SYSTEM, "GET", "/openapi.json", openapi, "openapi", "This document", None, "system",
            answers={200: {"type": "object"}}, etag=False,
        ),
        Operation(
            SYSTEM, "GET", "/docs", docs, "docs", "This document as a page", None, "system",
            answers={200: {"type": "string"}}, media_type="text/html", etag=False,
        ),
    )  # fmt: skip
    return own
