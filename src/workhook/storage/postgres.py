"""PostgreSQL through asyncpg: reads in autocommit, transactions at READ COMMITTED, signals over NOTIFY."""

from __future__ import annotations

import asyncio
import secrets
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg
import structlog
from sqlalchemy.sql.expression import Executable

from workhook.storage import dialects, metrics, server_clock, slow
from workhook.storage.database import Database, Params, Row, Step, Transaction, Waiting
from workhook.storage.lending import ACQUIRE_TIMEOUT_S, TROUBLE, Lender
from workhook.storage.signals import Signals
from workhook.storage.statements import Compiler, Statement, joined

COMMAND_TIMEOUT_S = 30.0
RECONNECT_MAX_S = 5.0
LISTEN_CHECK_S = 15.0
CHANNEL = "workhook"
GATHER_S = 0.01
NOTIFY_IDS = 500  # ids in one NOTIFY: its payload is at most 8,000 bytes

log = structlog.get_logger(__name__)


class PostgresTransaction(Transaction):
    def __init__(self, connection: Any, compiler: Compiler, signals: Signals) -> None:
        super().__init__(signals)
        self._connection = connection
        self._compile = compiler

    async def fetch_all(self, statement: Executable, params: Params | None = None) -> Sequence[Row]:
        if self.waiting:
            await self.flush()
        return await self._fetch_along(statement, params)

    async def fetch_one(self, statement: Executable, params: Params | None = None) -> Row | None:
        if self.waiting:
            await self.flush()
        known = self._compile(statement)
        row: Row | None = await self._connection.fetchrow(known.sql, *known.arguments(params))
        return row

    async def execute(self, statement: Executable, params: Params | None = None) -> int:
        if self.waiting:
            await self.flush()
        known = self._compile(statement)
        tag: str = await self._connection.execute(known.sql, *known.arguments(params))
        count = tag.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0

    async def execute_many(self, statement: Executable, rows: Sequence[Params]) -> None:
        if rows:
            await self.flush()
            await _run_step(self._connection, self._compile(statement), rows)

    async def flush(self) -> None:
        if not self.waiting:
            return
        waiting, self.waiting = self.waiting, []
        parts, arguments = self._parts(waiting)
        _, sql, _ = parts.pop()
        await self._connection.execute(joined(tuple(parts), sql) if parts else sql, *arguments)

    async def _fetch_along(self, statement: Executable, params: Params | None) -> Sequence[Row]:
        known = self._compile(statement)
        sql, arguments = known.sql, known.arguments(params)
        if self.waiting:
            waiting, self.waiting = self.waiting, []
            parts, before = self._parts(waiting)
            sql, arguments = joined(tuple(parts), sql), before + arguments
        rows: Sequence[Row] = await self._connection.fetch(sql, *arguments)
        return rows

    def _parts(self, waiting: Sequence[Waiting]) -> tuple[list[tuple[str, str, int]], list[Any]]:
        """What `joined` takes, and the values."""
        parts, arguments = [], list[Any]()
        for name, statement, rows in waiting:
            known = self._compile(statement)
            if len(rows) == 1:
                sql, values = known.sql, known.arguments(rows[0])
            else:
                sql, values = known.insert_columns() or "", list[Any](known.columns(rows))
                assert sql, f"not a plain INSERT: {known.sql}"
            parts.append((name, sql, len(values)))
            arguments += values
        return parts, arguments


_pause = asyncio.sleep

# A notice writes a commit record; nobody waits until that one is on the disk.
_NOTIFY = "SELECT pg_notify($1, each), set_config('synchronous_commit', 'off', true) FROM unnest($2::text[]) AS each"


