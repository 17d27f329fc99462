"""Answers whose body comes in parts, as they are made: the content of a file, events as they happen.

A body that goes on until somebody leaves is not work that keeps the server busy. Such are `Endless`: `opened` says how
many there are in this process, and `http.protocol` allows for them.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from prometheus_client import Gauge

from workhook.http.requests import Receive, Scope, Send
from workhook.http.responses import start, wire_headers

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


class Streamed:
    """Sends each part when it is there, and asks for the next when the connection has room for it.

    `parts` is closed (`aclose`, if it has that) when it has ended, when the client has gone, and when nobody wants it
    (HEAD). Without a `Content-Length` among the headers the body is chunked.
    """

    def __init__(
        self, parts: AsyncIterator[bytes], *, status: int, headers: Mapping[str, str], media_type: str
    ) -> None:
        self.status = status
        self._parts = parts
        self._headers = wire_headers(headers, {b"content-type": media_type})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send(start(self.status, self._headers))
            if scope["method"] == "HEAD":
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            else:
                await self._send_until_gone(receive, send)
        finally:
            close: Callable[[], Awaitable[None]] | None = getattr(self._parts, "aclose", None)
            if close is not None:
                await close()

    async def _send_until_gone(self, receive: Receive, send: Send) -> None:
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
