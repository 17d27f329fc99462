"""A receiver with next to no overhead: `python -m bench.receiver` prints its port and responds to every POST with 200.

Requests with `/hang/` in their path get no response and are not counted. `GET /count` returns the number of requests,
`GET /reset` clears it, and `GET /marks` returns the arrival time of each marked body, which begins with `{"mark":N,`.
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
from typing import cast

import uvloop

_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"
_LENGTH = b"content-length:"
_MARK = b'{"mark":'
_HANGING = b"/hang/"


class Tally:
    """Requests since the last reset. Times are nanoseconds of the monotonic clock, which all processes share."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.count = 0
        self.first_ns = 0
        self.marks: list[tuple[int, int]] = []

    def answer(self, path: bytes) -> bytes:
        told: object = {"count": self.count, "first_ns": self.first_ns}
        if path == b"/marks":
            told = self.marks
        elif path == b"/reset":
            self.reset()
        body = json.dumps(told).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode() + body


class Connection(asyncio.Protocol):
    """Consecutive requests of one connection. Bodies are counted and discarded."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._head = b""
        self._left = 0  # bytes of the body still to come
        self._fresh = False  # none of them has arrived yet
        self._hangs = False  # this request never gets a response

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's class only has the same methods

    def data_received(self, data: bytes) -> None:
        while data:
            if self._left == 0:
                data = self._take_head(data)
                continue
            if self._fresh:
                self._fresh = False
                if not self._hangs and data.startswith(_MARK):
                    mark = int(data[len(_MARK) : data.index(b",")])
                    self._tally.marks.append((mark, time.monotonic_ns()))
            taken = min(self._left, len(data))
            self._left -= taken
            data = data[taken:]
            if self._left == 0:
                self._arrived()

    def _take_head(self, data: bytes) -> bytes:
        """Parse a request head, and return the data after it."""
        if self._head:
            data, self._head = self._head + data, b""
        end = data.find(b"\r\n\r\n")
        if end < 0:
            self._head = data
            return b""
        head = data[:end]
        if head.startswith(b"GET "):
            self._transport.write(self._tally.answer(head.split(b" ", 2)[1]))
            return data[end + 4 :]
        at = head.lower().find(_LENGTH) + len(_LENGTH)
        self._left = int(head[at:].split(b"\r\n", 1)[0])
        self._fresh = True
        self._hangs = _HANGING in head[: head.find(b"\r\n")]
        if self._left == 0:
            self._arrived()
        return data[end + 4 :]

    def _arrived(self) -> None:
        if self._hangs:
            return
        tally = self._tally
        if tally.count == 0:
            tally.first_ns = time.monotonic_ns()
        tally.count += 1
        self._transport.write(_ANSWER)


async def main() -> None:
    tally = Tally()
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    server = await asyncio.get_running_loop().create_server(lambda: Connection(tally), sock=listening, backlog=4096)
    print(f"port {listening.getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
