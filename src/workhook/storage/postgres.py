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
from workhook.storage.database import Database, DeferredRead, DeferredWrite, Reader, Row, Transaction
from workhook.storage.signals import Signals
from workhook.storage.statements import Compiler, Params, Statement, joined

ACQUIRE_TIMEOUT_S = 5.0
WARM_S = 1.0  # how long a connection that was used stays at hand
COMMAND_TIMEOUT_S = 30.0
RECONNECT_MAX_S = 5.0
LISTEN_CHECK_S = 15.0
CHANNEL = "workhook"
DRIVER_ERRORS = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""What the driver raises; the last one when the server ends a connection just before it is used."""
_LISTEN_ERRORS = (*DRIVER_ERRORS, Unavailable)
Connect = Callable[[], AbstractAsyncContextManager[Any]]
# Compiling a statement costs more than to run it. PostgreSQL does it by what it expects to read, not by what a limit
# leaves of that. A pooler need not take this.
_SETTINGS = {"jit": "off"}
GATHER_S = 0.01
NOTIFY_TIMEOUT_S = 2.0
NOTIFY_IDS = 500  # ids in one NOTIFY: its payload is at most 8,000 bytes
CLOCK_LOOKS = 3
CLOCK_TIMEOUT_S = 5.0
CLOCK_WARN_MS = 2000  # the host's clock is off by more, which is logged
_MICROSECOND_NS = 1000  # what the server's clock is told in

log = structlog.get_logger(__name__)
_pause = asyncio.sleep

_NOW = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
# A NOTIFY writes a commit record; it need not wait until the record is on the disk.
_NOTIFY = "SELECT pg_notify($1, each), set_config('synchronous_commit', 'off', true) FROM unnest($2::text[]) AS each"


# --- connections: those of the pool, and the one that listens ---------------------------------------------------------


def terminate(connection: Any) -> None:
    """Close the connection without telling the server. The pool may have done so already."""
    with suppress(asyncpg.InterfaceError):
        connection.terminate()


class WarmPool:
    """asyncpg's pool, with the connections that were just used at hand.

    To go through the pool takes a task and two timers, which is more CPU than a short statement. So a connection that
    was used stays here unless somebody waits for one, for `WARM_S` at most. Then the pool has it back, and may close
    it.
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
        """Raises what the driver raises, within `ACQUIRE_TIMEOUT_S`."""
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
        """`keep`: nothing went wrong with it. The pool would end what was left of a transaction."""
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
        """Wait until all connections are released, and close them."""
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
    """Tell whether a pool's connection is neither lost nor closed."""
    return connection._con is not None and not connection.is_closed()


def _note_lost(trouble: BaseException) -> None:
    metrics.NOT_RELEASED.inc()
    log.warning("connection_not_given_back", error=str(trouble) or type(trouble).__name__)


class PooledConnection:
    """`async with PooledConnection(pool) as connection`: raises driver errors as `dialects.postgresql_problem` does.

    It is a class, because a generator's context manager takes more CPU.
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
        # After an error of the client a running statement never ends. Another connection may be allowed to write.
        if isinstance(error, asyncpg.InternalClientError | asyncpg.ReadOnlySQLTransactionError):
            terminate(self._connection)
        try:
            await self._pool.release(self._connection, keep=error is None)
        except DRIVER_ERRORS as trouble:
            _note_lost(trouble)  # what was done is done, and committed; and of two errors the first counts
        _raise_as_problem(error)


class ListeningConnection:
    """The connection that listens, used by one caller at a time; a pooled one while it is not connected."""

    def __init__(self, connect_pooled: Connect) -> None:
        self._connect_pooled = connect_pooled
        self._turn = asyncio.Lock()
        self.connection: Any = None

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Any]:
        """Connect, with the errors of `PooledConnection`."""
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
                # Unless the server answered, a statement may still be running. The connection is made anew.
                read_only = isinstance(error, asyncpg.ReadOnlySQLTransactionError)
                if read_only or not isinstance(error, asyncpg.PostgresError):
                    connection.terminate()
                _raise_as_problem(error)
                raise


def _raise_as_problem(error: BaseException | None) -> None:
    """Raise what a driver's error means to the program; return for every other error."""
    if isinstance(error, DRIVER_ERRORS) and (problem := dialects.postgresql_problem(error)) is not error:
        raise problem from error


