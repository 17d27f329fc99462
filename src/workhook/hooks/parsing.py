"""Parses what clients send about hooks, with the errors that they expect. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import islice
from typing import Any, get_origin

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


_KINDS: dict[type, str] = {str: "a string", dict: "an object", list: "an array", bool: "a boolean"}
_CREATE: dict[str, Any] = {"name": str, "config": dict, "events": list[str], "active": bool}
_UPDATE = {**_CREATE, "add_events": list[str], "remove_events": list[str]}


def wrong_type(name: str, value: object, wanted: str) -> str:
    text = "nil" if value is None else shown(msgspec.json.encode(value).decode())
    return f"For 'properties/{name}', {text} is not {wanted}."


def refuse_types(complaints: list[str]) -> None:
    """Raises `Invalid` if there are complaints of `wrong_type`."""
    if complaints:
        raise Invalid("\n\n".join(["Invalid request.", *complaints[:FAULTS_MAX]]), code="wrong_type")


def check_types(body: Mapping[str, Any], kinds: Mapping[str, Any], *, nullable: Collection[str] = ()) -> None:
    """Raises `Invalid` with a message that names every property whose JSON type is not the one in `kinds`."""
    complaints = []
    for name, kind in kinds.items():
        value = body.get(name)
        if name not in body or (value is None and name in nullable):
            continue
        plain = get_origin(kind) or kind
        if not isinstance(value, plain):
            complaints.append(wrong_type(name, value, _KINDS[plain]))
        elif kind == list[str]:
            wrong = (item for item in value if not isinstance(item, str))
            complaints += [wrong_type(f"{name}/items", item, "a string") for item in islice(wrong, FAULTS_MAX)]
    refuse_types(complaints)


def parse_hook(
    body: Mapping[str, Any], target: str, check_url: Callable[[str], str | None], *, creating: bool
) -> HookChange:
    """A create or update of a hook of `target` (repository or organization). Raises `Invalid` with every fault."""
    fields = _UPDATE if not creating and target == "repository" else _CREATE
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