class PostgresDatabase(Database):
    """Open with `await PostgresDatabase.open(url)`.

    `session_url`: the server itself, where `url` leads to a pooler that gives each transaction any connection. No
    statement stays prepared then, and what needs one session to itself, listening, goes by the other URL.
    """

    name = "postgresql"

    def __init__(self, session_url: str, pool: Any) -> None:
        self._session_url = session_url
        self._pool = pool
        self._lender = Lender(pool)
        metrics.CONNECTIONS.labels("open").set_function(pool.get_size)
        metrics.CONNECTIONS.labels("idle").set_function(self._lender.idle)
        self._compile = Compiler(dialects.POSTGRESQL)
        self.signals = Signals()
        self._slow = slow.Turns()
        self._outgoing: dict[str, set[int]] = defaultdict(set)
        self._outgoing_ready = asyncio.Event()
        self._origin = secrets.token_hex(6)
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def open(
        cls, url: str, *, session_url: str | None = None, connections: int = 6, listen: bool = True
    ) -> PostgresDatabase:
        """`connections`: in all, with the one that listens."""
        try:
            pool = await asyncpg.create_pool(
                **dialects.connect_options(url),
                min_size=1,
                max_size=connections - 1 if listen else connections,
                timeout=ACQUIRE_TIMEOUT_S,
                command_timeout=COMMAND_TIMEOUT_S,
                statement_cache_size=512 if session_url is None else 0,
                max_inactive_connection_lifetime=300,
                # Nothing here changes a session's state, so there is nothing to reset: saves a round trip a release.
                reset=_keep,
                init=dialects.notice_silence,
            )
        except TROUBLE as error:
            raise dialects.postgresql_problem(error) from error
        database = cls(session_url or url, pool)
        await database._follow_clock()
        database.signals.forward = database._forward
        database._tasks.append(asyncio.create_task(database._notify(), name="pg-notify"))
        database._tasks.append(asyncio.create_task(database._lender.tidy(), name="pg-tidy"))
        if listen:
            database._tasks.append(asyncio.create_task(database._listen(), name="pg-listen"))
        return database

    async def _follow_clock(self) -> None:
        """Raises `Unavailable`, and closes the pool."""
        try:
            async with self._lender.lend() as connection:
                await server_clock.follow(connection)
        except BaseException:
            self._pool.terminate()
            raise

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        async with self._lender.lend() as connection:
            transaction = PostgresTransaction(connection, self._compile, self.signals)
            async with connection.transaction():
                yield transaction
                await transaction.finish()
        transaction.committed()

    async def fetch_all(self, statement: Executable, params: Params | None = None) -> Sequence[Row]:
        known = self._compile(statement)
        async with self._lender.lend() as connection:
            rows: Sequence[Row] = await connection.fetch(known.sql, *known.arguments(params))
            return rows

    async def fetch_one(self, statement: Executable, params: Params | None = None) -> Row | None:
        known = self._compile(statement)
        async with self._lender.lend() as connection:
            row: Row | None = await connection.fetchrow(known.sql, *known.arguments(params))
            return row

    async def fetch_slow(self, statement: Executable, params: Params | None = None) -> Sequence[Row]:
        known = self._compile(statement)
        async with self._slow.turn(), self._lender.lend() as connection:
            try:
                rows: Sequence[Row] = await connection.fetch(
                    known.sql, *known.arguments(params), timeout=slow.TIMEOUT_S
                )
            except TimeoutError:
                raise slow.TooSlow() from None
            return rows

    async def write(self, steps: Sequence[Step]) -> None:
        known = [(self._compile(statement), rows) for statement, rows in steps if rows]
        async with self._lender.lend() as connection:
            if len(known) == 1 and len(known[0][1]) == 1:  # one statement is a transaction without BEGIN and COMMIT
                await _run_step(connection, *known[0])
                return
            async with connection.transaction():
                for each, rows in known:
                    await _run_step(connection, each, rows)

    async def _write_returning(self, steps: Sequence[Step], last: Executable, params: Params) -> Sequence[Row]:
        known = self._compile(last)
        async with self._lender.lend() as connection:
            if not any(rows for _, rows in steps):  # see `write`
                rows: Sequence[Row] = await connection.fetch(known.sql, *known.arguments(params))
                return rows
            async with connection.transaction():
                for statement, some in steps:
                    if some:
                        await _run_step(connection, self._compile(statement), some)
                rows = await connection.fetch(known.sql, *known.arguments(params))
        return rows

    def _forward(self, topic: str, ids: frozenset[int]) -> None:
        self._outgoing[topic] |= ids
        self._outgoing_ready.set()

    async def _notify(self) -> None:
        """The first goes at once; those that come within `GATHER_S` of it go out together in the next."""
        while True:
            await self._outgoing_ready.wait()
            self._outgoing_ready.clear()
            waiting, self._outgoing = self._outgoing, defaultdict(set)
            try:
                async with self._lender.lend() as connection:
                    await connection.execute(_NOTIFY, CHANNEL, self._notices(waiting))
            except Exception as error:  # noqa: BLE001  # a lost signal costs latency only
                log.warning("notify_failed", error=str(error))
            await _pause(GATHER_S)

    def _notices(self, waiting: Mapping[str, set[int]]) -> list[str]:
        """What is said, in as many notices as it takes."""
        notices = []
        for topic, ids in waiting.items():
            ordered = sorted(ids)
            for start in range(0, len(ordered), NOTIFY_IDS):
                some = ",".join(map(str, ordered[start : start + NOTIFY_IDS]))
                notices.append(f"{self._origin}:{topic}:{some}")
        return notices

    async def _listen(self) -> None:
        """Keeps one connection listening. After every (re)connection anything may have been missed."""
        pause_s = 0.1
        while True:
            try:
                options = dialects.connect_options(self._session_url)
                connection = await asyncpg.connect(**options, timeout=ACQUIRE_TIMEOUT_S)
                try:
                    await dialects.notice_silence(connection)
                    gone = asyncio.Event()
                    connection.add_termination_listener(lambda _, gone=gone: gone.set())
                    await connection.add_listener(CHANNEL, self._heard)
                    await server_clock.follow(connection)
                    self.signals.deliver_everything()
                    pause_s = 0.1
                    await self._until_gone(connection, gone)
                finally:
                    connection.terminate()  # it may be broken: no farewell is waited for
            except TROUBLE as error:
                metrics.LISTEN_LOST.inc()
                log.warning("listen_failed", error=str(error), again_in_s=pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, RECONNECT_MAX_S)

    async def _until_gone(self, connection: Any, gone: asyncio.Event) -> None:
        """Ask now and then, for the time: a connection that is half open tells nothing, and would be waited for in
        vain."""
        while not gone.is_set():
            try:
                async with asyncio.timeout(LISTEN_CHECK_S):
                    await gone.wait()
            except TimeoutError:
                await server_clock.follow(connection)

    def _heard(self, connection: Any, pid: int, channel: str, payload: str) -> None:
        origin, topic, ids = payload.split(":")
        if origin == self._origin:  # this process was told when it sent it
            return
        self.signals.deliver(topic, frozenset(int(each) for each in ids.split(",") if each))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                await self._lender.close()
                await self._pool.close()
                return
        self._pool.terminate()


async def _run_step(connection: Any, known: Statement, rows: Sequence[Params]) -> None:
    if len(rows) == 1:
        await connection.execute(known.sql, *known.arguments(rows[0]))
    elif (sql := known.insert_columns()) is not None:
        await connection.execute(sql, *known.columns(rows))
    else:
        await connection.executemany(known.sql, [known.arguments(row) for row in rows])


async def _keep(connection: Any) -> None:
    return None
