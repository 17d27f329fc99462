"""`/{owner}/{project}/live`: tells a page that something has happened in its project, so that it asks anew.

It is the stream of the API without what happened: pages show that by asking as whoever looks at them. A page says up to
which event it has seen everything (`Visit.follow`), and is told at once of what happened before its stream was open.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from workhook.events import order
from workhook.http.calls import Answer
from workhook.web.frame.places import Places, Visit
from workhook.work.history.activity import frames
from workhook.work.history.activity.live import Stream, follow, listener_of_session

places = Places("live")

_CHANGED = b"event: changed\ndata:\n\n"


class Changes(AsyncIterator[bytes]):
    """A line for whatever comes at once in the stream of the project. `is_late`: something has happened already."""

    def __init__(self, stream: Stream, *, is_late: bool) -> None:
        self._stream, self._is_late = stream, is_late
        self._is_opening = True

    async def __anext__(self) -> bytes:
        part = await anext(self._stream)
        if self._is_opening:
            self._is_opening = False
            return part + _CHANGED if self._is_late else part
        return part if part == frames.HEARTBEAT else _CHANGED

    async def aclose(self) -> None:
        await self._stream.aclose()


@places.get("/{owner}/{project}/live", head=False)
async def live(visit: Visit) -> Answer:
    """Tell a page when something has happened. Not for clients, who must not learn of what is private."""
    access = await visit.access()
    access.require_member("follow what happens in a project")
    listener = listener_of_session(visit.session.id, visit.actor.user.id, access.repository.owner.id)
    stream = await follow(visit.call.services, access.repository.id, listener, None)
    seen = visit.query_id("seen")
    is_late = seen is not None and await order.happened(visit.database, access.repository.id, seen, stream.position)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # the second is nginx's
    return Answer(Changes(stream, is_late=is_late), headers=headers, media_type="text/event-stream")
