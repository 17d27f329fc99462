"""A sample payload for each event in the catalog, generated from its schema, and the quotes sent with pings.

A sample shows the structure, with invented IDs and names. If the catalog has no schema because others publish the
event, the sample has the fields common to all events.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from workhook.events.catalog import CATALOG, CatalogEvent

AROUND = ("repository", "organization", "sender")  # added on publishing to a payload that lacks them

_MOMENT = "2026-11-24T09:00:00Z"
_SHA = "6dcb09b5b57875f334f61aebed695e2e4193db5e"
_FORMATS = {
    "date-time": _MOMENT,
    "date": "2026-11-24",
    "uri": "https://example.com/sample",
    "email": "ada@example.com",
}
_NAMED: Mapping[str, str] = {
    "login": "ada",
    "username": "ada",
    "name": "Ada",
    "repository.name": "website",
    "repository.owner.login": "acme",
    "repository.owner.type": "Organization",
    "organization.login": "acme",
    "column.title": "In progress",
    "project.title": "Website",
    "hook.name": "web",
    "title": "Homepage draft",
    "full_name": "acme/website",
    "description": "A sample",
    "message": "A sample commit",
    "body": "A sample comment",
    "ref": "refs/heads/main",
    "zen": "A sample",
    "currency": "EUR",
    "default_branch": "main",
    "number": "2026-0001",
    "label": "design",
    "content_type": "json",
    "secret": "********",
}
_PATTERNS = {
    "{64}": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "{40}": _SHA,
    r"\d\d$": "80.00",
    r"\d{2,3})?$": "80.00",
}
_ID = "{26}"  # pattern of the part after an ID's prefix
_UNSET = frozenset({"completed_at", "deleted_at", "avatar", "base_ref"})  # null in the common case
_FLAGS_SET = frozenset({"active", "distinct", "billable"})


def sample(name: str, action: str | None = None, *, around: bool = True) -> dict[str, Any]:
    """Return the payload of the event `name` with this action, or with its first action.

    `around` includes repository, organization and sender. Raises `KeyError` for an unknown name.
    """
    actions = CATALOG[name].actions
    made = dict(_sample(name, action or (actions[0] if actions else None)))
    return made if around else {key: value for key, value in made.items() if key not in AROUND}


@lru_cache(maxsize=1024)
def _sample(name: str, action: str | None) -> Mapping[str, Any]:
    event = CATALOG[name]
    payload: dict[str, Any] = {} if action is None else {"action": action}
    if event.schema is None:
        common = CATALOG["task"].schema
        assert common is not None, "it is one of Workhook's own events"
        return payload | {each: _value(each, _properties(common)[each]) for each in AROUND}
    for key, schema in _properties(event.schema).items():
        if key == "action" or (key == "changes" and action != "edited"):
            continue
        payload[key] = _changes(event) if key == "changes" else _value(key, schema)
    return payload


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = schema.get("properties", {})
    return found


def _changes(event: CatalogEvent) -> dict[str, Any]:
    assert event.schema is not None
    fields = _properties(_properties(event.schema).get(event.name, {}))
    changed = next((each for each in ("title", "name", "body", "description") if each in fields), "updated_at")
    return {changed: {"from": "Before", "to": _value(changed, fields.get(changed, {"type": "string"}))}}


def _value(path: str, schema: Mapping[str, Any]) -> Any:
    """Return a sample value. `path` contains the names of the enclosing fields, separated by dots."""
    if "anyOf" in schema:
        return _value(path, schema["anyOf"][0])
    if "const" in schema:
        return schema["const"]
    kinds = schema.get("type", "string")
    key = path.rpartition(".")[2]
    if key in _UNSET and isinstance(kinds, list) and "null" in kinds:
        return None
    if schema.get("enum"):
        return schema["enum"][0]
    kind = kinds if isinstance(kinds, str) else next(each for each in kinds if each != "null")
    if kind == "object":
        if isinstance(free := schema.get("additionalProperties"), Mapping):
            return {"sample": _value("sample", free)}
        return {each: _value(f"{path}.{each}", inner) for each, inner in _properties(schema).items()}
    if kind == "array":
        return [_value(path.removesuffix("s"), schema.get("items", {}))]
    if kind == "boolean":
        return key in _FLAGS_SET
    if kind in ("integer", "number"):
        return max(1, schema.get("minimum", 1))
    return _text(path, schema)


def _text(path: str, schema: Mapping[str, Any]) -> str:
    if schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    pattern = str(schema.get("pattern", ""))
    for part, text in _PATTERNS.items():
        if part in pattern:
            return text
    if _ID in pattern:
        return pattern.removeprefix("^").partition("[")[0] + "0" * 26
    for known in (path, ".".join(path.split(".")[-2:]), path.rpartition(".")[2]):
        if known in _NAMED:
            return _NAMED[known]
    return "sample"


# --- pings -----------------------------------------------------------------------------------------------------------

PING_QUOTES: tuple[str, ...] = (
    "Say it once, and say it signed.",
    "What was written down can be told again.",
    "A slow reader holds up only its own post.",
    "Promise little, deliver at least once.",
    "Name things as those who use them do.",
    "An error that speaks is half mended.",
    "First make it durable, then make it known.",
    "The best retry is the one nobody notices.",
    "Every door has two sides: check both.",
    "Small steps leave short logs.",
    "Silence from a receiver is an answer too.",
    "Leave the desk as you would like to find it.",
)


def random_quote() -> str:
    return random.choice(PING_QUOTES)  # noqa: S311 - nothing is kept secret by it
