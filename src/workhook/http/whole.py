"""Answers whose body is there as bytes, which nearly all are.

Litestar writes the headers of such an answer through a mapping that looks through all of them for each that it adds:
half of what it costs to answer. Here they are written once, and sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from litestar import Response
from litestar.response.base import ASGIResponse
from litestar.types import HTTPResponseBodyEvent, HTTPResponseStartEvent, Receive, Scope, Send


class Whole(Response[bytes]):
    """`media_type` is sent as it is. The status is one that has a body."""

    def __init__(self, body: bytes, *, status_code: int, headers: Mapping[str, str], media_type: str) -> None:
        super().__init__(body, status_code=status_code, headers=headers, media_type=media_type)

    def to_asgi_response(self, *args: Any, **more: Any) -> ASGIResponse:
        return _Sent(self)  # type: ignore[return-value]  # any application of ASGI will do


class _Sent:
    def __init__(self, answer: Whole) -> None:
        headers = [(_wire_name(name), value.encode("latin-1")) for name, value in answer.headers.items()]
        given = {name for name, _ in headers}
        if b"content-type" not in given:
            headers.append((b"content-type", str(answer.media_type).encode("latin-1")))
        if b"content-length" not in given:
            headers.append((b"content-length", str(len(answer.content)).encode()))
        self._start: HTTPResponseStartEvent = {
            "type": "http.response.start",
            "status": answer.status_code or 200,
            "headers": headers,
        }
        self._body: HTTPResponseBodyEvent = {"type": "http.response.body", "body": answer.content, "more_body": False}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send(self._start)
        await send(self._body)


@lru_cache(maxsize=256)
def _wire_name(name: str) -> bytes:
    return name.lower().encode("latin-1")
