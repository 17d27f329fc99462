"""Fields in which an import keeps data from another service, such as `trello_url`.

They are hidden from clients, and pages show them separately from the fields that people have added.
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
"""The field names of each import. Others, such as `github_repo`, are fields that people have added."""


def source_of(name: str) -> str | None:
    """Return the name of the service that an import field belongs to, or None for any other field."""
    source, _, kept = name.partition("_")
    return SOURCES[source] if kept in _KEPT.get(source, ()) else None


def own_fields(fields: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in fields.items() if source_of(name) is None}


def own_fields_text(fields: str) -> str:
    """Apply `own_fields` to stored JSON. The text is returned unchanged if it has no import fields."""
    if not any(f'"{source}_' in fields for source in SOURCES):
        return fields
    return json.encode_text(own_fields(json.decode(fields)))


class Imported(NamedTuple):
    """Data of a task that was kept by an import. `url` is the task's page in the other service, or None if unknown."""

    source: str
    url: str | None
    fields: Mapping[str, str]


def imported_of(fields: Mapping[str, str]) -> Imported | None:
    """Return the imported data among the fields, keyed without the service prefix, or None if there is none."""
    found = {name: source for name in fields if (source := source_of(name)) is not None}
    if not found:
        return None
    source = next(iter(found.values()))
    kept = {name.partition("_")[2].replace("_", " "): fields[name] for name in found}
    url = kept.pop("url", "")
    return Imported(source, url if url.startswith(("https://", "http://")) else None, kept)
