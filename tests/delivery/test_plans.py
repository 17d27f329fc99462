"""With many rows, every statement for an event and its deliveries uses an index."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
import msgspec
import pytest
import sqlalchemy as sa

from tests.delivery.rows import PLAIN_HOOK, columns, fill_lanes
from tests.harness.databases import Databases
from tests.harness.world import World, make_world, with_services
from workhook.bootstrap import open_services
from workhook.core.clock import DAY_MS, now_ms
from workhook.core.config import load
from workhook.core.ids import new_guid
from workhook.delivery import lane_assignment, queries
from workhook.delivery.queries import DELIVERY_COLUMNS, attempts_of, record
from workhook.delivery.retention import prune
from workhook.events import outbox
from workhook.events.tables import event_keys, events
from workhook.hooks import deliveries as history
from workhook.hooks import health, redelivery
from workhook.hooks import queries as hook_queries
from workhook.hooks.fan_out import drop_waiting, send_now
from workhook.hooks.tables import deliveries, dispatches, hooks
from workhook.http.calls import Services
from workhook.identity.queries import find_repository
from workhook.storage import Transaction, dialects, postgres
from workhook.storage.metadata import insert_into
from workhook.storage.statements import Compiler

DONE, PENDING, BUSY_HOOKS, HOOKS = 20_000, 2_000, 50, 1_500
REPOSITORIES = 100
FIRST = 1_000_000  # IDs that PostgreSQL's sequences do not reach
LARGE = ("dispatches", "deliveries", "events", "event_keys", "hooks", "lanes")
NOW = now_ms()
PENDING_ID = FIRST + DONE

Asked = list[tuple[Any, Mapping[str, Any] | None]]


async def _fill(tx: Transaction, account_id: int) -> None:
    """Insert hooks and their dispatches.

    The first fifty hooks have 2,000 pending dispatches; 20,000 others are done.
    """
    from workhook.identity.tables import projects

    common = {"account_id": account_id, "created_at": NOW, "updated_at": NOW}
    await tx.execute_many(
        insert_into(projects, *columns(projects)),
        [
            {**common, "repository_id": 1000 + n, "id": f"p{n}", "name": f"p{n}", "name_key": f"p{n}", "title": f"p{n}",
             "avatar": None, "private": False, "archive": False, "deleted_at": None, "currency": None,
             "label_colors": None}
            for n in range(REPOSITORIES)
        ],
    )  # fmt: skip
    await tx.execute_many(
        insert_into(hooks, *columns(hooks)),
        [
            {**common, **PLAIN_HOOK, "id": n, "repository_id": 1000 + n % REPOSITORIES, "active": True,
             "events": '["push"]', "config": '{"url":"http://x/"}', "version": 1}
            for n in range(1, HOOKS + 1)
        ],
    )  # fmt: skip
    await fill_lanes(tx, range(1, HOOKS + 1))
    total = range(FIRST, FIRST + DONE + PENDING)
    waiting = FIRST + DONE
    at = {n: NOW - DAY_MS + (n - FIRST) * 1000 for n in total}
    hook = {n: n % (HOOKS if n < waiting else BUSY_HOOKS) + 1 for n in total}
    await tx.execute_many(
        insert_into(events, *columns(events)),
        [
            {"id": n, "account_id": account_id, "repository_id": 1000 + hook[n] % REPOSITORIES, "name": "push",
             "action": None, "payload": b'{"a":"%s"}' % (b"x" * 200), "size": 208, "created_at": at[n],
             "actor_id": None, "installation_id": None, "listed": True, "published": False, "traceparent": None}
            for n in total
        ],
    )  # fmt: skip
    guids = {n: new_guid() for n in total}
    await tx.execute_many(
        insert_into(dispatches, *columns(dispatches)),
        [
            {"id": n, "event_id": n, "hook_id": hook[n], "guid": guids[n], "attempts": int(n < waiting), "retries": 0,
             "wanted": 0, "next_attempt_at": None if n < waiting else at[n], "created_at": at[n]}
            for n in total
        ],
    )  # fmt: skip
    await tx.execute_many(
        insert_into(deliveries, *columns(deliveries)),
        [
            {"id": n, "dispatch_id": n, "hook_id": hook[n], "event_id": n, "repository_id": 1,
             "installation_id": None, "guid": guids[n], "event": "push", "action": None, "delivered_at": at[n],
             "throttled_at": None, "duration_ms": 1,
             "redelivery": False, "status": "OK", "status_code": 200, "url": "http://x/",
             "request_headers": b"{}", "response_headers": b"{}", "response_body": b"ok",
             "recorded_at": None}
            for n in range(FIRST, waiting)
        ],
    )  # fmt: skip
    await tx.execute_many(
        insert_into(event_keys, *columns(event_keys)),
        [
            {"scope": "r1", "key": str(n), "digest": b"", "event_id": n, "created_at": at[n]}
            for n in range(FIRST, waiting)
        ],
    )  # fmt: skip


class Filled(NamedTuple):
    """A closed database with many rows, and the folder of its data."""

    settings: dict[str, str]
    folder: Path
    world: World


async def _make_filled(services: Services) -> World:
    """Fill a database.

    On PostgreSQL, gather the statistics that autovacuum would; SQLite has none in production either.
    """
    world = await make_world(services)
    async with services.database.transaction() as tx:
        repository = await find_repository(tx, world.organization, world.repository)
        assert repository is not None
        await _fill(tx, repository.owner.id)
    if services.settings.database_url is not None:
        connection = await asyncpg.connect(services.settings.database_url)
        await connection.execute("ANALYZE")
        await connection.close()
    return world


@pytest.fixture(scope="module")
def filled(backend: Databases, tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """Return a database that is filled once, because that takes seconds. Each test gets a copy."""
    folder = tmp_path_factory.mktemp("filled")
    settings = backend.new(folder)
    return Filled(settings, folder, with_services({"data": str(folder), **settings}, _make_filled))


@pytest.fixture
def world(filled: Filled) -> World:
    return filled.world


@pytest.fixture
async def services(backend: Databases, filled: Filled, tmp_path: Path) -> AsyncIterator[Services]:
    copied = backend.copy(filled.settings, filled.folder, tmp_path)
    async with open_services(load({"data": str(tmp_path), **copied}, {}), serving=True) as opened:
        yield opened


@pytest.fixture
async def asked(services: Services, world: World, monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Return a list to which every later statement and its parameters are appended."""
    asked: Asked = []
    async with services.database.transaction() as tx:
        kinds: tuple[Any, ...] = (type(tx), type(services.database))

    def record_calls(kind: Any, name: str) -> None:
        original = getattr(kind, name)

        async def heard(self: Any, statement: Any, params: Any = None) -> Any:
            rows = params if name == "execute_many" else [params]
            for row in rows[:1]:
                if not asked or asked[-1][0] is not statement or asked[-1][1] is not row:  # one method calls another
                    asked.append((statement, row))
            return await original(self, statement, params)

        monkeypatch.setattr(kind, name, heard)

    for kind in kinds:
        for name in ("fetch_all", "fetch_one", "fetch_slow", "execute", "execute_many"):
            if hasattr(kind, name):
                record_calls(kind, name)
    _record_deferred(kinds[0], asked, monkeypatch)
    return asked


