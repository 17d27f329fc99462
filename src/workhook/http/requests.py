"""What a server hands over for one request, by ASGI: https://asgi.readthedocs.io/en/latest/specs/www.html."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from functools import cached_property
from typing import Any

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class ClientGone(Exception):
    """The client has left before its request was whole. Nobody reads an answer."""


class Request:
    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self.path_params: dict[str, str] = {}
        self._receive = receive
        self._is_read = False

    @property
    def client_host(self) -> str | None:
        """The address at the other end of the connection; None if the server does not know it."""
        client = self.scope.get("client")
        return str(client[0]) if client else None

    @cached_property
    def headers(self) -> dict[str, str]:
        """The first line of each name. A server makes names lower case."""
        found: dict[str, str] = {}
        for name, value in self.scope["headers"]:
            found.setdefault(name.decode("latin-1"), value.decode("latin-1"))
        return found

    def header_lines(self, name: str) -> list[str]:
        """All lines of a name, which is given in lower case."""
        wanted = name.encode("latin-1")
        return [value.decode("latin-1") for given, value in self.scope["headers"] if given == wanted]

    async def stream(self) -> AsyncIterator[bytes]:
        """The body, as it comes. Raises `ClientGone`. It can be read once."""
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
