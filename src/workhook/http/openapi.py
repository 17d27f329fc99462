"""The OpenAPI 3.1 document, generated from the operations. The page `/docs` displays it (`web/docs`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from workhook import __version__
from workhook.core import json
from workhook.http import openapi_parts, openapi_text
from workhook.http.calls import Call, Response, origin
from workhook.http.endpoints import Routes
from workhook.http.negotiation import ENCODINGS, chosen_encoding, compressed
from workhook.http.openapi_parts import Schema, Schemas
from workhook.http.operations import OAUTH, SYSTEM, Area, Operation, is_for_programs
from workhook.http.problems import WebhookProblem, WorkProblem, render

_ORIGIN = "http://workhook.invalid"  # placeholder for the server's origin, replaced in each response
_KEPT_MAX = 8  # copies of the document, by host and encoding


@dataclass(frozen=True)
class Requirement:
    """The rights that an operation requires. A token needs one of the `scopes`; without scopes any token is accepted.

    `permission` is the permission and level required of other tokens. `scheme` is the document's security scheme that
    carries the credentials.
    """

    scopes: tuple[str, ...]
    text: str
    scheme: str = "bearer"
    permission: tuple[str, str] | None = None


RequirementOf = Callable[[str], Requirement]


def document(operations: Sequence[Operation], access_of: RequirementOf) -> dict[str, Any]:
    """Describe every operation except pages, at the first prefix of its area.

    `access_of` explains `Operation.access`.
    """
    operations = [op for op in operations if is_for_programs(op.area)]
    answers = [each for op in operations for each in op.answers.values()]
    schemas = Schemas([WebhookProblem, WorkProblem, *answers], [op.body for op in operations])
    paths: dict[str, dict[str, Any]] = {}
    for op in operations:
        item = paths.setdefault(op.area.prefixes[0] + op.path, {})
        if len(op.area.prefixes) > 1:
            item["servers"] = [{"url": _ORIGIN + prefix} for prefix in op.area.prefixes]
        item[op.method.lower()] = _operation(op, schemas, access_of)
    used = {op.tag: None for op in operations if op.tag}
    tags = dict.fromkeys([*(tag for tag in openapi_text.TAGS if tag in used), *used])  # in the order of the text
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Workhook",
            "version": __version__,
            "summary": openapi_text.SUMMARY,
            "description": openapi_text.DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": _ORIGIN}],
        "tags": [{"name": tag, "description": openapi_text.TAGS.get(tag, tag)} for tag in tags],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.components.items())),
            "headers": openapi_parts.HEADERS,
            "parameters": openapi_parts.SHARED_PARAMETERS,
            "responses": _problem_responses(operations, schemas),
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token: `Authorization: Bearer whp_…`. The roles of a requirement are "
                    "scopes; one of them is enough. A token with permissions needs those in "
                    "`x-permissions` instead.",
                },
                "app": {
                    "type": "http",
                    "scheme": "bearer",
                    "bearerFormat": "JWT",
                    "description": "A JSON Web Token (RS256) signed with the app's private key. `iss` is the "
                    "app's client ID or ID, and `exp` is at most ten minutes ahead.",
                },
                "client": {
                    "type": "http",
                    "scheme": "basic",
                    "description": "The client ID and a client secret of an OAuth app or an app.",
                },
            },
        },
    }


def _operation(op: Operation, schemas: Schemas, access_of: RequirementOf) -> dict[str, Any]:
    shown: dict[str, Any] = {"operationId": op.name, "summary": op.summary}
    sentences = [op.description] if op.description else []
    if op.access is not None:
        access = access_of(op.access)
        sentences.append(access.text)
        shown["security"] = [{access.scheme: [scope]} for scope in access.scopes] or [{access.scheme: []}]
        if access.permission is not None:
            shown["x-permissions"] = dict([access.permission])
    else:
        # The webhook API counts a token's requests even if an operation requires no token.
        shown["security"] = [] if op.area in (SYSTEM, OAUTH) else [{}, {"bearer": []}]
    if sentences:
        shown["description"] = "\n\n".join(sentences)
    if op.deprecated:
        shown["deprecated"] = True
    shown["tags"] = [op.tag] if op.tag else []
    shown["parameters"] = openapi_parts.parameters_of(op)
    if op.body is not None:
        shown["requestBody"] = {
            "required": op.body_required,
            "content": {op.body_media_type: {"schema": schemas.of(op.body)}},
        }
    shown["responses"] = _responses(op, schemas)
    return shown


def _responses(op: Operation, schemas: Schemas) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, body in op.answers.items():
        answer: dict[str, Any] = {
            "description": openapi_text.ANSWERS.get(status, "The request succeeded."),
            "headers": openapi_parts.answer_headers(op, status),
        }
        if body is not None:
            answer["content"] = {op.media_type: {"schema": schemas.of(body)}}
            if status == 200:
                answer["content"] |= {each: {"schema": {"type": "string"}} for each in op.other_media_types}
        responses[str(status)] = answer
    if op.etag and op.method == "GET" and op.area is not SYSTEM:
        responses["304"] = {
            "description": openapi_text.ANSWERS[304],
            "headers": openapi_parts.answer_headers(op, 304),
        }
    for status in op.all_problems - op.answers.keys():
        responses[str(status)] = {"$ref": f"#/components/responses/{op.area.name}_{status}"}
    return dict(sorted(responses.items()))


def _problem_responses(operations: Sequence[Operation], schemas: Schemas) -> dict[str, Any]:
    wanted = {(op.area, status) for op in operations for status in op.all_problems - op.answers.keys()}
    return {
        f"{area.name}_{status}": _problem_response(area, status, schemas)
        for area, status in sorted(wanted, key=lambda each: (each[0].name, each[1]))
    }


def _problem_response(area: Area, status: int, schemas: Schemas) -> dict[str, Any]:
    schema: Schema = schemas.of(WorkProblem if area.style == "envelope" else WebhookProblem)
    docs, is_webhook = f"{_ORIGIN}/docs", area.style == "github"
    own = openapi_text.WEBHOOK_EXAMPLES if is_webhook else openapi_text.WORK_EXAMPLES
    examples = {
        name: {"value": json.decode(json.encode(render(problem, area, request_id="6f1c…", documentation_url=docs)))}
        for name, problem in (own.get(status) or openapi_text.COMMON_EXAMPLES[status]).items()
    }
    return {
        "description": (is_webhook and openapi_text.WEBHOOK_PROBLEMS.get(status)) or openapi_text.PROBLEMS[status],
        "headers": openapi_parts.problem_headers(area, status),
        "content": {"application/json": {"schema": schema, "examples": examples}},
    }


def operations(areas: Sequence[Operation], access_of: RequirementOf) -> Sequence[Operation]:
    routes = Routes(SYSTEM, "system", etag=False)
    rendered: list[bytes] = []

    def of(address: str) -> bytes:
        return rendered[0].replace(_ORIGIN.encode(), address.encode())

    # A client can send any host, so only a few are cached. Compressing each takes a few milliseconds.
    @lru_cache(maxsize=_KEPT_MAX)
    def kept(address: str, encoding: str) -> tuple[bytes, dict[str, str]]:
        return compressed(of(address), encoding)

    @routes.get("/openapi.json", answers={200: {"type": "object"}}, etag=True)
    async def openapi(call: Call) -> Response:
        """Get the OpenAPI document of this server"""
        if not rendered:
            rendered.append(json.encode(document([*areas, *routes], access_of)))
        address = origin(call.request, call.services.settings.trust_proxy)
        encoding = chosen_encoding(call.header("accept-encoding"), ENCODINGS)
        body, headers = kept(address, encoding) if encoding else compressed(of(address), None)
        return Response(body, headers=headers)

    return routes
