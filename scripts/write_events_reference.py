"""Write docs/integrators/events.md from the catalog of events. `check_repository` compares the two.

python -m scripts.write_events_reference
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from workhook.events.catalog import CATALOG, CatalogEvent
from workhook.events.samples import sample

PAGE = Path(__file__).parent.parent / "docs" / "integrators" / "events.md"

HEAD = """# Events

A webhook receives the events listed in its `events`, or every event with `["*"]`. `GET /webhook-events` returns this
list with a JSON Schema for each payload that Workhook creates.

Every payload also contains `repository`, `organization` (in an organization's project), and `sender`, which is null
when Workhook acted by itself. The action `edited` adds `changes`, with the previous and the new value of each changed
field (`from`, `to`). [Deliveries](deliveries.md) describes the headers.

## Workhook's events

Workhook sends these when something changes. Only admins of a repository and owners of an organization can
[publish](publish.md) events with these names. The exceptions are {shared}: Git hosts use those names, too, so
everyone with write access can publish them.

The samples show every field that an event can have; `payment`, `credit_note`, and `commit` are present only if the
action involves one. The `email` of a person is always a placeholder.
"""
_OTHERS = """
## GitHub's events

Other systems, such as your Git server or CI, [publish](publish.md) these events. Workhook sends their payloads
unchanged, except that it adds `repository`, `organization`, and `sender` if they are missing. Actions other than those
listed are allowed.

| event | published when | actions |
| --- | --- | --- |
"""


def render() -> str:
    """Return the whole page."""
    own = [each for each in CATALOG.values() if each.origin == "own"]
    others = [each for each in CATALOG.values() if each.origin != "own"]
    head = HEAD.replace("{shared}", " and ".join(f"`{each.name}`" for each in own if each.shared))
    return head + "".join(part for each in own for part in _section(each)) + _OTHERS + "".join(map(_row, others))


def _section(event: CatalogEvent) -> Iterator[str]:
    yield f"\n### {event.name}\n\n{event.description}\n\n"
    if event.actions:
        yield f"Actions: {_codes(event.actions)}.\n\n"
    if event.targets == {"organization"}:
        yield "Only webhooks of organizations receive this event.\n\n"
    example = json.dumps(sample(event.name, around=False), indent=2, ensure_ascii=False)
    yield f"```json\n{example}\n```\n"


def _row(event: CatalogEvent) -> str:
    return f"| `{event.name}` | {event.description} | {_codes(event.actions)} |\n"


def _codes(words: tuple[str, ...]) -> str:
    return ", ".join(f"`{each}`" for each in words)


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