# --- transactions -----------------------------------------------------------------------------------------------------


class Asked(NamedTuple):
    """A statement with its values in the driver's order; `planned_once`: see `Statement`."""

    sql: str
    arguments: list[Any]
    planned_once: bool | None


class PostgresTransaction(Transaction):
    """BEGIN travels with the first statement and COMMIT with the last (`storage.pipeline`)."""

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
            if (one := as_one(known, rows)) is not None:
                await self._ready_for(one.sql, one.planned_once)
                await self._connection.execute(one.sql, *one.arguments)
            else:
                await self._ready_for(known.sql, known.planned_once)
                await self._connection.executemany(known.sql, [known.arguments(row) for row in rows])

    async def _run_last(self, asked: Asked) -> Sequence[Row]:
        """With the COMMIT. A statement that is alone is a transaction without BEGIN and COMMIT."""
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
        """Roll back without an error of the driver's: the earlier one counts."""
        if not self._is_open:
            return
        try:
            await self._connection.execute("ROLLBACK")
        except DRIVER_ERRORS as error:
            log.warning("not_rolled_back", error=str(error) or type(error).__name__)  # the server does it by itself
            terminate(self._connection)

    def end(self) -> None:
        """Refuse what comes later: the connection is somebody else's then."""
        self._connection = None

    async def _ask(self, asked: Asked) -> Sequence[Row]:
        await self._prepare(asked.sql, asked.planned_once)
        rows: Sequence[Row] = await self._connection.fetch(asked.sql, *asked.arguments)
        return rows

    def _together(self, question: DeferredRead | None) -> Asked:
        """Return one statement of all that is queued."""
        waiting, self.deferred = self.deferred, []
        parts, arguments, plans = self._parts(waiting)
        if question is not None:
            known = self._compile(question.statement)
            sql, arguments = known.sql, arguments + known.arguments(question.params)
            plans.append(known.planned_once)
        else:
            _, sql, _ = parts.pop()
        once = False if False in plans else True if True in plans else None
        return Asked(joined(tuple(parts), sql) if parts else sql, arguments, once)

    def _parts(
        self, waiting: Sequence[DeferredWrite]
    ) -> tuple[list[tuple[str, str, int]], list[Any], list[bool | None]]:
        """Return the parts for `joined`, the values, and whether each part is planned once."""
        parts, arguments, plans = [], list[Any](), list[bool | None]()
        for name, statement, rows in waiting:
            known = self._compile(statement)
            asked = as_one(known, rows)
            assert asked is not None, f"not a plain INSERT: {known.sql}"
            parts.append((name, asked.sql, len(asked.arguments)))
            arguments += asked.arguments
            plans.append(asked.planned_once)
        return parts, arguments, plans


def as_one(known: Statement, rows: Sequence[Params]) -> Asked | None:
    """Return the rows as one statement with its values, if possible."""
    if len(rows) == 1:
        return Asked(known.sql, known.arguments(rows[0]), known.planned_once)
    sql = known.insert_columns()
    return None if sql is None else Asked(sql, list[Any](known.columns(rows)), known.planned_once)


