"""PostgreSQL through asyncpg: reads in autocommit, transactions at READ COMMITTED, signals over NOTIFY."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from copy import copy
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple

import asyncpg
import structlog
from sqlalchemy.sql.expression import Executable

from workhook.core import clock
from workhook.core.errors import Unavailable
from workhook.storage import dialects, metrics, pipeline, slow
from workhook.storage.database import Database, DeferredRead, Reader, Row, Transaction
from workhook.storage.signals import Signals
from workhook.storage.statements import Compiler, Params, Statement, joined

ACQUIRE_TIMEOUT_S = 5.0
WARM_S = 1.0  # how long a used connection stays at hand
COMMAND_TIMEOUT_S = 30.0
RECONNECT_MAX_S = 5.0
LISTEN_CHECK_S = 15.0
CHANNEL = "workhook"
DRIVER_ERRORS = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""Errors of the driver; the last one occurs if the server closes a connection just before it is used."""
_LISTEN_ERRORS = (*DRIVER_ERRORS, Unavailable)
Connect = Callable[[], AbstractAsyncContextManager[Any]]
# JIT compilation costs more than it saves here. PostgreSQL decides by the rows it expects to read, ignoring limits. A
# pooler may not accept this setting.
_SETTINGS = {"jit": "off"}
GATHER_S = 0.01
NOTIFY_TIMEOUT_S = 2.0
NOTIFY_IDS = 500  # per NOTIFY, whose payload is at most 8,000 bytes
CLOCK_LOOKS = 3
CLOCK_TIMEOUT_S = 5.0
CLOCK_WARN_MS = 2000  # a larger offset of the host's clock is logged
_MICROSECOND_NS = 1000  # the resolution of the server's clock

log = structlog.get_logger(__name__)
_pause = asyncio.sleep

_NOW = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
# A NOTIFY writes a commit record, but need not wait until the record is on disk.
_NOTIFY = "SELECT pg_notify($1, each), set_config('synchronous_commit', 'off', true) FROM unnest($2::text[]) AS each"


# --- connections: those of the pool, and the listening one ------------------------------------------------------------


def terminate(connection: Any) -> None:
    """Close the connection without notifying the server. The pool may already have closed it."""
    with suppress(asyncpg.InterfaceError):
        connection.terminate()


class WarmPool:
    """asyncpg's pool, plus recently used connections that are kept at hand for up to `WARM_S`.

    Going through the pool takes a task and two timers, which cost more CPU than a short statement. If a caller is
    waiting, a used connection returns to the pool.
    """

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._warm: list[Any] = []
        self._waiting = 0  # for the pool
        self._timer: asyncio.TimerHandle | None = None
        self._is_closing = False
        self._cooling: asyncio.Task[None] | None = None

    @property
    def idle(self) -> int:
        return int(self._pool.get_idle_size()) + len(self._warm)

    async def acquire(self) -> Any:
        """Acquire a connection within `ACQUIRE_TIMEOUT_S`. Raises the driver's errors."""
        while self._warm:
            connection = self._warm.pop()
            if is_usable(connection):
                return connection
            await self._pool.release(connection)
        self._waiting += 1
        try:
            return await self._pool.acquire(timeout=ACQUIRE_TIMEOUT_S)
        finally:
            self._waiting -= 1

    async def release(self, connection: Any, *, keep: bool) -> None:
        """Release a connection. `keep` means that it had no error and may stay at hand.

        The pool itself ends any unfinished transaction.
        """
        keep = keep and is_usable(connection) and not connection.is_in_transaction()
        if not keep or self._waiting or self._is_closing:
            await self._pool.release(connection)
            return
        self._warm.append(connection)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WARM_S, self._cool_down)

    def _cool_down(self) -> None:
        self._timer = None
        self._cooling = asyncio.create_task(self._give_back(), name="pg-cooling")

    async def _give_back(self) -> None:
        while self._warm:
            connection = self._warm.pop()
            try:
                await self._pool.release(connection)
            except DRIVER_ERRORS as trouble:
                _note_lost(trouble)

    async def close(self) -> None:
        self._is_closing = True
        if self._timer is not None:
            self._timer.cancel()
        await self._give_back()
        if self._cooling is not None:
            await self._cooling
        await self._pool.close()

    def terminate(self) -> None:
        self._pool.terminate()


def is_usable(connection: Any) -> bool:
    return connection._con is not None and not connection.is_closed()


