"""Controls the receiver process, and queries databases for remaining work."""

from __future__ import annotations

import asyncio
import http.client
import json
import sqlite3
import time
from collections.abc import Callable
from types import TracebackType

import asyncpg

from bench.databases import Place
from bench.processes import CannotMeasure, Process


class Receiver:
    """`bench.receiver` in a separate process."""

    def __init__(self, core: int) -> None:
        self._process = Process("bench.receiver", core=core)
        self.port = int(self._process.wait_for(r"^port (\d+)"))
        self.url = f"http://127.0.0.1:{self.port}/hook"
        self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def _get(self, path: str) -> object:
        self._connection.request("GET", path)
        return json.loads(self._connection.getresponse().read())

    def count(self) -> tuple[int, float]:
        """Return the number of requests since the last reset, and when the first arrived (seconds, monotonic clock)."""
        told = self._get("/count")
        assert isinstance(told, dict)
        return told["count"], told["first_ns"] / 1e9

    def marks(self) -> dict[int, float]:
        """Return when each marked request first arrived (seconds of the monotonic clock)."""
        told = self._get("/marks")
        assert isinstance(told, list)
        found: dict[int, float] = {}
        for mark, at_ns in told:
            found.setdefault(mark, at_ns / 1e9)
        return found

    def reset(self) -> None:
        self._get("/reset")

    def wait_for(self, count: int, timeout_s: float, meanwhile: Callable[[], object] = lambda: None) -> float:
        """Wait for `count` requests, and return when the first arrived. `meanwhile` may raise to end the wait."""
        end = time.monotonic() + timeout_s
        while True:
            seen, first_s = self.count()
            if seen >= count:
                return first_s
            meanwhile()
            if time.monotonic() > end:
                raise CannotMeasure(f"{seen} of {count} deliveries came within {timeout_s:.0f} s")
            time.sleep(0.005)

    def close(self) -> None:
        self._connection.close()
        self._process.stop()


_LEFT = "SELECT count(*) FROM dispatches WHERE next_attempt_at IS NOT NULL"
_RECORDED = "SELECT count(*) FROM deliveries WHERE id > {after} AND status_code = 200"


class Books:
    """The pending and recorded deliveries in a database, over a separate connection."""

    def __init__(self, place: Place) -> None:
        self._place = place

    async def __aenter__(self) -> Books:
        if self._place.url is None:
            self._sqlite = sqlite3.connect(f"file:{self._place.folder / 'workhook.db'}?mode=ro", uri=True)
        else:
            self._postgres = await asyncpg.connect(self._place.url)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._place.url is None:
            self._sqlite.close()
        else:
            await self._postgres.close()

    async def _number(self, query: str) -> int:
        if self._place.url is None:
            return int(self._sqlite.execute(query).fetchone()[0])
        return int(await self._postgres.fetchval(query))

    async def wait_until_done(self, timeout_s: float = 30.0) -> None:
        """Wait until every outcome is committed."""
        end = time.monotonic() + timeout_s
        while left := await self._number(_LEFT):
            if time.monotonic() > end:
                raise CannotMeasure(f"{left} outcomes were not recorded within {timeout_s:.0f} s")
            time.sleep(0.002)  # noqa: ASYNC251  # nothing else runs on this loop

    @classmethod
    def wait_for(cls, place: Place, count: int) -> None:
        """Wait until every outcome is committed. Raises `CannotMeasure` unless `count` deliveries succeeded."""

        async def wait() -> None:
            async with cls(place) as books:
                await books.wait_until_done()
                await books.require(count)

        asyncio.run(wait())

    async def require(self, count: int, after: int = 0) -> None:
        """Raise `CannotMeasure` unless `count` deliveries with IDs above `after` succeeded."""
        if (recorded := await self._number(_RECORDED.format(after=int(after)))) != count:
            raise CannotMeasure(f"{recorded} of {count} deliveries were recorded as successes")
