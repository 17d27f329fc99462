"""An event stream client on its own socket. Unread data stays in the socket."""

from __future__ import annotations

import json
import socket
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tests.harness.waiting import WAIT_S


@dataclass(frozen=True)
class Told:
    """An event of the stream."""

    id: int
    event: str
    data: dict[str, Any]


class Listener:
    """A client of one event stream.

    `path` is relative to `/api/v1`. `status` and `headers` are available immediately; `events` reads on demand.
    """

    def __init__(
        self, url: str, path: str, token: str | None, *, last: object = None, receive_bytes: int | None = None
    ) -> None:
        parts = urlsplit(url)
        assert parts.hostname
        self._socket = socket.socket()
        if receive_bytes is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self._socket.connect((parts.hostname, parts.port))
        lines = [f"GET /api/v1{path} HTTP/1.1", f"Host: {parts.netloc}", f"Authorization: Bearer {token}"]
        if last is not None:
            lines.append(f"Last-Event-ID: {last}")
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode())
        self._raw = bytearray()
        self._text = bytearray()
        self.ended = False
        head = self._head().decode().split("\r\n")
        self.status = int(head[0].split()[1])
        self.headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in head[1:] if line)}
        self.comments = 0
        self.last: int | None = None  # the ID to resume from
        self._began: int | None = None
        self._told: list[Told] = []
        self._parse()  # data that arrived with the head; nothing more may arrive before the next heartbeat

    def events(self, count: int, timeout_s: float = WAIT_S) -> list[Told]:
        """Return the next `count` events and leave later ones for the next call."""
        end = time.monotonic() + timeout_s
        while len(self._told) < count:
            assert self._more(end), f"{len(self._told)} of {count} events came before the end or within {timeout_s} s"
        taken, self._told = self._told[:count], self._told[count:]
        return taken

    def nothing_for(self, seconds: float) -> bool:
        """Return whether no event arrives within `seconds`."""
        end = time.monotonic() + seconds
        while not self._told and self._more(end):
            pass
        return not self._told

    def rest(self, timeout_s: float = WAIT_S) -> list[Told]:
        """Return the events up to the end of the stream."""
        end = time.monotonic() + timeout_s
        while self._more(end):
            pass
        assert self.ended, f"the stream goes on after {timeout_s} s"
        taken, self._told = self._told, []
        return taken

    def opened(self) -> int:
        """Return the event ID at which the stream starts."""
        end = time.monotonic() + WAIT_S
        while self._began is None:
            assert self._more(end)
        return self._began

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _head(self) -> bytes:
        end = time.monotonic() + WAIT_S
        while b"\r\n\r\n" not in self._raw:
            assert self._read(end), "no answer"
        head, _, rest = bytes(self._raw).partition(b"\r\n\r\n")
        self._raw = bytearray(rest)
        return head

    def _read(self, end: float) -> bool:
        left = end - time.monotonic()
        if left <= 0:
            return False
        self._socket.settimeout(left)
        try:
            data = self._socket.recv(65536)
        except TimeoutError:
            return False
        self._raw += data
        self.ended = self.ended or not data
        return bool(data)

    def _more(self, end: float) -> bool:
        """Read more data. Return False at the end of the stream or after the deadline."""
        if self.ended or not self._read(end):
            self._parse()
            return False
        self._parse()
        return True

    def _parse(self) -> None:
        while b"\r\n" in self._raw:  # chunked encoding
            size_text, _, rest = bytes(self._raw).partition(b"\r\n")
            size = int(size_text, 16)
            if len(rest) < size + 2:
                break
            assert rest[size : size + 2] == b"\r\n"
            self._text += rest[:size]
            self._raw = bytearray(rest[size + 2 :])
            if size == 0:
                self.ended = True
                break
        *blocks, left = bytes(self._text).split(b"\n\n")
        self._text = bytearray(left)
        for block in blocks:
            self._block(block.decode())

    def _block(self, block: str) -> None:
        fields: dict[str, str] = {}
        for line in block.split("\n"):
            name, _, value = line.partition(":")
            assert name not in fields, "a field comes once"
            fields[name] = value.removeprefix(" ")
        if "id" in fields:
            self.last = int(fields["id"])
            self._began = self.last if self._began is None else self._began
        if "" in fields:
            self.comments += 1
        if "data" in fields:
            assert set(fields) == {"id", "event", "data"}
            self._told.append(Told(int(fields["id"]), fields["event"], json.loads(fields["data"])))