def _note_lost(trouble: BaseException) -> None:
    metrics.NOT_RELEASED.inc()
    log.warning("connection_not_released", error=str(trouble) or type(trouble).__name__)


class PooledConnection:
    """A connection from the pool: `async with PooledConnection(pool) as connection`.

    Raises driver errors as translated by `dialects.postgresql_problem`. A generator-based context manager would take
    more CPU than this class.
    """

    def __init__(self, pool: WarmPool) -> None:
        self._pool = pool

    async def __aenter__(self) -> Any:
        try:
            self._connection = await self._pool.acquire()
        except DRIVER_ERRORS as error:
            raise dialects.postgresql_problem(error) from error
        return self._connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            pipeline.forget(self._connection)
        # After a client error a running statement never ends. After a read-only error another server may accept writes.
        if isinstance(error, asyncpg.InternalClientError | asyncpg.ReadOnlySQLTransactionError):
            terminate(self._connection)
        try:
            await self._pool.release(self._connection, keep=error is None)
        except DRIVER_ERRORS as trouble:
            _note_lost(trouble)  # the work is done and committed, and the first of two errors counts
        _raise_as_problem(error)


class ListeningConnection:
    """The listening connection, used by one caller at a time. Falls back to a pooled one while it is disconnected."""

    def __init__(self, connect_pooled: Connect) -> None:
        self._connect_pooled = connect_pooled
        self._turn = asyncio.Lock()
        self.connection: Any = None

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Any]:
        async with self._turn:
            connection = self.connection
            if connection is None or connection.is_closed():
                async with self._connect_pooled() as other:
                    yield other
                return
            try:
                yield connection
            except BaseException as error:
                pipeline.forget(connection)
                # Unless the server responded, a statement may still be running, so the connection is replaced.
                read_only = isinstance(error, asyncpg.ReadOnlySQLTransactionError)
                if read_only or not isinstance(error, asyncpg.PostgresError):
                    connection.terminate()
                _raise_as_problem(error)
                raise


def _raise_as_problem(error: BaseException | None) -> None:
    """Raise the problem that corresponds to a driver's error. Does nothing for other errors."""
    if isinstance(error, DRIVER_ERRORS) and (problem := dialects.postgresql_problem(error)) is not error:
        raise problem from error


# --- transactions -----------------------------------------------------------------------------------------------------


class BoundStatement(NamedTuple):
    """A statement with its values in the driver's order. For `planned_once`, see `Statement`."""

    sql: str
    arguments: list[Any]
    planned_once: bool | None


