"""The catalog of event names: those of GitHub's webhooks, and Workhook's own.

Everything is built once at import; a lookup reads a dict. The names, their actions and the kinds of webhook that may
list them are in `github_names.json` and, for Workhook's own events, in `own_names.json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from types import MappingProxyType
from typing import Literal

import msgspec

from workhook.core.errors import say, shown
from workhook.events import schemas
from workhook.events.schemas import Schema

HookTarget = Literal["repository", "organization"]

ANY_EVENT = "*"


class CatalogEvent(msgspec.Struct, frozen=True):
    """One event name of the catalog.

    `actions` are the known ones; a payload may have others. `targets` are the kinds of webhook that may list the event;
    a webhook on `*` always receives it. Events that only apps receive on GitHub (such as `merge_group`) may be listed
    by all webhooks, because apps have no webhooks of their own here. `shared` events are common on code hosting
    platforms, so publishers may use the name. `origin` is `own` if Workhook creates the payload from its own resources
    (described by `schema`).
    """

    name: str
    actions: tuple[str, ...]
    description: str
    targets: frozenset[str]
    origin: Literal["common", "own"]
    shared: bool
    schema: Schema | None = None


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One name in `github_names.json` or `own_names.json`."""

    meaning: str
    targets: frozenset[str]
    actions: tuple[str, ...]


def _rows(file_name: str) -> dict[str, _Row]:
    source = resources.files(__package__).joinpath(file_name).read_bytes()
    return msgspec.json.decode(source, type=dict[str, _Row])


def _catalog() -> dict[str, CatalogEvent]:
    made_here = {"push": schemas.PUSH, "ping": schemas.PING}
    events = {}
    for name, row in _rows("github_names.json").items():
        targets = row.targets | {"repository", "organization"} if row.targets == {"app"} else row.targets
        events[name] = CatalogEvent(name, row.actions, row.meaning, targets, "common", True, made_here.get(name))
    for name, row in _rows("own_names.json").items():
        actions, targets, common = row.actions, row.targets, events.get(name)
        if common is not None:
            actions += tuple(action for action in common.actions if action not in actions)
            targets |= common.targets
        schema = schemas.own_event(name, row.actions)
        events[name] = CatalogEvent(name, actions, row.meaning, targets, "own", common is not None, schema)
    return dict(sorted(events.items()))


CATALOG: Mapping[str, CatalogEvent] = MappingProxyType(_catalog())

_VALID: Mapping[str, frozenset[str]] = {
    target: frozenset(event.name for event in CATALOG.values() if target in event.targets) | {ANY_EVENT}
    for target in ("repository", "organization")
}

EVENT_TYPES: list[dict[str, object]] = [
    {
        "name": event.name,
        "actions": event.actions,
        "description": event.description,
        "targets": sorted(event.targets),
        "schema": event.schema,
    }
    for event in CATALOG.values()
]
"""The response of `GET /webhook-events`, by name."""


def valid_for(name: str, target: HookTarget) -> bool:
    """Return whether webhooks of that kind may list the event. `*` is always allowed."""
    return name in _VALID[target]


def known(name: str) -> bool:
    """Return whether the name is in the catalog, including names that only webhooks on `*` receive."""
    return name in CATALOG


def rejection_reason(name: str, target: HookTarget | None = None) -> str:
    """Return why webhooks of that kind cannot list the event or, without a kind, why it cannot be published."""
    if target is not None and name in CATALOG:
        if any(name in names for names in _VALID.values()):
            others = "organizations" if target == "repository" else "repositories"
            return say('Only webhooks of {} can name the event "{}".', others, name)
        return say('A webhook cannot subscribe to the event "{}" by name. Subscribe to "*" to receive it.', name)
    return say(
        'Unknown event "{}". List events with GET /webhook-events; publish your own with POST …/dispatches.',
        shown(name),
    )


def publishable(name: str) -> bool:
    """Return whether any writer may publish events of this name. False for those that only Workhook can know about."""
    return name in CATALOG and CATALOG[name].shared
