"""Which hooks an event reaches. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

ANY = "*"


def wants(subscribed: Sequence[str], event: str) -> bool:
    """`*` is every event, present and future."""
    return event in subscribed or ANY in subscribed


def matching(hooks: Iterable[tuple[int, Sequence[str]]], event: str) -> list[int]:
    """Ids of the hooks (id, subscribed names) that want the event."""
    return [hook_id for hook_id, subscribed in hooks if wants(subscribed, event)]
