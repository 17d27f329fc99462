"""ASGI requests and responses. Specification: https://asgi.readthedocs.io/en/latest/specs/www.html.

The body of nearly all responses is bytes (`EncodedResponse`). A `Streamed` body is sent in parts as they become
available, such as the content of a file or live events. A body that lasts until the client disconnects is `Endless`. It
does not count toward the server's load: `opened` returns the number of endless bodies in this process, and
`http.protocol` allows for them.
"""

from __future__ import annotations

import asyncio
import re
import resource
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from functools import cached_property, lru_cache
from typing import Any, Literal
from urllib.parse import quote

from prometheus_client import Gauge

from workhook.core.text import one_line

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_WITHOUT_CONTENT = (204, 304)
NAMELESS = "file"
_SPECIAL_IN_NAMES = re.compile(r'["\\%/]')

ENDLESS_MAX = 500  # per process

OPEN = Gauge("workhook_streams_open", "Event streams with listening clients.")

_opened: set[object] = set()


class ClientGone(Exception):
    """The client disconnected before its request was complete."""


class Request:
    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self.path_params: dict[str, str] = {}
        self._receive = receive
        self._is_read = False

    @property
    def client_host(self) -> str | None:
        """Return the peer's address, or None if the server does not know it."""
        client = self.scope.get("client")
        return str(client[0]) if client else None

    @cached_property
    def headers(self) -> dict[str, str]:
        """Return the first line of each header by name. Servers pass names in lower case."""
        found: dict[str, str] = {}
        for name, value in self.scope["headers"]:
            found.setdefault(name.decode("latin-1"), value.decode("latin-1"))
        return found

    async def stream(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives, once. Raises `ClientGone`."""
        assert not self._is_read, "a body is read once"
        self._is_read = True
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone()
            if body := message.get("body", b""):
                yield body
            more = message.get("more_body", False)


class EncodedResponse:
    """A response with its whole body. `media_type` is sent unless `headers` include a Content-Type."""

    def __init__(
        self, body: bytes, *, status: int, headers: Mapping[str, str], media_type: str = "application/json"
    ) -> None:
        self.status = status
        self._body = body
        content = {b"content-type": media_type, b"content-length": str(len(body))}
        self._headers = wire_headers(headers, {} if status in _WITHOUT_CONTENT else content)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response. The server omits the body for HEAD."""
        await send({"type": "http.response.start", "status": self.status, "headers": self._headers})
        await send({"type": "http.response.body", "body": self._body, "more_body": False})


def wire_headers(headers: Mapping[str, str], otherwise: Mapping[bytes, str]) -> list[tuple[bytes, bytes]]:
    """Return all of `headers`, plus those of `otherwise` with other names."""
    # The server writes the bytes unchanged, so they must not contain anything that ends the header.
    if not "".join(headers.values()).isprintable():
        headers = {name: one_line(value) for name, value in headers.items()}
    wire = [(_wire_name(name), value.encode("latin-1", "replace")) for name, value in headers.items()]
    names = {name for name, _ in wire}
    return wire + [(name, value.encode("latin-1")) for name, value in otherwise.items() if name not in names]


@lru_cache(maxsize=256)
def _wire_name(name: str) -> bytes:
    return name.lower().encode("latin-1")


def disposition(name: str, kind: Literal["attachment", "inline"] = "attachment") -> dict[str, str]:
    """Return the Content-Disposition header (RFC 6266) of a file with this name, whatever characters it contains.

    Browsers read `filename*` (RFC 8187), other programs the plain name before it.
    """
    visible = one_line(name)
    ascii_only = unicodedata.normalize("NFKD", visible).encode("ascii", "ignore").decode()
    plain = one_line(_SPECIAL_IN_NAMES.sub("_", ascii_only)) or NAMELESS
    header = f'{kind}; filename="{plain}"'
    if plain != name:
        header += f"; filename*=UTF-8''{quote(visible, safe='')}"
    return {"Content-Disposition": header}


def opened() -> int:
    """Return the number of endless bodies in this process."""
    return len(_opened)


def endless_max() -> int:
    """Return the limit of endless bodies, which may use up to an eighth of the process's file descriptors."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return ENDLESS_MAX if soft == resource.RLIM_INFINITY else min(ENDLESS_MAX, soft // 8)


class Endless(AsyncIterator[bytes]):
    """A body that ends only with the client or the server. It is counted from its creation until it is closed."""

    def __init__(self) -> None:
        _opened.add(self)
        OPEN.set(len(_opened))

    async def aclose(self) -> None:
        _opened.discard(self)
        OPEN.set(len(_opened))


class Streamed:
    """A response that sends each part as soon as it exists and the connection has room for it.

    `parts` is closed (with `aclose`, if available) when it ends, when the client disconnects, and after HEAD. Without a
    `Content-Length` header the body is chunked.
    """

    def __init__(
        self, parts: AsyncIterator[bytes], *, status: int, headers: Mapping[str, str], media_type: str
    ) -> None:
        self.status = status
        self._parts = parts
        self._headers = wire_headers(headers, {b"content-type": media_type})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": self.status, "headers": self._headers})
            if scope["method"] == "HEAD":
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            else:
                await self._send_until_gone(receive, send)
        finally:
            close: Callable[[], Awaitable[None]] | None = getattr(self._parts, "aclose", None)
            if close is not None:
                await close()

    async def _send_until_gone(self, receive: Receive, send: Send) -> None:
        """Stop as soon as the client disconnects, even while there is nothing to send."""
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
