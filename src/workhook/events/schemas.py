"""JSON Schemas (draft 2020-12) of the payloads that Workhook itself creates, built from shared parts.

They are documentation, served with the catalog, and tests compare actual events with them. Events published by others
are not validated.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from workhook.core import json

Schema = dict[str, object]

TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "minimum": 0}
INTEGER_ID: Schema = {"type": "integer", "minimum": 1}
MOMENT: Schema = {"type": "string", "format": "date-time"}
LINK: Schema = {"type": "string", "format": "uri"}
EMAIL: Schema = {"type": "string", "format": "email"}
AMOUNT: Schema = {"type": "number", "description": "money, with at most the decimal places of its currency; or credits"}


def one_of(*words: str) -> Schema:
    return {"type": "string", "enum": list(words)}


def list_of(item: Schema) -> Schema:
    return {"type": "array", "items": item}


def map_of(value: Schema) -> Schema:
    return {"type": "object", "additionalProperties": value}


def nullable(schema: Schema) -> Schema:
    """Return `schema` or null, the value of an unset field."""
    kind = schema.get("type")
    if not isinstance(kind, str):
        return {"anyOf": [schema, {"type": "null"}]}
    widened = {**schema, "type": [kind, "null"]}
    words = schema.get("enum")
    if isinstance(words, list):
        widened["enum"] = [*words, None]
    return widened


def record(fields: Mapping[str, Schema], *, optional: Collection[str] = ()) -> Schema:
    """Return an object with all fields, of which the `optional` ones may be missing. Later versions may add fields."""
    required = [name for name in fields if name not in optional]
    return {"type": "object", "required": required, "properties": dict(fields)}


def all_of(schema: Schema, *names: str) -> dict[str, Schema]:
    return dict.fromkeys(names, schema)


def core_of(core: Mapping[str, Schema], more: Mapping[str, Schema]) -> Schema:
    """Return an object with the guaranteed fields `core`; those in `more` are typed but may be absent."""
    return record({**core, **more}, optional=more)


USER = record(
    {
        "id": INTEGER_ID,
        "login": TEXT,
        "username": {**TEXT, "description": "the same as `login`"},
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
        **all_of(LINK, "url", "repos_url", "events_url", "hooks_url", "issues_url"),
        "members_url": {**TEXT, "description": "a URI template"},
        "public_members_url": LINK,
        **all_of(nullable(TEXT), "avatar_url", "description"),
    },
)
REPOSITORY = core_of(
    {
        "id": INTEGER_ID,
        "name": TEXT,
        "full_name": {**TEXT, "pattern": "^[^/]+/[^/]+$"},
        "private": FLAG,
        "owner": core_of({"login": TEXT, "id": INTEGER_ID}, {"type": TEXT, "url": LINK}),
    },
    {
        **all_of(LINK, "html_url", "url", "hooks_url"),
        "description": nullable(TEXT),
        "archived": FLAG,
        "default_branch": TEXT,
    },
)
CHANGES: Schema = {
    **map_of({"type": "object", "required": ["from", "to"], "properties": {"from": {}, "to": {}}}),
    "description": "each field that was changed, with its value before and after",
}


RESOURCES_FILE = Path(__file__).with_name("resources.json")
"""The schemas of the work API's records by event name, written by `scripts/event_schemas.py`."""

_DIALECT = "https://json-schema.org/draft/2020-12/schema"

# Events that may belong to an organization, with no repository.
_MAY_LACK_REPOSITORY = frozenset({"hook", "member", "project", "service"})

# An edit without changes causes no event, so an `edited` event always has changes.
_EDITED_HAS_CHANGES: Schema = {
    "if": {"properties": {"action": {"const": "edited"}}},
    "then": {"required": ["changes"], "properties": {"changes": {"minProperties": 1}}},
}


_CONFIG = {"url": TEXT, "content_type": TEXT, "insecure_ssl": one_of("0", "1"), "secret": TEXT}
_LAST_RESPONSE = record({"code": nullable({"type": "integer"}), **all_of(nullable(TEXT), "status", "message")})
HOOK = record(
    {
        "type": one_of("Repository", "Organization"),
        "id": INTEGER_ID,
        "name": one_of("web"),
        "active": FLAG,
        "events": list_of(TEXT),
        "config": record(_CONFIG, optional=_CONFIG),
        **all_of(MOMENT, "created_at", "updated_at"),
        **all_of(LINK, "url", "ping_url", "deliveries_url", "test_url"),
        "last_response": nullable(_LAST_RESPONSE),
    },
    optional=("test_url", "last_response"),
)

RESOURCES: dict[str, Schema] = {**json.decode(RESOURCES_FILE.read_bytes()), "hook": HOOK}
"""The record of each own event as in the API, with every field present and null if unset.

The key is the name of the event, or of another record in its payload.
"""

_BESIDE = {"invoice": ("payment", "credit_note"), "project": ("budget",), "task": ("commit",)}
"""Further records in some payloads of an event."""


def _document(title: str, body: Schema) -> Schema:
    return {"$schema": _DIALECT, "title": title, **body}


def own_event(name: str, actions: Sequence[str]) -> Schema:
    """Return the schema of `{action, NOUN, changes?, repository, organization, sender}`."""
    beside = _BESIDE.get(name, ())
    lacks_repository = name in _MAY_LACK_REPOSITORY
    body = record(
        {
            "action": one_of(*actions),
            **{each: RESOURCES[each] for each in (name, *beside)},
            "changes": CHANGES,
            "repository": nullable(REPOSITORY) if lacks_repository else REPOSITORY,
            "organization": ORGANIZATION,
            "sender": SENDER,
        },
        # A user's own project has no organization.
        optional=(*beside, "changes", "organization", *(("repository",) if lacks_repository else ())),
    )
    return _document(name, body | _EDITED_HAS_CHANGES if "edited" in actions else body)


_SHA: Schema = {"type": "string", "pattern": "^([0-9a-f]{40}|[0-9a-f]{64})$"}
_AUTHOR = record(
    {"name": TEXT, "email": nullable(EMAIL), "username": TEXT, "date": MOMENT}, optional=("username", "date")
)
_COMMIT = record(
    {
        **all_of(_SHA, "id", "tree_id"),
        "distinct": FLAG,
        "message": TEXT,
        "timestamp": MOMENT,
        "url": LINK,
        **all_of(_AUTHOR, "author", "committer"),
        **all_of(list_of(TEXT), "added", "removed", "modified"),
    }
)
_AROUND = {"repository": REPOSITORY, "organization": ORGANIZATION, "sender": SENDER}

PUSH = _document(
    "push",
    record(
        {
            "ref": {"type": "string", "pattern": "^refs/", "description": "the full name of the branch or tag"},
            "before": {**_SHA, "description": "all zeros when the ref is new"},
            "after": {**_SHA, "description": "all zeros when the ref was deleted"},
            **all_of(FLAG, "created", "deleted", "forced"),
            "base_ref": nullable(TEXT),
            "compare": LINK,
            "commits": list_of(_COMMIT),
            "head_commit": nullable(_COMMIT),
            "pusher": record({"name": TEXT, "email": nullable(TEXT)}, optional=("email",)),
            **_AROUND,
        },
        optional=("organization",),
    ),
)

_PING = {"zen": TEXT, "hook_id": INTEGER_ID, "hook": HOOK, **_AROUND}
PING = _document(
    "ping",
    {
        **record(_PING, optional=("repository", "organization")),
        "anyOf": [{"required": ["repository"]}, {"required": ["organization"]}],
    },
)
