"""Concurrent writers and readers that act like an earlier version during a migration on PostgreSQL.

They run short transactions, which the server aborts if they wait for a lock longer than a second.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg

from tests.harness.depth import deep

LOCK_TIMEOUT = f"{deep(5, 1)}s"  # on a busy machine, a lock is held longer than the statement takes
_PACE_S = 0.01

_EVENT = """INSERT INTO events (account_id, repository_id, name, payload, size, created_at, listed)
VALUES (1, 1, 'push', '{}', 2, 1800000000000, true) RETURNING id"""
_DISPATCH = """INSERT INTO dispatches (event_id, hook_id, guid, attempts, retries, wanted, next_attempt_at, created_at)
VALUES (CAST($1 AS bigint), 1, 'w' || CAST($1 AS bigint), 0, 0, 0, 1800000000000, 1800000000000) RETURNING id"""
_AUDIT = """INSERT INTO audit_log (at, account_id, action, target, detail, times)
VALUES (1800000000000, 1, 'event.publish', 'w', '{}', 1)"""
_DELIVERY = """INSERT INTO deliveries (dispatch_id, hook_id, event_id, guid, event, delivered_at, duration_ms,
redelivery, status, status_code, url, request_headers, response_headers, response_body)
VALUES ($1, 1, 1, 'w', 'push', 1800000000000, 1, false, 'OK', 200, 'http://x', '', '', '')"""
_TASK = """INSERT INTO tasks (id, repository_id, number, title, fields, sections, labels, user_id, created_at,
updated_at)
VALUES ($1, 1, 1000000000 + CAST(substr($1, 2) AS bigint), 'w', '{}', '[]', '[]', 1, 1800000000000, 1800000000000)"""
_TIMESHEET = """INSERT INTO timesheets (id, repository_id, task_id, user_id, start_time, duration_ms, is_active,
finished, billable, created_at, updated_at)
VALUES ($1, 1, $1, 1, 1800000000000, 1, false, true, false, 1800000000000, 1800000000000)"""
# Existing rows, updated without a change. Each statement has its own rows.
_AGAIN = (
    "UPDATE dispatches SET attempts = attempts WHERE id = 7",
    "UPDATE lanes SET failing_since = failing_since WHERE hook_id = 7",
    "UPDATE workers SET seen_until = seen_until WHERE owner = 'workers7'",
    "UPDATE hooks SET version = version WHERE id = 7",
    "UPDATE accounts SET name = name WHERE id = 7",
    "UPDATE projects SET title = title WHERE repository_id = 7",
    "UPDATE tokens SET last_used_at = last_used_at WHERE id = 7",
    "UPDATE tasks SET title = title WHERE id = 'tasks7'",
    "UPDATE timesheets SET notes = notes WHERE id = 'timesheets7'",
    "UPDATE files SET title = title WHERE id = 'files7'",
    "UPDATE invoices SET status = status WHERE id = 'invoices7'",
)
_READ = (
    "SELECT id, status FROM deliveries WHERE hook_id = 1 ORDER BY id DESC LIMIT 30",
    "SELECT id, name FROM events WHERE repository_id = 1 AND listed ORDER BY id DESC LIMIT 30",
    "SELECT id FROM dispatches WHERE hook_id = 1 AND next_attempt_at <= 1800000000000 ORDER BY next_attempt_at LIMIT 8",
    "SELECT id, title FROM tasks WHERE repository_id = 1 LIMIT 50",
    "SELECT login FROM accounts JOIN tokens ON tokens.user_id = accounts.id WHERE tokens.id = 3",
    "SELECT h.id, l.failing_since FROM hooks h JOIN lanes l ON l.hook_id = h.id JOIN projects USING (repository_id)",
    "SELECT id, action FROM audit_log WHERE account_id = 1 ORDER BY id DESC LIMIT 30",
    "SELECT sum(duration_ms) FROM timesheets WHERE task_id = 'tasks1'",
)


class Beside:
    """Concurrent transactions. `written` counts the committed rows by table."""

    def __init__(self, url: str) -> None:
        self.written = Counter[str]()
        self.rounds = Counter[str]()
        self._url = url
        self._over = asyncio.Event()
        works: tuple[Callable[[Any], Awaitable[None]], ...] = (
            self._publish, self._deliver, self._work, self._write_again, self._read,
        )  # fmt: skip
        self._tasks = [asyncio.create_task(self._run(each)) for each in works]

    async def _run(self, work: Callable[[Any], Awaitable[None]]) -> None:
        connection = await asyncpg.connect(self._url, server_settings={"lock_timeout": LOCK_TIMEOUT})
        try:
            while not self._over.is_set():
                await work(connection)
                self.rounds[work.__name__] += 1
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._over.wait(), _PACE_S)
        finally:
            await connection.close()

    async def _publish(self, connection: Any) -> None:
        async with connection.transaction():
            number = await connection.fetchval(_EVENT)
            await connection.execute(_DISPATCH, number)
            await connection.execute(_AUDIT)
        self.written.update(("events", "dispatches", "audit_log"))

    async def _deliver(self, connection: Any) -> None:
        async with connection.transaction():
            await connection.execute(_DELIVERY, self.rounds["_deliver"])
            await connection.execute("UPDATE dispatches SET next_attempt_at = NULL WHERE guid = 'none'")
        self.written["deliveries"] += 1

    async def _work(self, connection: Any) -> None:
        async with connection.transaction():
            await connection.execute(_TASK, f"w{self.rounds['_work']}")
            await connection.execute(_TIMESHEET, f"w{self.rounds['_work']}")
        self.written.update(("tasks", "timesheets"))

    async def _write_again(self, connection: Any) -> None:
        for statement in _AGAIN:
            assert await connection.execute(statement) == "UPDATE 1", statement

    async def _read(self, connection: Any) -> None:
        for statement in _READ:
            await connection.fetch(statement)

    def check(self) -> None:
        """Raise the error that ended a transaction loop, if any."""
        for each in self._tasks:
            if each.done() and not self._over.is_set():
                each.result()

    async def stop(self) -> None:
        self._over.set()
        await asyncio.gather(*self._tasks)


@contextlib.asynccontextmanager
async def beside(url: str) -> AsyncIterator[Beside]:
    made = Beside(url)
    try:
        yield made
    finally:
        await made.stop()
