"""JSON Schema (draft 2020-12) of the payloads that Workhook itself makes.

They are documentation, served with the catalogue, and the measure of the events that the tests see. What others
publish is not held against them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from workhook.core import json
from workhook.events import json_schema as s
from workhook.events.json_schema import Schema

RESOURCES_FILE = Path(__file__).with_name("resources.json")
"""The schemas of the work API's records, by the name of the event: `scripts/event_schemas.py` writes them."""

_DIALECT = "https://json-schema.org/draft/2020-12/schema"

# What these are about can be an organization's, with no repository to name.
_MAY_LACK_REPOSITORY = frozenset({"hook", "member", "project", "service"})

# An edit that changed nothing makes no event, so an `edited` one always says what changed.
_EDITED_HAS_CHANGES: Schema = {
    "if": {"properties": {"action": {"const": "edited"}}},
    "then": {"required": ["changes"], "properties": {"changes": {"minProperties": 1}}},
}


_HOOK_CONFIG = s.record(
    {"url": s.TEXT, "content_type": s.TEXT, "insecure_ssl": s.one_of("0", "1"), "secret": s.TEXT},
    optional=("url", "content_type", "insecure_ssl", "secret"),
)

_LAST_RESPONSE = s.record(
    {"code": s.nullable({"type": "integer"}), "status": s.nullable(s.TEXT), "message": s.nullable(s.TEXT)}
)

HOOK = s.record(
    {
        "type": s.one_of("Repository", "Organization"),
        "id": s.INTEGER_ID,
        "name": s.one_of("web"),
        "active": s.FLAG,
        "events": s.list_of(s.TEXT),
        "config": _HOOK_CONFIG,
        "created_at": s.MOMENT,
        "updated_at": s.MOMENT,
        "url": s.LINK,
        "ping_url": s.LINK,
        "deliveries_url": s.LINK,
        "test_url": s.LINK,
        "last_response": s.nullable(_LAST_RESPONSE),
    },
    optional=("test_url", "last_response"),
)

RESOURCES: dict[str, Schema] = {**json.decode(RESOURCES_FILE.read_bytes()), "hook": HOOK}
"""The record that each of Workhook's own events carries, as the API shows it: every field is always present, null while
it is unset. The key is the name of the event, which is also the name of the record in its payload."""


def _document(title: str, body: Schema) -> Schema:
    return {"$schema": _DIALECT, "title": title, **body}


def own_event(name: str, actions: Sequence[str]) -> Schema:
    """The payload of Workhook's own event `name`: `{action, NOUN, changes?, repository, organization, sender}`."""
    lacks_repository = name in _MAY_LACK_REPOSITORY
    body = s.record(
        {
            "action": s.one_of(*actions),
            name: RESOURCES[name],
            "changes": s.CHANGES,
            "repository": s.nullable(s.REPOSITORY) if lacks_repository else s.REPOSITORY,
            "organization": s.ORGANIZATION,
            "sender": s.SENDER,
        },
        # A user's own project is in no organization.
        optional=("changes", "organization", "repository") if lacks_repository else ("changes", "organization"),
    )
    return _document(name, body | _EDITED_HAS_CHANGES if "edited" in actions else body)


_SHA: Schema = {"type": "string", "pattern": "^([0-9a-f]{40}|[0-9a-f]{64})$"}

_AUTHOR = s.record(
    {"name": s.TEXT, "email": s.nullable(s.EMAIL), "username": s.TEXT, "date": s.MOMENT}, optional=("username", "date")
)

_COMMIT = s.record(
    {
        "id": _SHA,
        "tree_id": _SHA,
        "distinct": s.FLAG,
        "message": s.TEXT,
        "timestamp": s.MOMENT,
        "url": s.LINK,
        "author": _AUTHOR,
        "committer": _AUTHOR,
        "added": s.list_of(s.TEXT),
        "removed": s.list_of(s.TEXT),
        "modified": s.list_of(s.TEXT),
    }
)

PUSH = _document(
    "push",
    s.record(
        {
            "ref": {"type": "string", "pattern": "^refs/", "description": "the full name of the branch or tag"},
            "before": {**_SHA, "description": "all zeros when the ref is new"},
            "after": {**_SHA, "description": "all zeros when the ref was deleted"},
            "created": s.FLAG,
            "deleted": s.FLAG,
            "forced": s.FLAG,
            "base_ref": s.nullable(s.TEXT),
            "compare": s.LINK,
            "commits": s.list_of(_COMMIT),
            "head_commit": s.nullable(_COMMIT),
            "pusher": s.record({"name": s.TEXT, "email": s.nullable(s.TEXT)}, optional=("email",)),
            "repository": s.REPOSITORY,
            "organization": s.ORGANIZATION,
            "sender": s.SENDER,
        },
        optional=("organization",),
    ),
)

PING = _document(
    "ping",
    {
        **s.record(
            {
                "zen": s.TEXT,
                "hook_id": s.INTEGER_ID,
                "hook": HOOK,
                "repository": s.REPOSITORY,
                "organization": s.ORGANIZATION,
                "sender": s.SENDER,
            },
            optional=("repository", "organization"),
        ),
        "anyOf": [{"required": ["repository"]}, {"required": ["organization"]}],
    },
)
