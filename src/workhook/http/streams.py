"""Answers whose body comes in parts, as they are made: the content of a file, events as they happen.

A body that goes on until somebody leaves is not work that keeps the server busy. Such are `Endless`: `opened` says how
many there are in this process, and `http.protocol` allows for them.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from litestar import Response
from litestar.response.base import ASGIResponse
from litestar.types import Receive, Scope, Send
from prometheus_client import Gauge

ENDLESS_MAX = 500  # in one process

OPEN = Gauge("workhook_streams_open", "Streams of events that clients listen to.")

_opened: set[object] = set()


def opened() -> int:
    """Endless bodies of this process."""
    return len(_opened)


def endless_max() -> int:
    """How many there may be: they take an eighth of the files that may be open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return ENDLESS_MAX if soft == resource.RLIM_INFINITY else min(ENDLESS_MAX, soft // 8)


class Endless(AsyncIterator[bytes]):
    """A body that ends only when the client goes, or the server does. It counts from its making to its closing."""

    def __init__(self) -> None:
        _opened.add(self)
        OPEN.set(len(_opened))

    async def aclose(self) -> None:
        """May be called several times."""
        _opened.discard(self)
        OPEN.set(len(_opened))


class Streamed(Response[bytes]):
    """Sends each part when it is there, and asks for the next when the connection has room for it.

    `parts` is closed (`aclose`, if it has that) when it has ended, when the client has gone, and when nobody wants it
    (HEAD). Without a `Content-Length` among the headers the body is chunked.
    """

    def __init__(
        self, parts: AsyncIterator[bytes], *, status_code: int, headers: Mapping[str, str], media_type: str
    ) -> None:
        super().__init__(b"", status_code=status_code, headers=headers, media_type=media_type)
        self.parts = parts

    def to_asgi_response(self, *args: Any, **more: Any) -> ASGIResponse:
        return _Sending(self)


class _Sending(ASGIResponse):
    _should_set_content_length = False

    def __init__(self, response: Streamed) -> None:
        super().__init__(
            headers=response.headers,
            media_type=response.media_type,
            status_code=response.status_code,
        )
        self._parts = response.parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.is_head_response = scope["method"] == "HEAD"  # type: ignore[typeddict-item]  # only HTTP comes here
        try:
            await super().__call__(scope, receive, send)
        finally:
            close: Callable[[], Awaitable[None]] | None = getattr(self._parts, "aclose", None)
            if close is not None:
                await close()

    async def send_body(self, send: Send, receive: Receive) -> None:
        """Stops as soon as the client has gone, also while there is nothing to send."""
        sending = asyncio.create_task(self._send_parts(send), name="stream")
        gone = asyncio.create_task(_disconnected(receive), name="stream-gone")
        try:
            await asyncio.wait((sending, gone), return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                await sending
        finally:
            sending.cancel()
            gone.cancel()
            await asyncio.gather(sending, gone, return_exceptions=True)

    async def _send_parts(self, send: Send) -> None:
        async for part in self._parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
