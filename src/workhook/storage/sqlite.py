"""SQLite: one writer with group commit and a few readers. Each connection has its own thread."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import chain
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

import structlog
from sqlalchemy.sql.expression import Executable

from workhook.core.errors import Unavailable
from workhook.storage import dialects, metrics, slow
from workhook.storage.database import Database, Reader, Row, Transaction
from workhook.storage.signals import Signals
from workhook.storage.statements import Compiler, Params, Statement

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], T]

BUSY_TIMEOUT_S = 3.0  # how long another process may hold the write lock before the response is 503
STILL_BUSY_TIMEOUT_S = 0.2  # after a first timeout, so that the waits in a queue do not add up
TURN_TIMEOUT_S = 10.0  # how long a transaction waits for earlier ones in this process
GROUP_MAX = 128  # transactions per commit; bounds how long the first one waits
WATCH_INTERVAL_S = 1.0
ROWS_A_CALL = (64, 32, 16, 8, 7, 6, 5, 4, 3, 2, 1)  # each size is a prepared statement; SQLite takes 32,766 parameters

log = structlog.get_logger(__name__)


# --- connections, and the jobs that run on their threads --------------------------------------------------------------


def connect(path: Path, *, readonly: bool) -> sqlite3.Connection:
    """Open a connection with the settings that durability depends on."""
    connection = sqlite3.connect(
        path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False, cached_statements=512
    )
    connection.row_factory = sqlite3.Row
    pragmas = ["journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "cache_size=-16000"]
    if not readonly:
        # A multi-row INSERT keeps the pages it changes: in files, a third of the bytes written per event.
        pragmas.append("temp_store=MEMORY")
    for pragma in [*pragmas, f"busy_timeout={int(BUSY_TIMEOUT_S * 1000)}", f"query_only={int(readonly)}"]:
        connection.execute(f"PRAGMA {pragma}")
    return connection


class ConnectionThreads:
    """Threads with one connection each. A submitted job runs even if its caller is canceled."""

    def __init__(self, path: Path, count: int, *, readonly: bool) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[tuple[Job[object], asyncio.Future[object]] | None] = SimpleQueue()
        self._connections = [connect(path, readonly=readonly) for _ in range(count)]
        self._threads = [
            Thread(target=self._work, args=(connection,), name="sqlite", daemon=True)
            for connection in self._connections
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, job: Job[T]) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put((job, future))  # type: ignore[arg-type]  # the queue mixes jobs of every result type
        return future

    def _work(self, connection: sqlite3.Connection) -> None:
        while (item := self._jobs.get()) is not None:
            job, future = item
            try:
                outcome: tuple[object, BaseException | None] = (job(connection), None)
            except sqlite3.Error as error:
                outcome = (None, dialects.sqlite_problem(error))
            except BaseException as error:  # noqa: BLE001  # handed to the caller
                outcome = (None, error)
            with suppress(RuntimeError):  # the loop is closed, so no caller is left
                self._loop.call_soon_threadsafe(_settle, future, *outcome)

    async def close(self) -> None:
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            await asyncio.to_thread(thread.join)
        for connection in self._connections:
            connection.close()


def _settle(future: asyncio.Future[object], result: object, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


# --- transactions that share a commit ---------------------------------------------------------------------------------


class _Group:
    def __init__(self) -> None:
        self.members: list[SqliteTransaction] = []
        self.durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # All members may have been canceled by then, so the failure is logged where it occurs.
        self.durable.add_done_callback(lambda done: done.cancelled() or done.exception())


class _WriteLock:
    """The file's write lock, which another process may hold. Used only on the writer's thread."""

    def __init__(self) -> None:
        self._timeout_s = BUSY_TIMEOUT_S

    def begin(self, connection: sqlite3.Connection) -> None:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            self._wait_for(connection, STILL_BUSY_TIMEOUT_S)
            raise
        self._wait_for(connection, BUSY_TIMEOUT_S)

    def _wait_for(self, connection: sqlite3.Connection, timeout_s: float) -> None:
        if timeout_s != self._timeout_s:
            connection.execute(f"PRAGMA busy_timeout={round(timeout_s * 1000)}")
            self._timeout_s = timeout_s


class SqliteTransaction(Transaction):
    """A savepoint of the writer's open transaction, created with its first statement."""

    dialect = "sqlite"

    def __init__(
        self,
        writer: ConnectionThreads,
        write_lock: _WriteLock,
        compiler: Compiler,
        signals: Signals,
        is_alone: Callable[[], bool],
    ) -> None:
        """Create the transaction. `is_alone` returns whether no other transaction would share the commit."""
        super().__init__(signals)
        self._writer = writer
        self._write_lock = write_lock
        self._compile = compiler
        self._is_alone = is_alone
        self.opened = False
        self.is_committed = False

    async def _run(self, job: Job[T]) -> T:
        if self.deferred_read is not None:
            await self.flush()
        commits = self.is_ending and self._is_alone()
        if self.opened and not self.deferred and not commits:
            return await self._writer.submit(job)
        waiting, self.deferred = self.deferred, []
        calls = [call for each in waiting for call in _calls(self._compile(each.statement), each.rows)]
        opened, self.opened = self.opened, True

        def first(connection: sqlite3.Connection) -> T:
            if not opened:
                if not connection.in_transaction:
                    self._write_lock.begin(connection)
                connection.execute("SAVEPOINT logical")
            for sql, arguments in calls:
                connection.execute(sql, arguments).fetchall()  # read all: an open cursor would prevent the COMMIT
            found = job(connection)
            if commits:
                _commit(connection)
                self.is_committed = True
            return found

        return await self._writer.submit(first)

    async def flush(self) -> None:
        if self.deferred_read is not None:
            question, self.deferred_read = self.deferred_read, None
            question.then(await self.fetch_all(question.statement, question.params))
        elif self.deferred:
            await self._run(lambda connection: None)

    async def finish(self) -> None:
        """Commit in the same job of the writer's thread if no other transaction is waiting."""
        await super().finish()
        if self.opened and not self.is_committed and self._is_alone():
            await self._run(lambda connection: None)

    async def fetch_all(self, statement: Executable, params: Params | None = None) -> Sequence[Row]:
        known = self._compile(statement)
        arguments = known.arguments(params)
        return await self._run(lambda connection: connection.execute(known.sql, arguments).fetchall())

    async def execute(self, statement: Executable, params: Params | None = None) -> int:
        known = self._compile(statement)
        arguments = known.arguments(params)
        return await self._run(lambda connection: _changed(connection, known.sql, arguments))

    async def execute_many(self, statement: Executable, rows: Sequence[Params]) -> None:
        if not rows:
            return
        calls = list(_calls(self._compile(statement), rows))

        def run(connection: sqlite3.Connection) -> None:
            for sql, arguments in calls:
                connection.execute(sql, arguments).fetchall()

        await self._run(run)