class PostgresTransaction(Transaction):
    """A transaction that sends BEGIN with the first statement and COMMIT with the last (`storage.pipeline`)."""

    dialect = "postgresql"

    def __init__(self, connection: Any, compiler: Compiler, signals: Signals) -> None:
        super().__init__(signals)
        self._connection = connection
        self._compile = compiler
        self._is_open = False

    async def _ready_for(self, sql: str, planned_once: bool | None) -> None:
        if self.deferred or self.deferred_read is not None:
            await self.flush()
        await self._prepare(sql, planned_once)

    async def _prepare(self, sql: str, planned_once: bool | None) -> None:
        begin, self._is_open = not self._is_open, True
        await pipeline.prepare(self._connection, sql, begin=begin, planned_once=planned_once)

    async def fetch_all(self, statement: Executable, params: Params | None = None) -> Sequence[Row]:
        known = self._compile(statement)
        arguments = known.arguments(params)
        await self._ready_for(known.sql, known.planned_once)
        rows: Sequence[Row] = await self._connection.fetch(known.sql, *arguments)
        return rows

    async def fetch_one(self, statement: Executable, params: Params | None = None) -> Row | None:
        known = self._compile(statement)
        arguments = known.arguments(params)
        await self._ready_for(known.sql, known.planned_once)
        row: Row | None = await self._connection.fetchrow(known.sql, *arguments)
        return row

    async def execute(self, statement: Executable, params: Params | None = None) -> int:
        known = self._compile(statement)
        arguments = known.arguments(params)
        await self._ready_for(known.sql, known.planned_once)
        tag: str = await self._connection.execute(known.sql, *arguments)
        count = tag.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0

    async def execute_many(self, statement: Executable, rows: Sequence[Params]) -> None:
        if rows:
            known = self._compile(statement)
            if (one := as_single_statement(known, rows)) is not None:
                await self._ready_for(one.sql, one.planned_once)
                await self._connection.execute(one.sql, *one.arguments)
            else:
                await self._ready_for(known.sql, known.planned_once)
                await self._connection.executemany(known.sql, [known.arguments(row) for row in rows])

    async def _run_last(self, asked: BoundStatement) -> Sequence[Row]:
        """Run a statement together with the COMMIT. A single statement runs without BEGIN and COMMIT."""
        rows: Sequence[Row]
        if self._is_open:
            rows = await pipeline.fetch_and_commit(
                self._connection, asked.sql, asked.arguments, planned_once=asked.planned_once
            )
            self._is_open = False
        else:
            await pipeline.prepare(self._connection, asked.sql, planned_once=asked.planned_once)
            rows = await self._connection.fetch(asked.sql, *asked.arguments)
        return rows

    async def flush(self) -> None:
        if self.deferred or self.deferred_read is not None:
            question, self.deferred_read = self.deferred_read, None
            asked = self._together(question)
            rows = await self._run_last(asked) if self.is_ending else await self._ask(asked)
            if question is not None:
                question.then(rows)
        elif self.is_ending and self._is_open:
            await pipeline.commit(self._connection)
            self._is_open = False

    async def roll_back(self) -> None:
        """Roll back, ignoring driver errors: the original error counts."""
        if not self._is_open:
            return
        try:
            await self._connection.execute("ROLLBACK")
        except DRIVER_ERRORS as error:
            log.warning("rollback_failed", error=str(error) or type(error).__name__)  # the server rolls back by itself
            terminate(self._connection)

    def end(self) -> None:
        """Reject later use, when the connection may already belong to another caller."""
        self._connection = None

    async def _ask(self, asked: BoundStatement) -> Sequence[Row]:
        await self._prepare(asked.sql, asked.planned_once)
        rows: Sequence[Row] = await self._connection.fetch(asked.sql, *asked.arguments)
        return rows

    def _together(self, question: DeferredRead | None) -> BoundStatement:
        waiting, self.deferred = self.deferred, []
        parts, arguments, plans = [], list[Any](), list[bool | None]()
        for name, statement, rows in waiting:
            known = self._compile(statement)
            asked = as_single_statement(known, rows)
            assert asked is not None, f"not a plain INSERT: {known.sql}"
            parts.append((name, asked.sql, len(asked.arguments)))
            arguments += asked.arguments
            plans.append(asked.planned_once)
        if question is not None:
            known = self._compile(question.statement)
            sql, arguments = known.sql, arguments + known.arguments(question.params)
            plans.append(known.planned_once)
        else:
            _, sql, _ = parts.pop()
        once = False if False in plans else True if True in plans else None
        return BoundStatement(joined(tuple(parts), sql) if parts else sql, arguments, once)


def as_single_statement(known: Statement, rows: Sequence[Params]) -> BoundStatement | None:
    """Return the rows as one statement with its values, or None if that is impossible."""
    if len(rows) == 1:
        return BoundStatement(known.sql, known.arguments(rows[0]), known.planned_once)
    sql = known.insert_columns()
    return None if sql is None else BoundStatement(sql, list[Any](known.columns(rows)), known.planned_once)


