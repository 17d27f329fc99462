"""Parts of the OpenAPI document: parameters, headers, and the JSON Schemas of request and response bodies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from inspect import cleandoc
from typing import Any

import msgspec
from msgspec import inspect

from workhook.http.idempotency import HEADER as IDEMPOTENCY_KEY
from workhook.http.idempotency import KEY_MAX_CHARS, KEY_PATTERN
from workhook.http.operations import SYSTEM, VERSIONS, WEBHOOK_API, WORK_API, Area, Operation, Query
from workhook.http.wire_types import with_wire_type

_INTEGERS = {"type": "integer", "minimum": 1, "maximum": 2**53 - 1, "format": "int64", "examples": [1]}
_TEXT = {"type": "string", "minLength": 1}

# Generated clients pass the request body as an argument with this name. A query parameter with the same name, which the
# server accepts for every body field, would be a duplicate argument, so the document omits it.
_REQUEST_BODY = "body"

# Path parameters of the webhook API. Those of the work API are named after the resource they identify.
_PATH_PARTS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "org": ("Login of the organization. Case is ignored.", {**_TEXT, "examples": ["acme"]}),
    "owner": ("Login of the account that owns the repository. Case is ignored.", {**_TEXT, "examples": ["acme"]}),
    "repo": ("Name of the repository without `.git`. Case is ignored.", {**_TEXT, "examples": ["website"]}),
    "hook_id": (
        "ID of the webhook.",
        {"type": "integer", "minimum": 1, "maximum": 2**31 - 1, "format": "int32", "examples": [1]},
    ),
    "delivery_id": ("ID of the delivery.", _INTEGERS),
}

# Path segments that differ from the names of their resources.
_THINGS: Mapping[str, str] = {
    "applications": "app",
    "memberships": "person",
    "oauth-apps": "OAuth app",
    "redeliveries": "redelivery",
    "repositories": "repository",
    "user": "user or organization",
}


def _header_parameter(name: str, description: str, **schema: Any) -> dict[str, Any]:
    schema = {"type": "string", **schema}
    return {"name": name, "in": "header", "required": False, "description": description, "schema": schema}


SHARED_PARAMETERS: Mapping[str, Any] = {
    "ApiVersion": _header_parameter(
        "X-Service-Api-Version",
        "The version that the client was written for. `X-GitHub-Api-Version` means the same.",
        enum=sorted(VERSIONS),
    ),
    "IfNoneMatch": _header_parameter(
        "If-None-Match", "The `ETag` of an earlier response. Returns 304 if nothing has changed since."
    ),
    "IfMatch": _header_parameter(
        "If-Match", "The `ETag` of an earlier response. Returns 412 if the record has changed since."
    ),
    "IdempotencyKey": _header_parameter(
        IDEMPOTENCY_KEY,
        "Makes it safe to repeat the request: for 24 hours, the same request with the same key returns "
        "the first response and has no further effect.",
        minLength=1,
        maxLength=KEY_MAX_CHARS,
        pattern=f"^{KEY_PATTERN}$",
    ),
}


def parameters_of(op: Operation) -> list[dict[str, Any]]:
    shown = [_path_parameter(op, name) for name in re.findall(r"\{(\w+)\}", op.path)]
    shown += [_query_parameter(each) for each in op.query if op.body is None or each.name != _REQUEST_BODY]
    if op.area.versioned:
        shown.append({"$ref": "#/components/parameters/ApiVersion"})
    if op.method == "GET" and op.etag and op.area is not SYSTEM:
        shown.append({"$ref": "#/components/parameters/IfNoneMatch"})
    if op.area is WORK_API and op.method == "POST":
        shown.append({"$ref": "#/components/parameters/IdempotencyKey"})
    if 412 in op.all_problems:
        shown.append({"$ref": "#/components/parameters/IfMatch"})
    return shown


def _path_parameter(op: Operation, name: str) -> dict[str, Any]:
    described = _PATH_PARTS.get(name) if op.area is WEBHOOK_API else None
    if described is None:
        before = op.path.partition(f"/{{{name}}}")[0].rpartition("/")[2]
        thing = _THINGS.get(before) or before.removesuffix("s").replace("_", " ")
        noun = "client ID" if name == "client_id" else "ID" if name == "id" or name.endswith("_id") else name
        kind = _INTEGERS if op.path_types.get(name) == "integer" else _TEXT
        described = (f"{noun[0].upper()}{noun[1:]} of the {thing}.", kind)
    description, schema = described
    return {"name": name, "in": "path", "required": True, "description": description, "schema": dict(schema)}


def _query_parameter(query: Query) -> dict[str, Any]:
    shown = {"name": query.name, "in": "query", "required": query.required}
    if query.description:
        shown["description"] = query.description
    schema = {"schema": with_wire_type(query.schema)}
    return {**shown, "content": {"application/json": schema}} if query.json else {**shown, **schema}


def _header(description: str, *, kind: str = "string", required: bool = False, **more: Any) -> dict[str, Any]:
    return {"description": description, "required": required, "schema": {"type": kind, **more}}


HEADERS: Mapping[str, Any] = {
    "RequestId": _header(
        "ID of the request, to find it in the server's log.",
        required=True,
        examples=["6f1c…"],
    ),
    "RateLimit": _header("Requests per hour allowed for the token.", kind="integer", minimum=0),
    "RateRemaining": _header("Requests left in this hour.", kind="integer", minimum=0),
    "RateUsed": _header("Requests used in this hour.", kind="integer", minimum=0),
    "RateReset": _header("When the count resets, in seconds since the epoch.", kind="integer"),
    "RateResource": _header("The counted resource: always `core`.", const="core"),
    "OAuthScopes": _header("The scopes of the token."),
    "OAuthClientId": _header("Client ID of the OAuth app the token belongs to."),
    "TokenExpiration": _header(
        "When the token expires. Absent if it does not expire.", examples=["2026-12-21 10:00:00 UTC"]
    ),
    "AcceptedOAuthScopes": _header("Scopes accepted by the operation; one is enough."),
    "ETag": _header("Version of the response.", examples=['W/"d368…"']),
    "Link": _header('Other pages of the list, as absolute URLs: `<…>; rel="next"`. Absent if there are none.'),
    "Location": _header("Address of the created resource, or of a list that contains it.", required=True, format="uri"),
    "RetryAfter": _header("Seconds to wait before the next request.", kind="integer", minimum=0, examples=[2]),
    "Authenticate": _header(
        "`Bearer`, or `Basic` where an app authenticates with its client secret.",
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


# --- schemas ---------------------------------------------------------------------------------------------------------

Schema = dict[str, Any]

_COMPONENTS = "#/components/schemas/"
_ABOUT = ("description", "examples")
_SUFFIXES = {"Shape": "", "Answer": "Response"}  # HookShape is shown as Hook, and TaskAnswer as TaskResponse


class Schemas:
    """Schemas for the document: `components` by struct name, and `of` for the schema of a collected type."""

    def __init__(self, answers: Iterable[Any], bodies: Iterable[Any]) -> None:
        """Collect the types in `answers` and `bodies`. Anything else is ignored."""
        answers = [each for each in answers if _is_type(each)]
        bodies = [each for each in bodies if _is_type(each)]
        unique = list({repr(each): each for each in (*answers, *bodies)}.values())
        schemas, components = msgspec.json.schema_components(unique, ref_template=_COMPONENTS + "{name}")
        _complete(components, answers)
        for struct in _structs(bodies):  # `http.parameters` rejects other fields
            components[struct.cls.__name__]["additionalProperties"] = False
        self._names = _names(components)
        self._filled = False
        self._by_type: dict[str, Schema] = {
            repr(each): self._polished(schema) for each, schema in zip(unique, schemas, strict=True)
        }
        self.components: dict[str, Schema] = {
            self._names[name]: self._polished(schema) for name, schema in components.items()
        }
        self._filled = True

    def of(self, wanted: Any) -> Schema:
        """Return the schema of a collected type, or the given schema. A schema with a title becomes a component."""
        if _is_type(wanted):
            return self._by_type[repr(wanted)]
        shown: Schema = self._polished(wanted)
        return shown

    def _polished(self, schema: Any) -> Any:
        """Remove titles, rename components, and merge null into the type."""
        if isinstance(schema, list):
            return [self._polished(each) for each in schema]
        if not isinstance(schema, Mapping):
            return schema
        shown: Schema = {}
        for key, value in schema.items():
            if key in ("properties", "$defs"):
                shown[key] = {name: self._polished(each) for name, each in value.items()}
            elif key == "$ref":
                shown[key] = _COMPONENTS + self._names[value.removeprefix(_COMPONENTS)]
            elif key in ("examples", "example", "const", "enum", "default"):
                shown[key] = value
            elif key == "description":
                shown[key] = cleandoc(value)  # docstrings are indented
            elif key != "title":
                shown[key] = self._polished(value)
        shown = _null_in_type(with_wire_type(shown))
        if not self._filled or (name := schema.get("title")) is None:
            return shown
        known = self.components.setdefault(name, shown)
        assert known == shown, f"two schemas are called {name}"
        return {"$ref": _COMPONENTS + name}


def _is_type(value: Any) -> bool:
    return value is not None and not isinstance(value, Mapping)


def _names(components: Mapping[str, Schema]) -> dict[str, str]:
    """Return the names shown in the document, by the names that msgspec gives the structs."""
    names = {}
    for name in components:
        suffix = next((each for each in _SUFFIXES if name.endswith(each)), "")
        names[name] = name.removesuffix(suffix) + _SUFFIXES.get(suffix, "")
    shown = list(names.values())
    # msgspec qualifies the names of two structs with the same name by their modules.
    qualified = [name for name in shown if not name.isidentifier()]
    assert not qualified, f"not a name for generated clients: {', '.join(qualified)}"
    assert len(set(shown)) == len(shown), f"two schemas are called {max(shown, key=shown.count)}"
    return names


def _null_in_type(schema: Schema) -> Schema:
    """Turn `anyOf` of one simple type and null into `type: [..., "null"]`, except for enums."""
    options = schema.get("anyOf", [])
    plain = [each for each in options if each != {"type": "null"}]
    if len(options) != 2 or len(plain) != 1 or not isinstance(plain[0].get("type"), str):
        return schema
    if "enum" in plain[0] or "anyOf" in plain[0]:
        about = {key: value for key, value in plain[0].items() if key in _ABOUT}
        bare = {key: value for key, value in plain[0].items() if key not in _ABOUT}
        return {**about, **schema, "anyOf": [*bare.get("anyOf", [bare]), {"type": "null"}]}
    merged = {**plain[0], **{key: value for key, value in schema.items() if key != "anyOf"}}
    merged["type"] = [plain[0]["type"], "null"]
    return merged


def _complete(components: Mapping[str, Schema], answers: Iterable[Any]) -> None:
    """Require every field that cannot be absent, including those with a default in the code."""
    for struct in _structs(answers):
        schema = components.get(struct.cls.__name__)
        if schema is None or struct.cls.__struct_config__.omit_defaults:
            continue
        schema["required"] = [field.encode_name for field in struct.fields if not _may_be_absent(field)]
        for name, shown in schema["properties"].items():
            default = shown.pop("default", None)
            if name == "success" and default is not None:
                shown["const"] = default
            for each in shown.get("anyOf", [shown]) if name.endswith("_at") else ():
                if each.get("type") == "string":
                    each.setdefault("format", "date-time")


def _may_be_absent(field: inspect.Field) -> bool:
    """Return whether a field is UNSET by default."""
    return not field.required and field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT


def _structs(types: Iterable[Any]) -> list[inspect.StructType]:
    """Return every struct that the types contain, transitively."""
    found: dict[str, inspect.StructType] = {}

    def visit(kind: Any) -> None:
        if isinstance(kind, inspect.StructType):
            if kind.cls.__name__ in found:
                return
            found[kind.cls.__name__] = kind
            for field in kind.fields:
                visit(field.type)
        for name in ("type", "item_type", "value_type"):
            if isinstance(inner := getattr(kind, name, None), inspect.Type):
                visit(inner)
        for inner in (*getattr(kind, "types", ()), *getattr(kind, "item_types", ())):
            visit(inner)

    for each in inspect.multi_type_info(list(types)):
        visit(each)
    return list(found.values())
