"""The catalogue of event names: those that GitHub's webhooks use, and Workhook's own.

Everything is made once at import; a look-up reads a dict. The names, their actions and the kinds of hook that may have
them stand in `github_names.json` and, after the "Events" section of the work API, in `own_names.json`.
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
    """One name of the catalogue.

    `actions` are the known ones: a payload may carry others. `targets` are the kinds of hook that may name the
    event; a hook on `*` gets it in any case. Events that only apps get on GitHub (such as `merge_group`) may be named
    by all hooks: apps have no hooks of their own here. `shared`: receivers know the name from code hosting, so that
    others may publish it. `origin`: `own` where Workhook makes the payload from its resources (`schema` describes it).
    """

    name: str
    actions: tuple[str, ...]
    meaning: str
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

LISTING: list[dict[str, object]] = [
    {
        "name": event.name,
        "actions": event.actions,
        "description": event.meaning,
        "targets": sorted(event.targets),
        "schema": event.schema,
    }
    for event in CATALOG.values()
]
"""The answer of GET `/webhook-events`, by name."""


def valid_for(name: str, target: HookTarget) -> bool:
    """Tell whether the `events` of a hook of that kind may name it; `*` always may be."""
    return name in _VALID[target]


def known(name: str) -> bool:
    """Tell whether the name is in the catalogue, including names that only hooks on `*` receive."""
    return name in CATALOG


def why_not(name: str, target: HookTarget | None = None) -> str:
    """Return why webhooks of that kind cannot name the event; without a kind, why it cannot be published."""
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
    """Tell whether every writer may publish events of this name: not where only Workhook knows what happened."""
    return name in CATALOG and CATALOG[name].shared
