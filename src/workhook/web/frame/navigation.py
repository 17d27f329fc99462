"""The places of a project, as its tabs show them."""

from __future__ import annotations

from typing import NamedTuple

from workhook.web.frame.texts import gettext
from workhook.work.access import Access


class Place(NamedTuple):
    """A tab. `path` goes behind the address of the project; `go` is the letter that follows `g` on the keyboard."""

    name: str
    path: str
    icon: str
    label: str
    go: str = ""


def places_of(access: Access) -> list[Place]:
    """Those that the visitor may see, in their order."""
    places = [Place("board", "", "square-kanban", gettext("Board"), "b")]
    if not access.is_client:
        places.append(Place("time", "/time", "clock", gettext("Time"), "t"))
    if access.repository.role == "admin":
        places.append(Place("webhooks", "/webhooks", "webhook", gettext("Webhooks"), "w"))
    return places