class PostgresDatabase(Database):
    """A PostgreSQL database. Open it with `await PostgresDatabase.open(url)`.

    `session_url` is the server itself if `url` is a pooler in transaction mode. In that case statements are not kept
    prepared, and listening, which needs its own session, uses `session_url`.
    """

    name = "postgresql"

    def __init__(self, session_url: str, pool: Any) -> None:
        self._session_url = session_url
        self._pool = WarmPool(pool)
        self._connect: Connect = partial(PooledConnection, self._pool)
        metrics.CONNECTIONS.labels("open").set_function(pool.get_size)
        metrics.CONNECTIONS.labels("idle").set_function(lambda: self._pool.idle)
        self._compile = Compiler(dialects.postgresql())
        self.signals = Signals()
        self._slow = asyncio.Semaphore(slow.AT_ONCE)
        self._outgoing: dict[str, set[int]] = defaultdict(set)
        self._outgoing_ready = asyncio.Event()
        self._origin = secrets.token_hex(6)
        self._tasks: list[asyncio.Task[None]] = []
        self._listening = ListeningConnection(self._connect)
        self._apart = copy(self)
        self._apart._connect = self._listening.connect

    @property
    def low_traffic(self) -> Database:
        """The same database through the listening connection, which is mostly idle. For occasional queries."""
        return self._apart

    @classmethod
    async def open(
        cls, url: str, *, session_url: str | None = None, connections: int = 6, listen: bool = True
    ) -> PostgresDatabase:
        """Connect. `connections` is the maximum number, including the listening one."""
        try:
            pool = await asyncpg.create_pool(
                **dialects.connect_options(url),
                min_size=1,
                max_size=connections - 1 if listen else connections,
                timeout=ACQUIRE_TIMEOUT_S,
                command_timeout=COMMAND_TIMEOUT_S,
                statement_cache_size=512 if session_url is None else 0,
                max_cacheable_statement_size=0,  # no limit
                max_inactive_connection_lifetime=300,
                server_settings=_SETTINGS if session_url is None else None,
                # No code changes session state, so no reset is needed. This saves a round trip.
                reset=_keep,
                init=dialects.set_tcp_timeouts,
            )
        except DRIVER_ERRORS as error:
            raise dialects.postgresql_problem(error) from error
        database = cls(session_url or url, pool)
        try:
            async with database._connect() as connection:
                await follow_clock(connection)
        except BaseException:
            pool.terminate()
            raise
        database.signals.forward = database._forward
        database._tasks.append(asyncio.create_task(database._notify(), name="pg-notify"))
        if listen:
            database._tasks.append(asyncio.create_task(database._listen(), name="pg-listen"))
        return database

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        async with self._connect() as connection:
            transaction = PostgresTransaction(connection, self._compile, self.signals)
            try:
                yield transaction
                await transaction.finish()
            except BaseException:
                await transaction.roll_back()
                raise
            finally:
                transaction.end()
        transaction.committed()

    async def fetch_all(self, statement: Executable, params: Params | None = None) -> Sequence[Row]:
        known = self._compile(statement)
        async with self._connect() as connection:
            await pipeline.prepare(connection, known.sql, planned_once=known.planned_once)
            rows: Sequence[Row] = await connection.fetch(known.sql, *known.arguments(params))
            return rows

    async def fetch_one(self, statement: Executable, params: Params | None = None) -> Row | None:
        known = self._compile(statement)
        async with self._connect() as connection:
            await pipeline.prepare(connection, known.sql, planned_once=known.planned_once)
            row: Row | None = await connection.fetchrow(known.sql, *known.arguments(params))
            return row

    async def fetch_slow(self, statement: Executable, params: Params | None = None) -> Sequence[Row]:
        known = self._compile(statement)
        async with slow.turn(self._slow), self._connect() as connection:
            await pipeline.prepare(connection, known.sql)
            try:
                rows: Sequence[Row] = await connection.fetch(
                    known.sql, *known.arguments(params), timeout=slow.TIMEOUT_S
                )
            except TimeoutError:
                raise slow.QueryTooSlow() from None
            return rows

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Reader]:
        try:
            connection = await asyncpg.connect(
                **dialects.connect_options(self._session_url),
                timeout=ACQUIRE_TIMEOUT_S,
                command_timeout=COMMAND_TIMEOUT_S,
                server_settings=_SETTINGS,
            )
        except DRIVER_ERRORS as error:
            raise dialects.postgresql_problem(error) from error
        try:
            await dialects.set_tcp_timeouts(connection)
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                yield _PostgresSnapshot(connection, self._compile)
        except asyncpg.InterfaceError as error:  # the connection was lost, so its transaction could not be ended
            raise dialects.postgresql_problem(error) from error
        finally:
            with suppress(TimeoutError):
                await connection.close(timeout=ACQUIRE_TIMEOUT_S)

    def _forward(self, topic: str, ids: frozenset[int]) -> None:
        self._outgoing[topic] |= ids
        self._outgoing_ready.set()

    async def _notify(self) -> None:
        """Send a signal immediately, and those of the following `GATHER_S` seconds together.

        They are sent on the listening connection, whose server process receives them anyway.
        """
        loop = asyncio.get_running_loop()
        again_at = loop.time()
        while True:
            await self._outgoing_ready.wait()
            if (early_s := again_at - loop.time()) > 0:
                await _pause(early_s)
            again_at = loop.time() + GATHER_S
            self._outgoing_ready.clear()
            waiting, self._outgoing = self._outgoing, defaultdict(set)
            try:
                async with self._listening.connect() as connection:
                    # A short timeout, because leases are renewed over this connection too.
                    await connection.execute(_NOTIFY, CHANNEL, self._notices(waiting), timeout=NOTIFY_TIMEOUT_S)
            except Exception as error:  # noqa: BLE001  # a lost signal only adds latency
                log.warning("notify_failed", error=str(error))

    def _notices(self, waiting: Mapping[str, set[int]]) -> list[str]:
        notices = []
        for topic, ids in waiting.items():
            ordered = sorted(ids)
            for start in range(0, len(ordered), NOTIFY_IDS):
                some = ",".join(map(str, ordered[start : start + NOTIFY_IDS]))
                notices.append(f"{self._origin}:{topic}:{some}")
        return notices

    async def _listen(self) -> None:
        """Keep one connection listening. Signals may have been missed before each (re)connection."""
        pause_s = 0.1
        while True:
            try:
                options = dialects.connect_options(self._session_url)
                connection = await asyncpg.connect(
                    **options, timeout=ACQUIRE_TIMEOUT_S, command_timeout=COMMAND_TIMEOUT_S
                )
                try:
                    await dialects.set_tcp_timeouts(connection)
                    gone = asyncio.Event()
                    connection.add_termination_listener(lambda _, gone=gone: gone.set())
                    await connection.add_listener(CHANNEL, self._heard)
                    await follow_clock(connection)
                    self._listening.connection = connection
                    self.signals.deliver_everything()
                    pause_s = 0.1
                    await self._until_gone(gone)
                finally:
                    self._listening.connection = None
                    connection.terminate()  # may be broken, so do not wait for a response
            except _LISTEN_ERRORS as error:
                metrics.LISTEN_LOST.inc()
                log.warning("listen_failed", error=str(error), retry_in_s=pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, RECONNECT_MAX_S)

    async def _until_gone(self, gone: asyncio.Event) -> None:
        """Query the time every `LISTEN_CHECK_S` seconds, because a half-open connection would never end by itself."""
        while not gone.is_set():
            try:
                async with asyncio.timeout(LISTEN_CHECK_S):
                    await gone.wait()
            except TimeoutError:
                async with self._listening.connect() as connection:
                    await follow_clock(connection)

    def _heard(self, connection: Any, pid: int, channel: str, payload: str) -> None:
        origin, topic, ids = payload.split(":")
        if origin == self._origin:  # sent by this process
            return
        self.signals.deliver(topic, frozenset(int(each) for each in ids.split(",") if each))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                await self._pool.close()
                return
        self._pool.terminate()


