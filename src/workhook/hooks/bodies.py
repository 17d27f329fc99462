"""Request bodies about hooks: JSON Schemas for the API document, and parsers with the errors that clients expect. Pure.

`hooks.publishing` and `hooks.deliveries` parse the other bodies. `tests/api/protocol/test_schemathesis.py` checks that
schemas and parsers agree.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import islice
from typing import Any, get_origin

import msgspec
from msgspec import UNSET, UnsetType

from workhook.core.errors import FAULTS_MAX, SHOWN_MAX_CHARS, Fault, Invalid, shown
from workhook.events.catalog import ANY_EVENT, CATALOG, HookTarget, rejection_reason, valid_for
from workhook.events.hook_config import ConfigChange, Schema, config_schema, fault, mask_faults, parse_config


def _object(title: str, description: str, properties: Schema, *required: str, **more: Any) -> Schema:
    shown: Schema = {"title": title, "description": description, "type": "object", "properties": properties}
    return {**shown, **({"required": list(required)} if required else {}), **more}


def _events(target: HookTarget, description: str) -> Schema:
    names = [ANY_EVENT, *(name for name in CATALOG if valid_for(name, target))]
    items = {"type": "string", "enum": names}
    return {"description": description, "type": "array", "items": items, "examples": [["push"]]}


CONFIG_UPDATE = config_schema("ConfigUpdate", "Omitted fields are left unchanged.")
_CONFIG_CREATE = config_schema("ConfigCreate", "Omitted settings are unset.", "url")
_REPLACES = "Replaces the configuration. Without `secret`, the secret is removed. An empty object changes nothing."
_CONFIG_REPLACE = config_schema("ConfigReplace", f"{_REPLACES} Without `url`, the URL is kept.")
# As specified, an organization's webhook must repeat its url.
_CONFIG_REPLACE_WITH_URL = {
    **config_schema("OrganizationConfigReplace", _REPLACES),
    "anyOf": [{"required": ["url"]}, {"maxProperties": 0}],
}
_ACTIVE = {"description": "Whether events are sent.", "type": "boolean", "default": True}
_WEB = {"description": "Always `web`.", "type": "string", "const": "web"}
_ANY_NAME = {"description": "Ignored. The name is always `web`.", "type": "string"}


def hook_create(target: HookTarget) -> Schema:
    properties = {
        "name": _WEB,
        "config": _CONFIG_CREATE,
        "events": _events(target, "Events to send; `*` means every event. If omitted or empty: `push`."),
        "active": _ACTIVE,
    }
    if target == "repository":
        return _object("RepositoryHookCreate", "A new webhook of a repository.", properties, "config")
    return _object("OrganizationHookCreate", "A new webhook of an organization.", properties, "name", "config")


def hook_update(target: HookTarget) -> Schema:
    properties = {
        "name": _ANY_NAME,
        "config": _CONFIG_REPLACE if target == "repository" else _CONFIG_REPLACE_WITH_URL,
        "events": _events(target, "Replaces the list of events. If empty: `push`."),
        "active": {key: value for key, value in _ACTIVE.items() if key != "default"},
    }
    if target == "repository":
        properties["add_events"] = _events(target, "Events to add, unless `events` is given.")
        properties["remove_events"] = {
            "description": "Events to remove before others are added, unless `events` is given.",
            "type": "array",
            "items": {"type": "string"},
        }
    return _object(f"{target.capitalize()}HookUpdate", "Omitted fields are left unchanged.", properties)


def _text(description: str, *, high: int, **more: Any) -> Schema:
    return {"description": description, "minLength": 1, "maxLength": high, "pattern": "^[^\\x00]*$", **more}


def _text_or_null(description: str, **more: Any) -> Schema:
    return {"description": description, "type": ["string", "null"], **more}


_NO_NUL = "^[^\\x00]*$"
PUBLISH = _object(
    "EventCreate",
    "An event from another system.",
    {
        "event": {
            "description": "A name from `GET /webhook-events`. Only an admin may publish Workhook's own events. "
            "An event with a name of your own is a `repository_dispatch`: `POST /repos/{owner}/{repo}/dispatches`.",
            "type": "string",
            "enum": list(CATALOG),
            "examples": ["push"],
        },
        "payload": {
            "description": "`repository`, `organization`, `sender`, and `action` are added if they are missing.",
            "type": "object",
            "examples": [{"ref": "refs/heads/main"}],
        },
        "action": _text_or_null("Default: the payload's `action`.", pattern=_NO_NUL),
        "id": _text(
            "The publisher's own ID for the event. Publishing it again within 24 hours has no effect.",
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
        "client_payload": {"description": "Any JSON object.", "type": "object", "maxProperties": 10},
    },
    "event_type",
)
_OUTCOME = "`success`: a 2xx response; `failure`: anything else."
REDELIVER = _object(
    "RedeliveryCreate",
    "The deliveries to send again: those that match every filter or, without filters, all that failed. Events that "
    "are already waiting are left out. A thousand deliveries are processed before the response, the rest afterwards.",
    {
        "status": {"description": _OUTCOME, "enum": ["success", "failure", None]},
        "since": _text_or_null("Delivered at or after this time.", format="date-time"),
        "until": _text_or_null("Delivered at or before this time.", format="date-time"),
        "event": _text_or_null("Only this event.", pattern=_NO_NUL, examples=["push"]),
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


class HookChange(msgspec.Struct):
    """A valid create or update. Absent fields are UNSET."""

    config: ConfigChange | None = None
    events: list[str] | UnsetType = UNSET
    add_events: list[str] = msgspec.field(default_factory=list)
    remove_events: list[str] = msgspec.field(default_factory=list)
    active: bool | UnsetType = UNSET


_KINDS: dict[type, str] = {str: "a string", dict: "an object", list: "an array", bool: "a boolean"}
_CREATE: dict[str, Any] = {"name": str, "config": dict, "events": list[str], "active": bool}
_UPDATE = {**_CREATE, "add_events": list[str], "remove_events": list[str]}


def _wrong_type(name: str, value: object, wanted: str) -> str:
    text = "nil" if value is None else shown(msgspec.json.encode(value).decode())
    return f"For 'properties/{name}', {text} is not {wanted}."


def check_types(body: Mapping[str, Any], kinds: Mapping[str, Any], *, nullable: Collection[str] = ()) -> None:
    """Raise `Invalid` listing every property whose JSON type differs from `kinds`."""
    complaints = []
    for name, kind in kinds.items():
        value = body.get(name)
        if name not in body or (value is None and name in nullable):
            continue
        plain = get_origin(kind) or kind
        if not isinstance(value, plain):
            complaints.append(_wrong_type(name, value, _KINDS[plain]))
        elif kind == list[str]:
            wrong = (item for item in value if not isinstance(item, str))
            complaints += [_wrong_type(f"{name}/items", item, "a string") for item in islice(wrong, FAULTS_MAX)]
    if complaints:
        raise Invalid("\n\n".join(["Invalid request.", *complaints[:FAULTS_MAX]]), code="wrong_type")


def parse_hook(
    body: Mapping[str, Any], target: HookTarget, check_url: Callable[[str], str | None], *, creating: bool
) -> HookChange:
    """Parse a body that creates or updates a hook. Raises `Invalid` listing every fault."""
    fields = _UPDATE if not creating and target == "repository" else _CREATE
    check_types(body, fields)
    faults: list[Fault] = []
    if creating and ("name" in body or target == "organization") and body.get("name") != "web":
        encoded = msgspec.json.encode(name := body.get("name"))
        echo = name if len(encoded) <= 4 * SHOWN_MAX_CHARS else shown(encoded.decode())
        faults.append(Fault(resource="Hook", field="name", code="invalid", value=echo))
    change = HookChange(active=body.get("active", UNSET))
    for name in ("events", "add_events", "remove_events"):
        if name in fields and name in body:
            names = list(dict.fromkeys(body[name]))
            if name != "remove_events":
                unknown = (name for name in names if name != ANY_EVENT and not valid_for(name, target))
                faults += [fault(rejection_reason(name, target)) for name in islice(unknown, FAULTS_MAX)]
            setattr(change, name, names)
    if change.events == []:
        change.events = ["push"]
    if body.get("config") or creating:
        change.config = parse_config(body.get("config", {}), check_url, faults)
        if creating:
            faults += mask_faults(change.config)
        must_have_url = creating or target == "organization"
        if must_have_url and not change.config.shown.get("url") and all(each.field != "url" for each in faults):
            faults.append(fault("url cannot be blank", field="url"))
    if faults:
        raise Invalid(faults=faults)
    return change
