"""JSON Schema (draft 2020-12) of the payloads that Workhook itself makes.

They are documentation, served with the catalogue, and the measure of the events that the tests see. What others
publish is not held against them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from workhook.core import json
from workhook.events.fragments import (
    CHANGES,
    EMAIL,
    FLAG,
    INTEGER_ID,
    LINK,
    MOMENT,
    ORGANIZATION,
    REPOSITORY,
    SENDER,
    TEXT,
    Schema,
    list_of,
    nullable,
    one_of,
    record,
)

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


_HOOK_CONFIG = record(
    {"url": TEXT, "content_type": TEXT, "insecure_ssl": one_of("0", "1"), "secret": TEXT},
    optional=("url", "content_type", "insecure_ssl", "secret"),
)

_LAST_RESPONSE = record({"code": nullable({"type": "integer"}), "status": nullable(TEXT), "message": nullable(TEXT)})

HOOK = record(
    {
        "type": one_of("Repository", "Organization"),
        "id": INTEGER_ID,
        "name": one_of("web"),
        "active": FLAG,
        "events": list_of(TEXT),
        "config": _HOOK_CONFIG,
        "created_at": MOMENT,
        "updated_at": MOMENT,
        "url": LINK,
        "ping_url": LINK,
        "deliveries_url": LINK,
        "test_url": LINK,
        "last_response": nullable(_LAST_RESPONSE),
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
    body = record(
        {
            "action": one_of(*actions),
            name: RESOURCES[name],
            "changes": CHANGES,
            "repository": nullable(REPOSITORY) if lacks_repository else REPOSITORY,
            "organization": ORGANIZATION,
            "sender": SENDER,
        },
        # A user's own project is in no organization.
        optional=("changes", "organization", "repository") if lacks_repository else ("changes", "organization"),
    )
    return _document(name, body | _EDITED_HAS_CHANGES if "edited" in actions else body)


_SHA: Schema = {"type": "string", "pattern": "^([0-9a-f]{40}|[0-9a-f]{64})$"}

_AUTHOR = record(
    {"name": TEXT, "email": nullable(EMAIL), "username": TEXT, "date": MOMENT}, optional=("username", "date")
)

_COMMIT = record(
    {
        "id": _SHA,
        "tree_id": _SHA,
        "distinct": FLAG,
        "message": TEXT,
        "timestamp": MOMENT,
        "url": LINK,
        "author": _AUTHOR,
        "committer": _AUTHOR,
        "added": list_of(TEXT),
        "removed": list_of(TEXT),
        "modified": list_of(TEXT),
    }
)

PUSH = _document(
    "push",
    record(
        {
            "ref": {"type": "string", "pattern": "^refs/", "description": "the full name of the branch or tag"},
            "before": {**_SHA, "description": "all zeros when the ref is new"},
            "after": {**_SHA, "description": "all zeros when the ref was deleted"},
            "created": FLAG,
            "deleted": FLAG,
            "forced": FLAG,
            "base_ref": nullable(TEXT),
            "compare": LINK,
            "commits": list_of(_COMMIT),
            "head_commit": nullable(_COMMIT),
            "pusher": record({"name": TEXT, "email": nullable(TEXT)}, optional=("email",)),
            "repository": REPOSITORY,
            "organization": ORGANIZATION,
            "sender": SENDER,
        },
        optional=("organization",),
    ),
)

PING = _document(
    "ping",
    {
        **record(
            {
                "zen": TEXT,
                "hook_id": INTEGER_ID,
                "hook": HOOK,
                "repository": REPOSITORY,
                "organization": ORGANIZATION,
                "sender": SENDER,
            },
            optional=("repository", "organization"),
        ),
        "anyOf": [{"required": ["repository"]}, {"required": ["organization"]}],
    },
)