class _PostgresSnapshot(Reader):
    """A reader whose queries all see the same snapshot of the database, in one transaction."""

    def __init__(self, connection: Any, compiler: Compiler) -> None:
        self._connection, self._compile = connection, compiler

    async def fetch_all(self, statement: Executable, params: Params | None = None) -> Sequence[Row]:
        known = self._compile(statement)
        try:
            rows: Sequence[Row] = await self._connection.fetch(known.sql, *known.arguments(params))
        except DRIVER_ERRORS as error:
            raise dialects.postgresql_problem(error) from error
        return rows


async def _keep(connection: Any) -> None:
    return None


async def follow_clock(connection: Any) -> None:
    """Follow the server's clock, like all processes that share the database. Raises the driver's errors.

    Each reading is attributed to the middle of its round trip, so it is wrong by at most half the round trip. The
    fastest of several readings is used.
    """
    took_ns, at_ns, monotonic_ns = min([await _read_clock(connection) for _ in range(CLOCK_LOOKS)])
    was_off = abs(clock.host_ahead_ms()) > CLOCK_WARN_MS
    clock.follow_clock(at_ns, monotonic_ns, wrong_by_ns=took_ns // 2 + _MICROSECOND_NS)
    ahead_ms = clock.host_ahead_ms()
    metrics.HOST_CLOCK_AHEAD.set(ahead_ms / 1000)
    if abs(ahead_ms) > CLOCK_WARN_MS and not was_off:
        log.warning("host_clock_off", ahead_s=round(ahead_ms / 1000, 1), note="the database's clock is used")


async def _read_clock(connection: Any) -> tuple[int, int, int]:
    """Return the time taken, the server's clock and the monotonic clock, in nanoseconds."""
    before_ns = time.monotonic_ns()
    at_us: int = await connection.fetchval(_NOW, timeout=CLOCK_TIMEOUT_S)
    took_ns = time.monotonic_ns() - before_ns
    return took_ns, at_us * 1000, before_ns + took_ns // 2
