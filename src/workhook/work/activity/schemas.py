"""What happened, on the wire."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.http.lists import ListQuery
from workhook.http.parameters import Moment
from workhook.work.people import PersonShape

Payload = Annotated[
    msgspec.Raw,
    Meta(description="What webhooks get.", extra_json_schema={"type": "object", "additionalProperties": True}),
]


class ActivityQuery(ListQuery):
    """`event`: its name. `actor`: a username. `since`: nothing older."""

    event: Annotated[str, Meta(description="Name of the event.")] | UnsetType = UNSET
    actor: Annotated[str, Meta(description="Username of who did it.")] | UnsetType = UNSET
    since: Moment | UnsetType = UNSET


class ActivityShape(msgspec.Struct):
    """`actor` is null where Workhook acted by itself."""

    id: int
    event: str
    action: str | None
    actor: PersonShape | None
    created_at: str
    payload: Payload


class ActivityAnswer(msgspec.Struct):
    activity: list[ActivityShape]
    success: bool = True


class StreamQuery(msgspec.Struct):
    """The header `Last-Event-ID` wins."""

    last_event_id: (
        Annotated[int, Meta(ge=0, le=2**53 - 1, description="Everything after this event; without it what is new.")]
        | UnsetType
    ) = UNSET
