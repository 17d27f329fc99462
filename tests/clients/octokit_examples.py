"""The example payloads that Octokit publishes: real GitHub payloads collected by its users."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.node_tools import ensure_node_modules


class _Event(msgspec.Struct):
    name: str
    examples: list[dict[str, Any]]


def load_examples() -> list[tuple[str, dict[str, Any]]]:
    """Return every example as (event name, payload), in the package's order. A missing package is installed."""
    index = ensure_node_modules() / "@octokit" / "webhooks-examples" / "api.github.com" / "index.json"
    events = msgspec.json.decode(index.read_bytes(), type=list[_Event])
    return [(event.name, example) for event in events for example in event.examples]