class PostgresDatabase(Database):
    """Open with `await PostgresDatabase.open(url)`.

    `session_url`: the server itself, if `url` leads to a pooler that gives each transaction any connection. Statements
    are not kept prepared then, and listening, which needs a session of its own, uses `session_url`.
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
        self._slow = slow.Turns()
        self._outgoing: dict[str, set[int]] = defaultdict(set)
        self._outgoing_ready = asyncio.Event()
        self._origin = secrets.token_hex(6)
        self._tasks: list[asyncio.Task[None]] = []
        self._listening = ListeningConnection(self._connect)
        self._apart = copy(self)
        self._apart._connect = self._listening.connect

    @property
    def apart(self) -> Database:
        """Use the connection that listens: it is mostly idle."""
        return self._apart

    @classmethod
    async def open(
        cls, url: str, *, session_url: str | None = None, connections: int = 6, listen: bool = True
    ) -> PostgresDatabase:
        """`connections`: how many at most, with the one that listens."""
        try:
            pool = await asyncpg.create_pool(
                **dialects.connect_options(url),
                min_size=1,
                max_size=connections - 1 if listen else connections,
                timeout=ACQUIRE_TIMEOUT_S,
                command_timeout=COMMAND_TIMEOUT_S,
                statement_cache_size=512 if session_url is None else 0,
                max_cacheable_statement_size=0,  # however long
                max_inactive_connection_lifetime=300,
                server_settings=_SETTINGS if session_url is None else None,
                # No code changes a session's state, so nothing has to be reset: this saves a round trip.
                reset=_keep,
                init=dialects.notice_silence,
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
        async with self._slow.turn(), self._connect() as connection:
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
            await dialects.notice_silence(connection)
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                yield _PostgresSnapshot(connection, self._compile)
        except asyncpg.InterfaceError as error:  # the connection was lost, so its transaction could not be left
            raise dialects.postgresql_problem(error) from error
        finally:
            with suppress(TimeoutError):
                await connection.close(timeout=ACQUIRE_TIMEOUT_S)

    def _forward(self, topic: str, ids: frozenset[int]) -> None:
        self._outgoing[topic] |= ids
        self._outgoing_ready.set()

    async def _notify(self) -> None:
        """Send a signal at once, and those of the next `GATHER_S` seconds together.

        The connection that listens sends them: its process of the server hears them anyway.
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
                    # No longer: leases are kept over this connection, too.
                    await connection.execute(_NOTIFY, CHANNEL, self._notices(waiting), timeout=NOTIFY_TIMEOUT_S)
            except Exception as error:  # noqa: BLE001  # a lost signal costs latency only
                log.warning("notify_failed", error=str(error))

    def _notices(self, waiting: Mapping[str, set[int]]) -> list[str]:
        """The payloads: at most `NOTIFY_IDS` ids each."""
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
                    await dialects.notice_silence(connection)
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
                    connection.terminate()  # it may be broken, so no answer is awaited
            except _LISTEN_ERRORS as error:
                metrics.LISTEN_LOST.inc()
                log.warning("listen_failed", error=str(error), again_in_s=pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, RECONNECT_MAX_S)

    async def _until_gone(self, gone: asyncio.Event) -> None:
        """Ask for the time every `LISTEN_CHECK_S` seconds: a half-open connection would never end by itself."""
        while not gone.is_set():
            try:
                async with asyncio.timeout(LISTEN_CHECK_S):
                    await gone.wait()
            except TimeoutError:
                async with self._listening.connect() as connection:
                    await follow_clock(connection)

    def _heard(self, connection: Any, pid: int, channel: str, payload: str) -> None:
        origin, topic, ids = payload.split(":")
        if origin == self._origin:  # this process sent it
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
    """The reads of one transaction that sees one moment."""

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
    """Follow the server's clock, as all processes of a database do. Raises what the driver raises.

    The answer belongs to some moment of the round trip: taking the middle is wrong by half of it at most. So the
    fastest of several answers counts. A host's clock within that error is left alone.
    """
    took_ns, at_ns, monotonic_ns = min([await _look_at_clock(connection) for _ in range(CLOCK_LOOKS)])
    was_off = abs(clock.host_ahead_ms()) > CLOCK_WARN_MS
    clock.follow(at_ns, monotonic_ns, wrong_by_ns=took_ns // 2 + _MICROSECOND_NS)
    ahead_ms = clock.host_ahead_ms()
    metrics.HOST_CLOCK_AHEAD.set(ahead_ms / 1000)
    if abs(ahead_ms) > CLOCK_WARN_MS and not was_off:
        log.warning("host_clock_is_off", ahead_s=round(ahead_ms / 1000, 1), counts="the database's clock")


async def _look_at_clock(connection: Any) -> tuple[int, int, int]:
    """Return the time taken, the server's clock and the monotonic clock, in nanoseconds."""
    before_ns = time.monotonic_ns()
    at_us: int = await connection.fetchval(_NOW, timeout=CLOCK_TIMEOUT_S)
    took_ns = time.monotonic_ns() - before_ns
    return took_ns, at_us * 1000, before_ns + took_ns // 2
