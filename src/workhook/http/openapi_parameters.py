"""Parameters and headers of the OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from workhook.http.idempotency import HEADER as IDEMPOTENCY_KEY
from workhook.http.idempotency import KEY_MAX_CHARS, KEY_PATTERN
from workhook.http.operations import SYSTEM, VERSIONS, WEBHOOK_API, WORK_API, Area, Operation, Query

_INTEGERS = {"type": "integer", "minimum": 1, "maximum": 2**53 - 1, "format": "int64", "examples": [1]}
_TEXT = {"type": "string", "minLength": 1}

# Parts of the paths of the webhook API. Those of the work API are named after what they identify.
_PATH: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "org": ("Login of the organization, in any case.", {**_TEXT, "examples": ["acme"]}),
    "owner": ("Login of the account that the repository belongs to, in any case.", {**_TEXT, "examples": ["acme"]}),
    "repo": ("Name of the repository without `.git`, in any case.", {**_TEXT, "examples": ["website"]}),
    "hook_id": (
        "Id of the webhook.",
        {"type": "integer", "minimum": 1, "maximum": 2**31 - 1, "format": "int32", "examples": [1]},
    ),
    "delivery_id": ("Id of the delivery.", _INTEGERS),
}

SHARED: Mapping[str, Any] = {
    "ApiVersion": {
        "name": "X-Service-Api-Version",
        "in": "header",
        "required": False,
        "description": "The version that the client was written for. `X-GitHub-Api-Version` means the same.",
        "schema": {"type": "string", "enum": sorted(VERSIONS)},
    },
    "IfNoneMatch": {
        "name": "If-None-Match",
        "in": "header",
        "required": False,
        "description": "An `ETag` that was answered before: 304 while it still holds.",
        "schema": {"type": "string"},
    },
    "IfMatch": {
        "name": "If-Match",
        "in": "header",
        "required": False,
        "description": "An `ETag` that was answered before: the change happens only if it still holds.",
        "schema": {"type": "string"},
    },
    "IdempotencyKey": {
        "name": IDEMPOTENCY_KEY,
        "in": "header",
        "required": False,
        "description": "Makes it safe to send the request again: for 24 hours the same request with the same key is "
        "answered as the first was, and nothing more happens.",
        "schema": {"type": "string", "minLength": 1, "maxLength": KEY_MAX_CHARS, "pattern": f"^{KEY_PATTERN}$"},
    },
}


def of(op: Operation) -> list[dict[str, Any]]:
    """The parameters of an operation: path, query, headers."""
    shown = [_path(op, name) for name in re.findall(r"\{(\w+)\}", op.path)]
    shown += [_query(each) for each in op.query]
    if op.area.versioned:
        shown.append({"$ref": "#/components/parameters/ApiVersion"})
    if op.method == "GET" and op.etag and op.area is not SYSTEM:
        shown.append({"$ref": "#/components/parameters/IfNoneMatch"})
    if op.area is WORK_API and op.method == "POST":
        shown.append({"$ref": "#/components/parameters/IdempotencyKey"})
    if 412 in op.all_problems:
        shown.append({"$ref": "#/components/parameters/IfMatch"})
    return shown


def _path(op: Operation, name: str) -> dict[str, Any]:
    described = _PATH.get(name) if op.area is WEBHOOK_API else None
    if described is None:
        before = op.path.partition(f"/{{{name}}}")[0].rpartition("/")[2]
        thing = before.removesuffix("s").replace("_", " ")
        what = "id" if name.endswith("_id") else name
        described = (f"The {what} of the {thing}.", _INTEGERS if op.path_types.get(name) == "integer" else _TEXT)
    description, schema = described
    return {"name": name, "in": "path", "required": True, "description": description, "schema": dict(schema)}


def _query(query: Query) -> dict[str, Any]:
    shown = {"name": query.name, "in": "query", "required": query.required}
    if query.description:
        shown["description"] = query.description
    schema = {"schema": dict(query.schema)}
    return {**shown, "content": {"application/json": schema}} if query.json else {**shown, **schema}


def _header(description: str, *, kind: str = "string", required: bool = False, **more: Any) -> dict[str, Any]:
    return {"description": description, "required": required, "schema": {"type": kind, **more}}


HEADERS: Mapping[str, Any] = {
    "RequestId": _header("Under this the server's log tells what happened.", required=True, examples=["6f1c…"]),
    "RateLimit": _header("Requests that the token has in an hour.", kind="integer", minimum=0),
    "RateRemaining": _header("Requests that it has left.", kind="integer", minimum=0),
    "RateUsed": _header("Requests that it has used.", kind="integer", minimum=0),
    "RateReset": _header("When the count starts anew: seconds since the epoch.", kind="integer"),
    "RateResource": _header("What is counted: always `core`.", const="core"),
    "OAuthScopes": _header("The scopes of the token."),
    "OAuthClientId": _header("Of a token of an OAuth app: the app's client id."),
    "TokenExpiration": _header(
        "When the token ends. Absent for one that does not.", examples=["2026-12-21 10:00:00 UTC"]
    ),
    "AcceptedOAuthScopes": _header("The scopes of which the operation wants one."),
    "ETag": _header("Names this state of the answer.", examples=['W/"d368…"']),
    "Link": _header('Other pages of the list, as absolute URLs: `<…>; rel="next"`. Absent if there are none.'),
    "Location": _header("Where the thing is.", required=True, format="uri"),
    "RetryAfter": _header("Seconds to wait.", kind="integer", minimum=0, examples=[2]),
    "Authenticate": _header(
        "`Bearer`; `Basic` where an app shows its client secret.",
        required=True,
        enum=["Bearer", 'Basic realm="Workhook"'],
    ),
}

_RATE = {
    "X-RateLimit-Limit": "RateLimit",
    "X-RateLimit-Remaining": "RateRemaining",
    "X-RateLimit-Used": "RateUsed",
    "X-RateLimit-Reset": "RateReset",
    "X-RateLimit-Resource": "RateResource",
}


def answer_headers(op: Operation, status: int) -> dict[str, Any]:
    """The headers of a success."""
    names = _request_id(op.area)
    if op.area is not SYSTEM:
        names |= _RATE
        names["X-OAuth-Scopes"] = "OAuthScopes"
        names["X-OAuth-Client-Id"] = "OAuthClientId"
        names["GitHub-Authentication-Token-Expiration"] = "TokenExpiration"
        if op.access is not None:
            names["X-Accepted-OAuth-Scopes"] = "AcceptedOAuthScopes"
        if op.etag and op.method in ("GET", "POST") and status in (200, 201, 304):
            names["ETag"] = "ETag"
    if status == 201:
        names["Location"] = "Location"
    if status == 200 and {"page", "cursor"} & {each.name for each in op.query}:
        names["Link"] = "Link"
    if status == 503:
        names["Retry-After"] = "RetryAfter"
    return _references(names)


def problem_headers(area: Area, status: int) -> dict[str, Any]:
    """The headers of a problem."""
    names = _request_id(area)
    if area is not SYSTEM and status not in (401, 414):
        names |= _RATE
    if status in (429, 503) or (status == 403 and area.versioned):
        names["Retry-After"] = "RetryAfter"
    if status == 401:
        names["WWW-Authenticate"] = "Authenticate"
    return _references(names)


def _request_id(area: Area) -> dict[str, str]:
    return dict.fromkeys(area.request_headers(""), "RequestId")


def _references(names: Mapping[str, str]) -> dict[str, Any]:
    return {header: {"$ref": f"#/components/headers/{name}"} for header, name in names.items()}
