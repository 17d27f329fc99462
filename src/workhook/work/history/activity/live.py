"""`/projects/{id}/activity`, and `/projects/{id}/stream`, which sends events to each listener as they happen.

A `Hub` polls on behalf of all streams of its process: whenever a signal reports activity in a project with listeners,
and at least every two seconds, because signals can be lost. It reads each event once and hands it to every stream of
the project. All events up to `ProjectStreams.complete_until` have been handed out, and no earlier event can still be
committed (see `events.order` for how that is known).

A stream that resumes after an event, or whose client reads too slowly, reads the missed events itself, page by page as
the client consumes them, until it reaches `complete_until`. This bounds the memory used per client, and no event is
lost or sent twice.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import msgspec
import structlog
from msgspec import UNSET, Meta, UnsetType
from prometheus_client import Counter

from workhook.core import json
from workhook.core.clock import to_millis_text
from workhook.core.errors import Invalid, TooManyRequests, Unavailable, say
from workhook.events import order
from workhook.events.payloads import to_show
from workhook.http import messages
from workhook.http.calls import Call, Response, Services
from workhook.http.endpoints import Routes
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.schemas import Actor
from workhook.storage import Database, Row
from workhook.storage.signals import EVENTS
from workhook.work.history.activity import queries
from workhook.work.kernel.access import find_access
from workhook.work.kernel.schemas import if_set

RETRY_MS = 2000  # after which the client reconnects
HEARTBEAT = b":\n\n"


def event_frame(row: Row) -> bytes:
    """Return the frame of one event, with its payload on one line."""
    head = {
        "event": row["name"],
        "action": row["action"],
        "created_at": to_millis_text(row["created_at"]),
        "published": bool(row["published"]),
    }
    return b'id: %d\nevent: %s\ndata: %s,"payload":%s}\n\n' % (
        row["id"],
        row["name"].encode(),
        json.encode(head)[:-1],
        json.on_one_line(to_show(row["payload"])),
    )


POLL_S = 2.0  # the longest delay of an event whose signal was lost
HELD_POLL_S = 0.25  # the same while an earlier event may still be committed, since a rollback sends no signal
GATHER_S = 0.01  # signals that arrive within this time cause one poll
CHECK_S = 0.8  # how long a stream may outlive its access: revoked tokens must stop working within a second
HEARTBEAT_S = 15.0
START_S = 5.0  # how long a new stream waits for transactions in progress in the project
BUFFER_MAX_BYTES = 1024 * 1024
PART_BYTES = 64 * 1024
PER_LISTENER_MAX = 10  # streams of one user or installation, over all its tokens

FAILURES = Counter("workhook_streams_trouble_total", "Failed polls for streams, which are retried.", ["step"])

log = structlog.get_logger(__name__)


class Listener(NamedTuple):
    """The holder of a stream. `account_id` is the owner of the project."""

    proof: queries.Proof
    # Shared by all tokens of a user or installation, whereas `Actor.counted_as` counts each personal token separately.
    counted_as: str
    account_id: int

    @classmethod
    def of(cls, actor: Actor, account_id: int) -> Listener:
        if actor.installation_id is not None:
            return cls(queries.Proof("token", actor.token_id), f"installation:{actor.installation_id}", account_id)
        return cls(queries.Proof("token", actor.token_id), f"user:{actor.user.id}:app:{actor.app_id or ''}", account_id)


class _Watermark:
    """The newest event seen, and the transactions that may still commit an earlier event."""

    def __init__(self, upto: int, held_by: frozenset[str], waiting: list[asyncio.Future[int]]) -> None:
        self.upto, self.held_by, self.waiting = upto, held_by, waiting


class ProjectStreams:
    """The streams of a project that has listeners."""

    def __init__(self, repository_id: int) -> None:
        self.repository_id = repository_id
        self.streams: set[Stream] = set()
        self.complete_until: int | None = None
        self.watermark: _Watermark | None = None
        self.waiting: list[asyncio.Future[int]] = []  # waiting for the next watermark

    def reaches_watermark(self, snapshot: order.CommitSnapshot) -> bool:
        """Return whether every transaction that could commit an event below the watermark has ended."""
        appending = snapshot.appending_to(self.repository_id)
        if self.watermark is None:
            self.watermark = _Watermark(max(snapshot.newest, self.complete_until or 0), appending, self.waiting)
            self.waiting = []
        else:
            self.watermark.held_by &= appending
        return not self.watermark.held_by

    @property
    def is_behind(self) -> bool:
        return (
            self.complete_until is not None and self.watermark is not None and self.complete_until < self.watermark.upto
        )

    def pass_watermark(self) -> None:
        watermark, self.watermark = self.watermark, None
        assert watermark is not None, "it was met"
        self.complete_until = watermark.upto
        for waiting in watermark.waiting:
            if not waiting.done():
                waiting.set_result(watermark.upto)
        for stream in self.streams:
            stream.catch_up()


class Stream(messages.Endless):
    """An iterator over the bytes sent to one listener."""

    def __init__(self, hub: Hub, project: ProjectStreams, listener: Listener, position: int | None) -> None:
        super().__init__()
        self._hub, self.project, self.listener = hub, project, listener
        self.position = position or 0  # the last event sent
        self._opening = True
        self._is_live = False  # whether the hub hands events over; otherwise `_catch_up` reads them
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._waiting_bytes = 0
        self._woken = asyncio.Event()
        self._ended = False
        self.leaving = False  # whether the access check has rejected the listener

    def offer(self, event_id: int, data: bytes) -> None:
        """Accept an event from the hub.

        If the buffer overflows, it is discarded and the stream reads the events from the database later.
        """
        if not self._is_live or event_id <= self.position:
            return
        self._waiting.append((event_id, data))
        self._waiting_bytes += len(data)
        if self._waiting_bytes > BUFFER_MAX_BYTES:
            self._waiting.clear()
            self._waiting_bytes = 0
            self._is_live = False
        self._woken.set()

    def catch_up(self) -> None:
        if not self._is_live:
            self._woken.set()

    def end(self) -> None:
        """End the stream after the events already handed over."""
        self._ended = True
        self._woken.set()

    def cut(self) -> None:
        """End the stream immediately."""
        self._waiting.clear()
        self.end()

    async def aclose(self) -> None:
        await super().aclose()
        await self._hub.leave(self)

    async def __anext__(self) -> bytes:
        while not self._ended:
            self._woken.clear()
            part = self._take() or await self._catch_up()
            if part:
                return part
            try:
                async with asyncio.timeout(HEARTBEAT_S):
                    await self._woken.wait()
            except TimeoutError:
                return HEARTBEAT
        if part := self._take():
            return part
        raise StopAsyncIteration

    def _take(self) -> bytes:
        """Return about as much data as the connection accepts at once."""
        if self._opening:
            self._opening = False
            return f"retry: {RETRY_MS}\nid: {self.position}\n\n".encode()
        parts, size = [], 0
        while self._waiting and size < PART_BYTES:
            self.position, data = self._waiting.popleft()
            parts.append(data)
            size += len(data)
        self._waiting_bytes -= size
        return b"".join(parts)

    async def _catch_up(self) -> bytes:
        """Return a page of missed events, or switch to live delivery.

        There is no await between the last comparison and the switch, so no event can slip through.
        """
        while not self._is_live and (complete_until := self.project.complete_until) is not None and not self._ended:
            if self.position > complete_until:  # the client has already read further from another process
                break
            if self.position == complete_until:
                self._is_live = True
                break
            repository_ids = [self.project.repository_id]
            rows, complete = await order.list_between(self._hub.database, repository_ids, self.position, complete_until)
            self.position = complete_until if complete else rows[-1]["id"]
            if rows:
                return b"".join(map(event_frame, rows))
        return b""


class Hub:
    """All streams of one database in this process. It is created with the first stream and ends with the last."""

    def __init__(self, services: Services) -> None:
        self.database, self._stopping = services.database, services.stopping
        self._projects: dict[int, ProjectStreams] = {}
        self._woken = asyncio.Event()
        self._unlisten = services.database.signals.listen(EVENTS, self._on_signal)
        self._tasks = [
            asyncio.create_task(each, name="streams")
            for each in (self._poll_forever(), self._check_forever(), self._end_at_stop())
        ]

    def join(self, repository_id: int, listener: Listener, position: int | None) -> Stream:
        self._require_room(listener)
        project = self._projects.setdefault(repository_id, ProjectStreams(repository_id))
        stream = Stream(self, project, listener, position)
        project.streams.add(stream)
        self._woken.set()
        return stream

    def _require_room(self, listener: Listener) -> None:
        """Raise `TooManyRequests` if the listener or the project's account has used its share of the streams."""
        listeners = [stream.listener for project in self._projects.values() for stream in project.streams]
        per_account_max = max(1, messages.endless_max() // 2)
        if sum(each.counted_as == listener.counted_as for each in listeners) >= PER_LISTENER_MAX:
            message = f"You have {PER_LISTENER_MAX} open streams across all your tokens, which is the maximum."
        elif sum(each.account_id == listener.account_id for each in listeners) >= per_account_max:
            message = "The projects of this account have reached their limit of open streams; try again later."
        else:
            return
        raise TooManyRequests(message, code="too_many_streams", headers={"Retry-After": "10"})

    async def begin(self, stream: Stream) -> None:
        """Start the stream with the events committed from now on, after waiting for open transactions to end.

        Raises `Unavailable` if they take too long.
        """
        try:
            async with asyncio.timeout(START_S):
                stream.position = await self._next_watermark(stream.project)
        except TimeoutError:
            raise Unavailable("The project has been locked by other changes for too long.", code="busy") from None

    def _next_watermark(self, project: ProjectStreams) -> asyncio.Future[int]:
        """Return a future that is done once everything committed so far has been handed out."""
        handed_out: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        project.waiting.append(handed_out)
        self._woken.set()
        return handed_out

    async def resume(self, stream: Stream, after: int) -> None:
        """Continue after the event `after`. If `after` is above the newest ID, the stream starts with new events."""
        stream.position = min(after, (await order.commit_snapshot(self.database)).newest)

    async def leave(self, stream: Stream) -> None:
        project = stream.project
        project.streams.discard(stream)
        if not project.streams and self._projects.get(project.repository_id) is project:
            del self._projects[project.repository_id]
        if not self._projects and _hubs.get(self.database) is self:
            del _hubs[self.database]
            self._unlisten()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _on_signal(self, repository_ids: frozenset[int] | None) -> None:
        if repository_ids is None or not repository_ids.isdisjoint(self._projects):
            self._woken.set()

    async def _poll_forever(self) -> None:
        while True:
            self._woken.clear()
            try:
                wait_s = await self._poll()
            except Exception:
                FAILURES.labels("look").inc()
                log.exception("streams_poll_failed", retry_in_s=POLL_S)
                await asyncio.sleep(POLL_S)
                continue
            try:
                async with asyncio.timeout(wait_s):
                    await self._woken.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(GATHER_S)

    async def _poll(self) -> float:
        """Hand out new events, and return the seconds until the next poll is due."""
        projects = list(self._projects.values())
        snapshot = await order.commit_snapshot(self.database)
        free = [project for project in projects if project.reaches_watermark(snapshot)]
        behind = [each for each in free if each.is_behind]
        await self._hand_out({project.repository_id: project for project in behind})
        older = any(project.watermark is not None and project.watermark.upto < snapshot.newest for project in free)
        for project in free:
            project.pass_watermark()
        if older or any(project.waiting for project in free):
            return 0
        return HELD_POLL_S if len(free) < len(projects) else POLL_S

    async def _hand_out(self, projects: dict[int, ProjectStreams]) -> None:
        """Hand out the events between `complete_until` and the watermark of each project.

        `complete_until` advances with every page, so a stream that is catching up continues where the page ended.
        """
        complete = not projects
        after = min((project.complete_until or 0 for project in projects.values()), default=0)
        upto = max((project.watermark.upto for project in projects.values() if project.watermark), default=0)
        while not complete:
            rows, complete = await order.list_between(self.database, list(projects), after, upto)
            after = upto if complete else rows[-1]["id"]
            for row in rows:
                project = projects[row["repository_id"]]
                assert project.watermark is not None
                assert project.complete_until is not None
                if project.complete_until < row["id"] <= project.watermark.upto and project.streams:
                    data = event_frame(row)
                    for stream in project.streams:
                        stream.offer(row["id"], data)
            for project in projects.values():
                if project.watermark is not None and project.complete_until is not None:
                    project.complete_until = max(project.complete_until, min(after, project.watermark.upto))

    async def _check_forever(self) -> None:
        while True:
            await asyncio.sleep(CHECK_S)
            refused: list[Stream] = []
            for project in list(self._projects.values()):
                try:
                    refused += await self._refused(project)
                except Exception:
                    FAILURES.labels("check").inc()
                    log.exception("streams_check_failed", retry_in_s=CHECK_S)
            if refused:
                leaving = asyncio.create_task(self._end_later(refused), name="streams")  # not awaited here
                self._tasks.append(leaving)
                leaving.add_done_callback(self._tasks.remove)

    async def _refused(self, project: ProjectStreams) -> list[Stream]:
        """Return the streams to end, and cut those with an invalid token or session."""
        asked = {stream.listener.proof for stream in project.streams if not stream.leaving}
        refused = asked - await queries.filter_followers(self.database, project.repository_id, asked)
        good = await queries.filter_valid_proofs(self.database, refused)
        found = [stream for stream in project.streams if stream.listener.proof in refused and not stream.leaving]
        for stream in found:
            stream.leaving = True
            if stream.listener.proof not in good:
                stream.cut()
        return [stream for stream in found if stream.listener.proof in good]

    async def _end_later(self, refused: Sequence[Stream]) -> None:
        """End the streams after everything committed so far. They still receive the event that removed their access."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_S):
                await asyncio.gather(*map(self._next_watermark, {stream.project for stream in refused}))
        for stream in refused:
            stream.end()

    async def _end_at_stop(self) -> None:
        await self._stopping.wait()
        for project in list(self._projects.values()):
            for stream in project.streams:
                stream.cut()


_hubs: dict[Database, Hub] = {}


async def follow(services: Services, repository_id: int, listener: Listener, after: int | None) -> Stream:
    """Stream everything after the event `after`, or new events if it is None.

    The caller has checked access, which is checked again while the stream is open. Raises `TooManyRequests` and
    `Unavailable`.
    """
    if services.stopping.is_set():
        raise Unavailable(say("The server is shutting down."), code="stopping")
    if messages.opened() >= messages.endless_max():
        message = "Too many streams are open on this server. Try again in a few seconds."
        raise Unavailable(message, code="too_many_streams", retry_after_s=10)
    hub = _hubs.get(services.database)
    if hub is None:
        hub = _hubs[services.database] = Hub(services)
    stream = hub.join(repository_id, listener, after)
    try:
        await (hub.begin(stream) if after is None else hub.resume(stream, after))
    except BaseException:
        await stream.aclose()
        raise
    return stream


routes = Routes(WORK_API, "Activity")
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
    listener = Listener.of(actor_of(call), access.repository.owner.id)
    stream = await follow(call.services, access.repository.id, listener, after)
    # Both headers keep proxies from buffering the stream; the second is specific to nginx.
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return Response(stream, headers=headers, media_type="text/event-stream")


def _last_event(call: Call, otherwise: int | None) -> int | None:
    text = (call.header(LAST_EVENT_ID) or "").strip()
    if not text:
        return otherwise
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        message = f"{LAST_EVENT_ID} must be the ID of an event"
        raise Invalid.at(LAST_EVENT_ID, message)
    return int(text)
