"""JSON Schema (draft 2020-12), the small pieces: scalar types, and the objects that several payloads share.

Fragments are shared between schemas and never changed after import.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

Schema = dict[str, object]

TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "minimum": 0}
INTEGER_ID: Schema = {"type": "integer", "minimum": 1}
MOMENT: Schema = {"type": "string", "format": "date-time"}
LINK: Schema = {"type": "string", "format": "uri"}
EMAIL: Schema = {"type": "string", "format": "email"}
AMOUNT: Schema = {"type": "number", "description": "money or credits, at most two decimals"}
CURRENCY: Schema = {"type": "string", "pattern": "^[A-Z]{3}$", "description": "ISO 4217"}
MILLISECONDS: Schema = {"type": "integer", "minimum": 0, "description": "milliseconds"}


def prefixed_id(prefix: str) -> Schema:
    """An id as `core.ids.new_id(prefix)` makes it."""
    return {"type": "string", "pattern": f"^{prefix}_[0-9a-z]{{26}}$"}


def one_of(*words: str) -> Schema:
    return {"type": "string", "enum": list(words)}


def list_of(item: Schema) -> Schema:
    return {"type": "array", "items": item}


def map_of(value: Schema) -> Schema:
    """An object with free keys whose values all look like `value`."""
    return {"type": "object", "additionalProperties": value}


def nullable(schema: Schema) -> Schema:
    """`schema`, or null: how a field that is not set is shown."""
    kind = schema.get("type")
    if not isinstance(kind, str):
        return {"anyOf": [schema, {"type": "null"}]}
    widened = {**schema, "type": [kind, "null"]}
    words = schema.get("enum")
    if isinstance(words, list):
        widened["enum"] = [*words, None]
    return widened


def record(fields: Mapping[str, Schema], *, optional: Collection[str] = ()) -> Schema:
    """An object in which every field is present except the `optional` ones. More fields may come in later versions."""
    required = [name for name in fields if name not in optional]
    return {"type": "object", "required": required, "properties": dict(fields)}


def reference(prefix: str, *, also: Mapping[str, Schema] | None = None) -> Schema:
    """How a record names another one: `{id, title}` and what else the specification shows there."""
    return record({"id": prefixed_id(prefix), "title": TEXT, **(also or {})})


def core_of(core: Mapping[str, Schema], more: Mapping[str, Schema]) -> Schema:
    """An object of which only `core` is dependable; `more` is typed but may be absent."""
    return record({**core, **more}, optional=more)


USER = record(
    {
        "id": INTEGER_ID,
        "login": TEXT,
        "username": {"type": "string", "description": "the same as `login`"},
        "email": EMAIL,
        "avatar": nullable(LINK),
    },
    optional=("avatar",),
)

SENDER: Schema = nullable(
    {
        **core_of({"id": INTEGER_ID, "login": TEXT, "username": TEXT}, {"email": EMAIL, "avatar": nullable(LINK)}),
        "description": "who did it; null when the service acted by itself",
    }
)

ORGANIZATION = core_of(
    {"login": TEXT, "id": INTEGER_ID},
    {
        "node_id": TEXT,
        "url": LINK,
        "repos_url": LINK,
        "events_url": LINK,
        "hooks_url": LINK,
        "issues_url": LINK,
        "members_url": {**TEXT, "description": "a URI template"},
        "public_members_url": LINK,
        "avatar_url": nullable(TEXT),
        "description": nullable(TEXT),
    },
)

REPOSITORY = core_of(
    {
        "id": INTEGER_ID,
        "name": TEXT,
        "full_name": {"type": "string", "pattern": "^[^/]+/[^/]+$"},
        "private": FLAG,
        "owner": core_of({"login": TEXT, "id": INTEGER_ID}, {"type": TEXT, "url": LINK}),
    },
    {
        "html_url": LINK,
        "url": LINK,
        "hooks_url": LINK,
        "description": nullable(TEXT),
        "archived": FLAG,
        "default_branch": TEXT,
    },
)

CHANGES: Schema = {
    **map_of({"type": "object", "required": ["from", "to"], "properties": {"from": {}, "to": {}}}),
    "description": "each field that was changed, with its value before and after",
}