class _SqliteSnapshot(Reader):
    """A read transaction on its own thread. It ends with its connection."""

    def __init__(self, threads: ConnectionThreads, compiler: Compiler) -> None:
        self.threads, self._compile = threads, compiler

    async def fetch_all(self, statement: Executable, params: Params | None = None) -> Sequence[Row]:
        known = self._compile(statement)
        arguments = known.arguments(params)
        return await self.threads.submit(lambda connection: connection.execute(known.sql, arguments).fetchall())


class SqliteDatabase(Database):
    name = "sqlite"

    def __init__(self, path: Path, readers: int) -> None:
        self.path = path
        self.signals = Signals()
        self._compile = Compiler(dialects.SQLITE, dialects.sqlite_value)
        self._writer = ConnectionThreads(path, 1, readonly=False)
        self._readers = ConnectionThreads(path, readers, readonly=True)
        self._slow_readers = ConnectionThreads(path, slow.AT_ONCE, readonly=True)
        self._opened = path.stat()
        self._slow = asyncio.Semaphore(slow.AT_ONCE)
        self._write_lock = _WriteLock()
        self._turn = asyncio.Lock()
        self._waiting = 0  # for the turn
        self._group: _Group | None = None
        self._committer: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None

    @property
    def is_lost(self) -> bool:
        try:
            return not os.path.samestat(self.path.stat(), self._opened)
        except OSError:
            return True

    @classmethod
    async def open(cls, path: Path, *, readers: int = 2, watch: bool = True) -> SqliteDatabase:
        """Open the file. With `watch`, commits of other processes are noticed within a second."""
        try:
            database = cls(path, readers)
        except sqlite3.Error as error:
            raise dialects.sqlite_problem(error) from error
        if watch:
            database._watcher = asyncio.create_task(database._watch(), name="sqlite-watch")
        return database

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        await self._wait_for_turn()
        try:
            transaction = SqliteTransaction(
                self._writer, self._write_lock, self._compile, self.signals, self._nobody_waits
            )
            try:
                yield transaction
                await transaction.finish()
            except BaseException:
                if transaction.opened:
                    await asyncio.shield(self._roll_back())
                if transaction.is_committed:  # the caller was canceled in the meantime
                    transaction.committed()
                raise
            group = None if transaction.is_committed else self._release(transaction)
            if group is not None and len(group.members) >= GROUP_MAX:
                await asyncio.shield(self._commit())
        finally:
            self._turn.release()
        if group is None:
            if transaction.is_committed:
                metrics.COMMIT_GROUP.observe(1)
            transaction.committed()
        else:
            await asyncio.shield(group.durable)

    async def _wait_for_turn(self) -> None:
        self._waiting += 1
        metrics.WAITING.inc()
        try:
            async with asyncio.timeout(TURN_TIMEOUT_S):
                await self._turn.acquire()
        except TimeoutError:
            raise Unavailable("The database is busy.", code="database_unavailable") from None
        finally:
            self._waiting -= 1
            metrics.WAITING.dec()

    def _nobody_waits(self) -> bool:
        return not self._waiting and self._group is None

    def _release(self, transaction: SqliteTransaction) -> _Group | None:
        """Add the transaction to the group of the next commit. Returns None if it executed nothing."""
        if not transaction.opened:
            return None
        self._writer.submit(lambda connection: connection.execute("RELEASE logical"))
        if self._group is None:
            self._group = _Group()
            # Queue the commit behind the transactions that already wait, so that they share it: one fsync for all.
            self._committer = asyncio.create_task(self._commit_in_turn(), name="sqlite-commit")
        self._group.members.append(transaction)
        return self._group

    async def _commit_in_turn(self) -> None:
        async with self._turn:
            await self._commit()

    async def _commit(self) -> None:
        group, self._group = self._group, None
        if group is None:
            return
        try:
            await self._writer.submit(_commit)
        except Exception as error:  # noqa: BLE001  # handed to every waiting transaction
            group.durable.set_exception(error)
            return
        metrics.COMMIT_GROUP.observe(len(group.members))
        group.durable.set_result(None)
        for member in group.members:
            member.committed()

    async def _roll_back(self) -> None:
        """Undo one logical transaction. If SQLite rolled back the whole group because the disk is full, fail it."""
        alone = self._group is None
        survived = await self._writer.submit(lambda connection: _undo(connection, alone=alone))
        if not survived and self._group is not None:
            group, self._group = self._group, None
            log.error("group_rolled_back", count=len(group.members))
            group.durable.set_exception(
                Unavailable("The database cannot be written right now.", code="database_unavailable")
            )

    async def fetch_all(self, statement: Executable, params: Params | None = None) -> Sequence[Row]:
        known = self._compile(statement)
        arguments = known.arguments(params)
        return await self._readers.submit(lambda connection: connection.execute(known.sql, arguments).fetchall())

    async def fetch_slow(self, statement: Executable, params: Params | None = None) -> Sequence[Row]:
        known = self._compile(statement)
        arguments = known.arguments(params)
        async with slow.turn(self._slow):
            return await self._slow_readers.submit(
                lambda connection: slow.fetch_sqlite(connection, known.sql, arguments)
            )

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Reader]:
        reader = _SqliteSnapshot(ConnectionThreads(self.path, 1, readonly=True), self._compile)
        try:
            await reader.threads.submit(_begin_to_read)
            yield reader
        finally:
            await asyncio.shield(reader.threads.close())

    async def _watch(self) -> None:
        """Signal commits of other processes. Only they change the `data_version` of the single writing connection."""
        seen: int | None = None
        while True:
            await asyncio.sleep(WATCH_INTERVAL_S)
            try:
                version = await self._writer.submit(lambda each: each.execute("PRAGMA data_version").fetchone()[0])
            except Exception as error:  # noqa: BLE001  # retried in a second
                log.warning("change_watch_failed", error=str(error))
                continue
            if seen is not None and version != seen:
                self.signals.deliver_everything()
            seen = version

    async def close(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
        if self._committer is not None:
            await self._committer
        await self._readers.close()
        await self._slow_readers.close()
        await self._writer.close()


def _calls(known: Statement, rows: Sequence[Params]) -> Iterator[tuple[str, list[Any]]]:
    """Yield calls that insert many rows each.

    On every call, SQLite's thread must win the interpreter's lock back from the event loop.
    """
    arguments = [known.arguments(row) for row in rows]
    at = 0
    for size in ROWS_A_CALL:
        sql = known.insert_rows(size) if size > 1 else known.sql
        while sql is not None and len(arguments) - at >= size:
            yield sql, list(chain.from_iterable(arguments[at : at + size]))
            at += size


def _changed(connection: sqlite3.Connection, sql: str, arguments: Sequence[object]) -> int:
    count = connection.execute(sql, arguments).rowcount
    if count >= 0:
        return count
    # The module does not count rows of statements that begin with WITH.
    return int(connection.execute("SELECT changes()").fetchone()[0])


def _begin_to_read(connection: sqlite3.Connection) -> None:
    """Begin a read transaction. SQLite takes its snapshot at the first read, which this function makes."""
    connection.execute("BEGIN")
    connection.execute("SELECT 1 FROM sqlite_master").fetchall()


def _commit(connection: sqlite3.Connection) -> None:
    try:
        if not connection.in_transaction:
            raise Unavailable("The transaction was lost.", code="database_unavailable")
        connection.execute("COMMIT")
    except BaseException as error:
        log.error("commit_failed", error=str(error))
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _undo(connection: sqlite3.Connection, *, alone: bool) -> bool:
    """Roll back one transaction, or all of it if `alone`. Returns whether other members of the group survive."""
    if not connection.in_transaction:
        return False
    if alone:
        connection.execute("ROLLBACK")
    else:
        try:
            connection.execute("ROLLBACK TO logical")
            connection.execute("RELEASE logical")
        except sqlite3.OperationalError:
            # "no such savepoint": it failed before creating one (BEGIN succeeded for others), so nothing needs undoing.
            return connection.in_transaction
    return True
