"""`/projects/{id}/activity` and `/projects/{id}/stream`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.core.clock import to_millis_text
from workhook.core.errors import Fault, Invalid
from workhook.http import lists
from workhook.http.calls import Answer, Call
from workhook.http.endpoints import Listed, Routes
from workhook.http.operations import WORK_API
from workhook.http.parameters import Moment
from workhook.identity.authenticator import actor_of
from workhook.storage import Row
from workhook.work.history.activity import live, queries
from workhook.work.kernel.access import find_access
from workhook.work.kernel.people import PersonShape, person_of_row
from workhook.work.kernel.schemas import if_set

routes = Routes(WORK_API, "Activity", read="work.read", write="work.write")
ID_MAX = 2**53 - 1
LAST_EVENT_ID = "Last-Event-ID"

Payload = Annotated[
    msgspec.Raw,
    Meta(
        description="The payload that webhooks get.", extra_json_schema={"type": "object", "additionalProperties": True}
    ),
]


class ActivityQuery(lists.ListQuery):
    """`event`: its name. `actor`: a username. `since`: nothing older."""

    event: Annotated[str, Meta(description="Name of the event.")] | UnsetType = UNSET
    actor: Annotated[str, Meta(description="Username of the person who did it.")] | UnsetType = UNSET
    since: Moment | UnsetType = UNSET


class ActivityShape(msgspec.Struct):
    """Something that happened. `actor` is null if Workhook acted by itself. `published`: the actor told of it, by
    publishing an event; Workhook did not see it happen."""

    id: int
    event: str
    action: str | None
    actor: PersonShape | None
    created_at: str
    published: bool
    payload: Payload


class ActivityAnswer(msgspec.Struct):
    activity: list[ActivityShape]
    success: bool = True


class StreamQuery(msgspec.Struct):
    """The header `Last-Event-ID` wins."""

    last_event_id: (
        Annotated[int, Meta(ge=0, le=2**53 - 1, description="Everything after this event. Default: new events only.")]
        | UnsetType
    ) = UNSET


@routes.get("/projects/{id}/activity")
async def list_activity(call: Call, project_id: str, query: ActivityQuery) -> Listed[ActivityAnswer]:
    """List what happened in a project, the newest first.

    Not for clients. Events that other systems published are listed, too; pings and the like are not. A page is shorter
    if payloads are very long. Events are kept as long as deliveries.
    """
    key = lists.after(query, tuple[int])
    access = await find_access(call.database, actor_of(call), project_id)
    access.require_member("see what happens in a project")
    rows = await queries.list_activity(
        call.database,
        access.repository.id,
        before=max(0, min(key[0], ID_MAX)) if key else ID_MAX,
        limit=query.limit + 1,
        event=if_set(query.event, None),
        actor=if_set(query.actor, None),
        since=if_set(query.since, None),
    )
    shown, headers = lists.page(call, rows, _as_much_as_came(query, rows), lambda row: (row["id"],))
    return Listed(ActivityAnswer([_shape(row) for row in shown]), headers)


def _as_much_as_came(query: ActivityQuery, rows: Sequence[Row]) -> ActivityQuery:
    """A page that is shorter where the payloads are very long."""
    came = sum(row["payload"] is not None for row in rows)
    return msgspec.structs.replace(query, per_page=came) if came < min(len(rows), query.limit) else query


def _shape(row: Row) -> ActivityShape:
    return ActivityShape(
        id=row["id"],
        event=row["name"],
        action=row["action"],
        actor=person_of_row(row) if row["user_id"] is not None else None,
        created_at=to_millis_text(row["created_at"]),
        published=bool(row["published"]),
        payload=msgspec.Raw(row["payload"]),
    )


@routes.get(
    "/projects/{id}/stream",
    answers={200: {"type": "string", "contentMediaType": "text/event-stream"}},
    media_type="text/event-stream",
    etag=False,
)
async def follow_project(call: Call, project_id: str, query: StreamQuery) -> Answer:
    """Follow what happens in a project, as it happens.

    Server-sent events: `id` is the event's, `event` its name, `data` one line of JSON, `{event, action, created_at,
    published, payload}`. The stream begins with new events. With the header `Last-Event-ID` (or `last_event_id`) it
    begins after that event, and sends everything since, in order, once. Comments keep the connection alive. The stream
    ends when you lose access to the project or the server stops. Reconnect with the last id. Not for clients.
    """
    after = _last_event(call, if_set(query.last_event_id, None))
    access = await find_access(call.database, actor_of(call), project_id)
    access.require_member("follow what happens in a project")
    listener = live.Listener.of(actor_of(call), access.repository.owner.id)
    stream = await live.follow(call.services, access.repository.id, listener, after)
    # Both headers ask proxies not to buffer the stream; the second is nginx's own.
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return Answer(stream, headers=headers, media_type="text/event-stream")


def _last_event(call: Call, otherwise: int | None) -> int | None:
    """The id in the header, or `otherwise` without it. Raises `Invalid`."""
    text = (call.header(LAST_EVENT_ID) or "").strip()
    if not text:
        return otherwise
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        message = f"{LAST_EVENT_ID} must be the id of an event"
        raise Invalid(faults=[Fault(field=LAST_EVENT_ID, message=message)])
    return int(text)
