"""Parses what clients send about hooks, with the errors that they expect. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from workhook.core.errors import FAULTS_MAX, SHOWN_MAX_CHARS, Fault, Invalid, shown
from workhook.events.catalog import ANY_EVENT, HookTarget, valid_for
from workhook.hooks.config_keys import ConfigChange, fault, parse_config


class HookChange(msgspec.Struct):
    """A create or update without faults of its own. Fields are UNSET where absent."""

    config: ConfigChange | None = None
    events: list[str] | UnsetType = UNSET
    add_events: list[str] = msgspec.field(default_factory=list)
    remove_events: list[str] = msgspec.field(default_factory=list)
    active: bool | UnsetType = UNSET


_TYPES: dict[str, tuple[type, str]] = {
    "name": (str, "a string"),
    "config": (dict, "an object"),
    "events": (list, "an array"),
    "add_events": (list, "an array"),
    "remove_events": (list, "an array"),
    "active": (bool, "a boolean"),
}


def wrong_type(name: str, value: object, wanted: str) -> str:
    text = "nil" if value is None else shown(msgspec.json.encode(value).decode())
    return f"For 'properties/{name}', {text} is not {wanted}."


def refuse_types(complaints: list[str]) -> None:
    """Raises `Invalid` if there are complaints of `wrong_type`."""
    if complaints:
        raise Invalid("\n\n".join(["Invalid request.", *complaints[:FAULTS_MAX]]), code="wrong_type")


def check_types(body: Mapping[str, Any], fields: tuple[str, ...]) -> None:
    """Raises `Invalid` with a message that names every property of the wrong JSON type."""
    complaints = []
    for name in fields:
        if name not in body:
            continue
        kind, wanted = _TYPES[name]
        value = body[name]
        if not isinstance(value, kind):
            complaints.append(wrong_type(name, value, wanted))
        elif isinstance(value, list):
            wrong = (item for item in value if not isinstance(item, str))
            complaints += [wrong_type(f"{name}/items", item, "a string") for item in islice(wrong, FAULTS_MAX)]
    refuse_types(complaints)


def parse_hook(
    body: Mapping[str, Any], target: str, check_url: Callable[[str], str | None], *, creating: bool
) -> HookChange:
    """A create or update of a hook of `target` (repository or organization). Raises `Invalid` with every fault."""
    fields: tuple[str, ...] = ("name", "config", "events", "active")
    if not creating and target == "repository":
        fields += ("add_events", "remove_events")
    check_types(body, fields)
    faults: list[Fault] = []
    if creating and ("name" in body or target == "organization") and body.get("name") != "web":
        faults.append(Fault(resource="Hook", field="name", code="invalid", value=_echo(body.get("name"))))
    change = HookChange(active=body.get("active", UNSET))
    for name in ("events", "add_events", "remove_events"):
        if name in fields and name in body:
            names = list(dict.fromkeys(body[name]))
            if name != "remove_events":
                faults += unknown_events(names, target)
            setattr(change, name, names)
    if change.events == []:
        change.events = ["push"]
    if body.get("config") or creating:
        change.config = parse_config(body.get("config", {}), check_url, faults)
        must_have_url = creating or target == "organization"
        if must_have_url and not change.config.shown.get("url") and all(each.field != "url" for each in faults):
            faults.append(fault("url cannot be blank", field="url"))
    if faults:
        raise Invalid(faults=faults)
    return change


def unknown_events(names: list[str], target: str) -> list[Fault]:
    kind: HookTarget = "repository" if target == "repository" else "organization"
    unknown = (name for name in names if name != ANY_EVENT and not valid_for(name, kind))
    return [fault(f"{shown(name)} is not a valid event name") for name in islice(unknown, FAULTS_MAX)]


def _echo(value: object) -> object:
    encoded = msgspec.json.encode(value)
    return value if len(encoded) <= 4 * SHOWN_MAX_CHARS else shown(encoded.decode())


def _complained(faults: list[Fault], field: str) -> bool:
    return any(each.field == field for each in faults)
