"""Answers as ASGI sends them. `Response` has its body as bytes, which nearly all do; `http.streams` has the others."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from workhook.http.requests import Message, Receive, Scope, Send

_WITHOUT_CONTENT = (204, 304)


class Response:
    """`media_type` is sent as it is, unless `headers` have a Content-Type."""

    def __init__(
        self, body: bytes, *, status: int, headers: Mapping[str, str], media_type: str = "application/json"
    ) -> None:
        self.status = status
        self._body = body
        content = {b"content-type": media_type, b"content-length": str(len(body))}
        self._headers = wire_headers(headers, {} if status in _WITHOUT_CONTENT else content)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The server leaves the body out of an answer to HEAD."""
        await send(start(self.status, self._headers))
        await send({"type": "http.response.body", "body": self._body, "more_body": False})


def wire_headers(headers: Mapping[str, str], otherwise: Mapping[bytes, str]) -> list[tuple[bytes, bytes]]:
    """All of `headers`, and of `otherwise` those whose names they have not."""
    wire = [(_wire_name(name), value.encode("latin-1")) for name, value in headers.items()]
    given = {name for name, _ in wire}
    return wire + [(name, value.encode("latin-1")) for name, value in otherwise.items() if name not in given]


def start(status: int, headers: list[tuple[bytes, bytes]]) -> Message:
    return {"type": "http.response.start", "status": status, "headers": headers}


@lru_cache(maxsize=256)
def _wire_name(name: str) -> bytes:
    return name.lower().encode("latin-1")
