"""A relay between a server process and PostgreSQL that counts round trips.

A round trip consists of the client's messages up to a Sync or a simple query, after which the client waits. Pipelined
messages count once. Trips that only prepare a statement are not counted, because a server has prepared its statements
soon after it starts.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
from urllib.parse import parse_qs, urlsplit, urlunsplit

# Sent by new connections or periodically. Tokens are cached for a moment.
_BESIDE = ("typeinfo", "clock_timestamp", "jit", "LISTEN", "tokens.digest")
_NOTED_LATER = "INSERT INTO audit_log"  # refused requests are recorded later, outside any other transaction
_GOES_ALONG = "SET plan_cache_mode"  # sent with a statement if its kind differs from that of the previous one


class _Spoken:
    """A parser of one connection's messages. Accepts bytes in arbitrary pieces."""

    def __init__(self, trips: list[str]) -> None:
        self._trips = trips
        self._texts: dict[str, str] = {}
        self._flight: list[str] = []
        self._bound = ""
        self._buffer = b""
        self._started = False
        self._in_transaction = False
        self._notes = False

    def feed(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= 5:
            head = 0 if not self._started else 1  # the first message has no type
            (length,) = struct.unpack_from("!i", self._buffer, head)
            if len(self._buffer) < head + length:
                return
            kind, body = self._buffer[:head], self._buffer[head + 4 : head + length]
            self._buffer = self._buffer[head + length :]
            self._started = True
            self._message(kind, body)

    def _message(self, kind: bytes, body: bytes) -> None:
        if kind == b"P":
            name, text, _ = body.split(b"\0", 2)
            self._texts[name.decode()] = text.decode()
        elif kind == b"B":
            _, name, _ = body.split(b"\0", 2)
            self._bound = self._texts[name.decode()]
        elif kind == b"E":
            self._flight.append(self._bound)
        elif kind == b"Q":
            self._flight.append(body[:-1].decode())
        if kind in (b"S", b"Q"):
            asked, self._flight = [each for each in self._flight if not each.startswith(_GOES_ALONG)], []
            if asked:
                self._add([" ".join(each.split()) for each in asked])

    def _add(self, asked: list[str]) -> None:
        if not self._in_transaction:
            first = next((each for each in asked if each != "BEGIN"), "")
            self._notes = first.startswith(_NOTED_LATER)
        self._in_transaction = (self._in_transaction or asked[0] == "BEGIN") and asked[-1] not in ("COMMIT", "ROLLBACK")
        if not self._notes:
            self._trips.append(" | ".join(asked))


class Relay:
    """Forwards connections to `url` to the database at `database_url`.

    `trips` contains the round trips since `forget`. While `silent`, data is dropped but connections stay open.
    """

    silent = False

    def __init__(self, database_url: str) -> None:
        self._target = urlsplit(database_url)
        self._trips: list[str] = []
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        assert self._ready.wait(30)
        place = f"{self._target.username or 'postgres'}@127.0.0.1:{self._port}"
        self.url = urlunsplit(("postgresql", place, self._target.path, "sslmode=disable", ""))

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self._port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._over.wait()
        server.close()
        for each in list(self._connections):
            each.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        there, back = await self._connect()
        spoken = _Spoken(self._trips)
        both = [
            asyncio.create_task(self._pass_on(there, writer, None)),
            asyncio.create_task(self._pass_on(reader, back, spoken)),
        ]
        try:
            with contextlib.suppress(asyncio.CancelledError):  # the relay is closing
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._connections.discard(task)
            for each in both:
                each.cancel()
            back.close()
            writer.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        folder = parse_qs(self._target.query).get("host", [self._target.hostname or ""])[0]
        if folder.startswith("/"):
            return await asyncio.open_unix_connection(f"{folder}/.s.PGSQL.{self._target.port or 5432}")
        return await asyncio.open_connection(folder, self._target.port or 5432)

    @property
    def trips(self) -> list[str]:
        return [each for each in self._trips if not any(word in each for word in _BESIDE)]

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, spoken: _Spoken | None
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                if self.silent:
                    continue
                if spoken is not None:
                    spoken.feed(data)
                writer.write(data)
                await writer.drain()

    def forget(self) -> None:
        self._trips.clear()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(30)
