"""`/projects/{id}/activity` and `/projects/{id}/stream`."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.core.errors import Fault, Invalid
from workhook.http.calls import Call, Response
from workhook.http.endpoints import Routes
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.work.history.activity import live, queries
from workhook.work.kernel.access import find_access
from workhook.work.kernel.schemas import if_set

routes = Routes(WORK_API, "Activity", read="work.read", write="work.write")
LAST_EVENT_ID = "Last-Event-ID"
_EventId = Annotated[
    int, Meta(ge=0, le=2**53 - 1, description="Send everything after this event. Default: new events only.")
]


class StreamQuery(msgspec.Struct):
    """Query parameters of a stream. The header `Last-Event-ID` takes precedence over `last_event_id`."""

    last_event_id: _EventId | UnsetType = UNSET


routes.get("/projects/{id}/activity")(queries.list_activity)


@routes.get(
    "/projects/{id}/stream",
    answers={200: {"type": "string", "contentMediaType": "text/event-stream"}},
    media_type="text/event-stream",
    etag=False,
)
async def follow_project(call: Call, project_id: str, query: StreamQuery) -> Response:
    """Stream the activity of a project.

    The response is a stream of server-sent events. `id` is the ID of the event, `event` its name, and `data` is one
    line of JSON: `{event, action, created_at, published, payload}`. By default the stream starts with new events. With
    the header `Last-Event-ID` (or `last_event_id`) it starts after that event and sends every later event exactly once,
    in order. Comments keep the connection alive. The stream ends when you lose access to the project or the server
    stops. To resume, reconnect with the last ID you received. Not available to clients.
    """
    after = _last_event(call, if_set(query.last_event_id, None))
    access = await find_access(call.database, actor_of(call), project_id)
    access.require_member("follow the activity of a project")
    listener = live.Listener.of(actor_of(call), access.repository.owner.id)
    stream = await live.follow(call.services, access.repository.id, listener, after)
    # Both headers keep proxies from buffering the stream; the second is specific to nginx.
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return Response(stream, headers=headers, media_type="text/event-stream")


def _last_event(call: Call, otherwise: int | None) -> int | None:
    text = (call.header(LAST_EVENT_ID) or "").strip()
    if not text:
        return otherwise
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        message = f"{LAST_EVENT_ID} must be the ID of an event"
        raise Invalid(faults=[Fault(field=LAST_EVENT_ID, message=message)])
    return int(text)
