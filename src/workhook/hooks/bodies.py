"""What clients send in the webhook API, as JSON Schema for the document. `parsing` and `publishing` read it, with
errors of their own; `tests/api/protocol/test_schemathesis.py` holds the two together."""

from __future__ import annotations

from typing import Any

from workhook.events.catalog import ANY_EVENT, CATALOG, HookTarget, valid_for
from workhook.hooks.config_keys import Schema, config_schema


def _object(title: str, description: str, properties: Schema, *required: str, **more: Any) -> Schema:
    shown: Schema = {"title": title, "description": description, "type": "object", "properties": properties}
    return {**shown, **({"required": list(required)} if required else {}), **more}


def _events(target: HookTarget, description: str) -> Schema:
    names = [ANY_EVENT, *(name for name in CATALOG if valid_for(name, target))]
    items = {"type": "string", "enum": names}
    return {"description": description, "type": "array", "items": items, "examples": [["push"]]}


CONFIG_UPDATE = config_schema("ConfigUpdate", "What is absent stays as it is.")
_CONFIG_CREATE = config_schema("ConfigCreate", "What is absent is unset.", "url")
_REPLACES = "It replaces the configuration; without `secret` the secret is removed. An empty object changes nothing."
_CONFIG_REPLACE = config_schema(
    "ConfigReplace", f"{_REPLACES} A repository's webhook keeps its url where none is given."
)
# The spec: an organization's webhook must name its url again.
_CONFIG_REPLACE_WITH_URL = {
    **config_schema("OrganizationConfigReplace", _REPLACES),
    "anyOf": [{"required": ["url"]}, {"maxProperties": 0}],
}
_ACTIVE = {"description": "Whether events are sent.", "type": "boolean", "default": True}
_WEB = {"description": "Always `web`.", "type": "string", "const": "web"}
_ANY_NAME = {"description": "Ignored: it stays `web`.", "type": "string"}


def hook_create(target: HookTarget) -> Schema:
    properties = {
        "name": _WEB,
        "config": _CONFIG_CREATE,
        "events": _events(target, "What to be sent; `*` is every event. Absent or empty: `push`."),
        "active": _ACTIVE,
    }
    if target == "repository":
        return _object("RepositoryHookCreate", "A new webhook of a repository.", properties, "config")
    return _object("OrganizationHookCreate", "A new webhook of an organization.", properties, "name", "config")


def hook_update(target: HookTarget) -> Schema:
    properties = {
        "name": _ANY_NAME,
        "config": _CONFIG_REPLACE if target == "repository" else _CONFIG_REPLACE_WITH_URL,
        "events": _events(target, "Replaces the list. Empty: `push`."),
        "active": {key: value for key, value in _ACTIVE.items() if key != "default"},
    }
    if target == "repository":
        properties["add_events"] = _events(target, "Events to add, unless `events` is given.")
        properties["remove_events"] = {
            "description": "Events to remove, before any are added, unless `events` is given.",
            "type": "array",
            "items": {"type": "string"},
        }
    return _object(f"{target.capitalize()}HookUpdate", "What is absent stays as it is.", properties)


def _text(description: str, *, high: int, **more: Any) -> Schema:
    return {"description": description, "minLength": 1, "maxLength": high, "pattern": "^[^\\x00]*$", **more}


PUBLISH = _object(
    "Publish",
    "An event from another system.",
    {
        "event": {
            "description": "A name of the catalogue (GET `/webhook-events`); Workhook's own take an admin.",
            "type": "string",
            "enum": list(CATALOG),
            "examples": ["push"],
        },
        "payload": {
            "description": "It gets `repository`, `organization`, `sender` and `action` where it has none.",
            "type": "object",
            "examples": [{"ref": "refs/heads/main"}],
        },
        "action": {
            "description": "By default the payload's `action`.",
            "type": ["string", "null"],
            "pattern": "^[^\\x00]*$",
        },
        "id": _text(
            "The publisher's own name for the event: within 24 hours a repeat does nothing.",
            high=128,
            type=["string", "null"],
        ),
    },
    "event",
    "payload",
)

DISPATCH = _object(
    "Dispatch",
    "A `repository_dispatch` event.",
    {
        "event_type": _text("The event's action.", high=100, type="string", examples=["deploy"]),
        "client_payload": {"description": "Anything.", "type": "object", "maxProperties": 10},
    },
    "event_type",
)

_FILTER_TIME = {"type": ["string", "null"], "format": "date-time"}
REDELIVER = _object(
    "Redeliver",
    "Which deliveries to send again: those that fit every filter. Without any, all that failed. Events that "
    "wait already are left out. A thousand deliveries are looked at before the answer, the rest after it.",
    {
        "status": {
            "description": "`success` is a 2xx answer, `failure` everything else.",
            "enum": ["success", "failure", None],
        },
        "since": {"description": "Delivered at or after.", **_FILTER_TIME},
        "until": {"description": "Delivered at or before.", **_FILTER_TIME},
        "event": {
            "description": "Only this event.",
            "type": ["string", "null"],
            "pattern": "^[^\\x00]*$",
            "examples": ["push"],
        },
        "ids": {
            "description": "Only these deliveries.",
            "type": ["array", "null"],
            "items": {"type": "integer", "minimum": 1, "maximum": 2**53 - 1},
            "minItems": 1,
            "maxItems": 1000,
        },
    },
    additionalProperties=False,
)