def _record_deferred(kind: Any, asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL combines deferred statements into one; SQLite runs each separately."""
    if kind is postgres.PostgresTransaction:
        together = kind._together

        def heard(self: Any, question: Any) -> Any:
            asked.append((found := together(self, question), None))
            return found

        monkeypatch.setattr(kind, "_together", heard)
        return
    defer, defer_fetch = kind.defer, kind.defer_fetch

    def heard_write(self: Any, statement: Any, rows: Any, *, name: str = "") -> None:
        asked.extend((statement, row) for row in rows[:1])
        defer(self, statement, rows, name=name)

    async def heard_read(self: Any, statement: Any, params: Any, then: Any) -> None:
        asked.append((statement, params))
        await defer_fetch(self, statement, params, then)

    monkeypatch.setattr(kind, "defer", heard_write)
    monkeypatch.setattr(kind, "defer_fetch", heard_read)


async def plans(services: Services, asked: Asked, *, possible: bool) -> list[tuple[str, list[str]]]:
    """Return each statement with the lines of its query plan.

    With `possible`, PostgreSQL scans only where no index can be used: for a thousand rows of so small a table it may
    prefer a scan.
    """
    path = services.settings.sqlite_path
    found = []
    if path is not None:
        compiler = Compiler(dialects.SQLITE, dialects.sqlite_value)
        connection = sqlite3.connect(path)
        for statement, params in asked:
            known = compiler(statement)
            rows = connection.execute(f"EXPLAIN QUERY PLAN {known.sql}", known.arguments(params)).fetchall()
            found.append((known.sql, [row[3] for row in rows]))
        connection.close()
        return found
    compiler = Compiler(dialects.postgresql())
    server = await asyncpg.connect(services.settings.database_url)
    if possible:
        await server.execute("SET enable_seqscan = off")
    for statement, params in asked:
        if isinstance(statement, postgres.BoundStatement):
            sql, arguments = statement.sql, statement.arguments
        else:
            sql, arguments = (known := compiler(statement)).sql, known.arguments(params)
        rows = await server.fetch(f"EXPLAIN {sql}", *arguments)
        found.append((sql, [row[0] for row in rows]))
    await server.close()
    return found


def scans(sql: str, plan: Sequence[str]) -> list[str]:
    """Return the plan steps that scan a large table."""
    names = {name: name for name in LARGE}
    names.update((alias, table) for table, alias in re.findall(r"\b(\w+) AS (\w+)", sql) if table in LARGE)
    found = []
    for line in plan:
        match = re.search(r"\bSeq Scan on (\w+)", line) or re.match(r"SCAN (\w+)", line)
        if match and match[1] in names:
            found.append(line.strip())
    return found


async def assert_no_scan(services: Services, asked: Asked, *, at_least: int = 1, possible: bool = False) -> None:
    heard, asked[:] = list(asked), []
    found = await plans(services, heard, possible=possible)
    asked.clear()
    assert len(found) >= at_least, "nothing was asked"
    for sql, plan in found:
        assert not scans(sql, plan), f"{sql}\n" + "\n".join(plan)


async def test_the_check_detects_a_scan(services: Services, asked: Asked) -> None:
    await services.database.fetch_all(sa.select(dispatches.c.id).where(dispatches.c.attempts == sa.literal(77)))
    with pytest.raises(AssertionError, match="dispatches"):
        await assert_no_scan(services, asked)


async def test_the_worker_uses_indexes(services: Services, asked: Asked) -> None:
    database = services.database
    busy_hooks = list(range(1, BUSY_HOOKS + 1))
    pending = await queries.pending_hooks(database, 0, 30)
    assert list(pending) == busy_hooks[:30]
    pending |= await queries.pending_hooks(database, 30, 30)
    assert list(pending) == busy_hooks
    await assert_no_scan(services, asked, at_least=2)
    rows = await queries.due_dispatches(database, dict.fromkeys(busy_hooks, 0), [PENDING_ID, PENDING_ID + 1], NOW, 10)
    assert len(rows) == 10 * BUSY_HOOKS
    assert not {PENDING_ID, PENDING_ID + 1} & {row["id"] for row in rows}
    await assert_no_scan(services, asked)
    times = await queries.later_times(database, busy_hooks, 0, 10)
    assert [len(times[each]) for each in busy_hooks] == [10] * BUSY_HOOKS
    await assert_no_scan(services, asked)
    await queries.payloads(database, [FIRST, FIRST + 1])
    await queries.failing_since(database, [1, 2, 3])
    await hook_queries.hooks_by_id(database, [1, 2, 3])
    await attempts_of(database, [FIRST, FIRST + 1])
    async with database.transaction() as tx:
        await drop_waiting(tx, [3])
        await queries.drop_unrequested(tx, [PENDING_ID + 5])
    await assert_no_scan(services, asked, at_least=6, possible=True)


async def test_the_outcome_writer_uses_indexes(services: Services, asked: Asked) -> None:
    row = dict.fromkeys(DELIVERY_COLUMNS, 1) | {
        "guid": "g", "event": "push", "action": None, "throttled_at": None, "redelivery": False, "status": "OK",
        "url": "http://x/", "request_headers": b"{}", "response_headers": b"{}", "response_body": b"",
        "recorded_at": None,
    }  # fmt: skip
    delivered = [tuple(row.values())] * 3
    async with services.database.transaction() as tx:
        epoch = await lane_assignment.join(tx, "me", 60_000)
    asked.clear()
    advances = [(PENDING_ID + n, 0, 0, 1, None, epoch) for n in (1, 2, 3)]
    assert await record(services.database, delivered, advances, {1: NOW}, NOW) == set()
    late = [(PENDING_ID + n, 1, 0, 1, None, epoch + 1) for n in (1, 2, 3)]
    assert await record(services.database, delivered, late, {}, NOW) == {PENDING_ID + n for n in (1, 2, 3)}
    await assert_no_scan(services, asked, at_least=3)
    left = await attempts_of(services.database, [PENDING_ID + n for n in (1, 2, 3)])
    assert list(left.values()) == [1, 1, 1]


async def test_the_fan_out_uses_indexes(services: Services, world: World, asked: Asked) -> None:
    async with services.database.transaction() as tx:
        repository = await find_repository(tx, world.organization, world.repository)
        assert repository is not None
        asked.clear()
        outbox.add(tx, [outbox.Draft(repository.owner.id, 1007, "push", None, {})])
        rows = await send_now(tx)
        assert len({row["event_id"] for row in rows}) == 1
        assert len(rows) == HOOKS // REPOSITORIES
    await assert_no_scan(services, asked, at_least=1)


@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"status": "failure"},
        {"event": "push", "redelivery": "false"},
        {"guid": "x"},
        {"since": "2026-01-01T00:00:00Z", "until": "2027-01-01T00:00:00Z"},
    ],
    ids=lambda filters: "-".join(filters) or "none",
)
async def test_the_history_of_a_hook_uses_indexes(services: Services, asked: Asked, filters: dict[str, str]) -> None:
    database, parsed = services.database, history.parse_filters(filters)
    await history.list_deliveries(database, 7, parsed, cursor=None, per_page=30)
    await history.list_deliveries(database, 7, parsed, cursor=FIRST + 9000, per_page=30)
    await assert_no_scan(services, asked, at_least=3)
    newest = await database.fetch_one(sa.select(sa.func.max(deliveries.c.id)).where(deliveries.c.hook_id == 7))
    assert newest is not None
    await history.find_delivery(database, 7, newest[0])
    await hook_queries.newest_deliveries(database, [7, 8], 0)
    [hook] = await hook_queries.hooks_by_id(database, [7])
    await health.hook_health(database, msgspec.structs.replace(hook, active=False))
    async with database.transaction() as tx:
        await history.redeliver(tx, 7, newest[0], limit=1)
        job = await redelivery.create_job(tx, 7, parsed)
    await redelivery.advance(database, job)
    await assert_no_scan(services, asked, at_least=6)


async def test_pruning_uses_indexes(services: Services, asked: Asked) -> None:
    """Remove the oldest hour of a day's rows."""
    removed = await prune(services.database, NOW - DAY_MS + 3_600_000, NOW)
    assert removed["events"] == removed["dispatches"] == removed["deliveries"] == 3600
    await assert_no_scan(services, asked, at_least=4, possible=True)
