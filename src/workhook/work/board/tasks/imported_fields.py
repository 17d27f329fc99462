"""Fields in which an import keeps what a task had elsewhere, such as `trello_url`.

They are for the team: clients see none of them, and pages show them apart from the fields that people have made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from workhook.core import json

SOURCES = {"trello": "Trello", "asana": "Asana", "github": "GitHub", "csv": "CSV"}
_KEPT: Mapping[str, frozenset[str]] = {
    "trello": frozenset({"attachments", "cover", "due", "list", "members", "start", "url", "votes"}),
    "asana": frozenset({"actual_minutes", "due", "likes", "members", "start", "type", "url"}),
    "github": frozenset({"author", "members", "milestone", "number", "reason", "type", "url"}),
    "csv": frozenset({"members"}),
}
"""The fields of each import. Others, such as `github_repo`, are fields that people have made."""


def source_of(name: str) -> str | None:
    """Return the name of the service that a field of an import is about, or None for any other field."""
    source, _, kept = name.partition("_")
    return SOURCES[source] if kept in _KEPT.get(source, ()) else None


def own_fields(fields: Mapping[str, str]) -> dict[str, str]:
    """Return the fields that people have made."""
    return {name: value for name, value in fields.items() if source_of(name) is None}


def own_fields_text(fields: str) -> str:
    """`own_fields` of stored JSON, which stays as it is where all of them are."""
    if not any(f'"{source}_' in fields for source in SOURCES):
        return fields
    return json.encode_text(own_fields(json.decode(fields)))


class Imported(NamedTuple):
    """Facts of a task that an import kept. `url`: its page there, or None if unknown."""

    source: str
    url: str | None
    fields: Mapping[str, str]


def imported_of(fields: Mapping[str, str]) -> Imported | None:
    """Return the facts that an import kept among the fields, by their names without that of the service."""
    found = {name: source for name in fields if (source := source_of(name)) is not None}
    if not found:
        return None
    source = next(iter(found.values()))
    kept = {_label(name): fields[name] for name in found}
    url = kept.pop("url", "")
    return Imported(source, url if url.startswith(("https://", "http://")) else None, kept)


def _label(name: str) -> str:
    return name.partition("_")[2].replace("_", " ")
