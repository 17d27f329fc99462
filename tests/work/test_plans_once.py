"""PostgreSQL caches one generic plan per hot statement.

With many rows, that plan must cost at most 1.3 times as much as a plan for the actual values, or be the same plan.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from sqlalchemy.sql.expression import Executable

from tests.harness.databases import databases
from tests.harness.world import World, make_world
from tests.work.filling import fill
from workhook.bootstrap import open_services
from workhook.core.config import load
from workhook.core.ids import new_guid
from workhook.delivery import queries as delivery
from workhook.events import outbox
from workhook.hooks import fan_out
from workhook.identity import queries as identity
from workhook.identity.queries import key_of
from workhook.identity.tokens import lookup
from workhook.identity.tokens.issue import digest_of
from workhook.storage import dialects
from workhook.storage.statements import HOT, Compiler, Statement, joined
from workhook.work.board.tasks import column_tasks, queries, writer
from workhook.work.board.tasks.schemas import CONTENT
from workhook.work.kernel import access
from workhook.work.time.timesheets import queries as timesheets

TIMES = 1.3
HOT_SETTINGS = "SET plan_cache_mode TO force_generic_plan; SET enable_seqscan TO off"  # as in `storage.pipeline`

compiled = Compiler(dialects.postgresql())


@pytest.fixture
async def small(_shared_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Any, World]]:
    folder = tmp_path_factory.mktemp("small")
    settings = databases("postgresql", _shared_folder).new(folder)
    async with open_services(load({"data": str(folder), **settings}, {}), serving=True) as services:
        world = await make_world(services)
    connection = await asyncpg.connect(settings["database_url"])
    try:
        yield connection, world
    finally:
        await connection.close()


@pytest.fixture
async def filled(small: tuple[Any, World]) -> tuple[Any, World]:
    await fill(small[0])
    return small


def _params(world: World) -> dict[str, Any]:
    """Return realistic parameters for all statements."""
    task = {
        **dict.fromkeys(CONTENT),
        "title": "A task",
        "number": 5,
        "step": 1,
        "fields": "{}",
        "sections": "{}",
        "labels": "[]",
    }
    event: dict[str, Any] = {
        "account_id": 1, "repository_id": 100_500, "name": "task", "action": "created", "payload": b"{}", "size": 2,
        "created_at": 1, "actor_id": 1, "installation_id": None, "listed": True, "published": False,
        "traceparent": None,
    }  # fmt: skip
    return {
        **task, **{f"added_{name}": [event[name]] * 10 for name in outbox.COLUMNS},
        "now": 1, "time": new_guid()[: fan_out.GUID_TIME_CHARS],
        "count": 10, "due_until": 1, **identity.premise_params([identity.Premise(100_500, 100_500, "[]")]),
        "digest": digest_of(world.token), "user_id": 100_500, "id": 100_500, "login_key": key_of(world.organization),
        "owner_key": key_of(world.organization), "name_key": key_of(world.repository) + "500",
        "repository_id": 100_500, "project_id": world.project_id + "500", "column_id": "col_500",
        "task_id": "tsk_500_5", "limit": 51, "bucket_rank": 0, "rank": 5 << 16, "to_column": "col_500",
        "to_bucket": 1_000_500, "to_rank": 7 << 16, "created_at": 1, "updated_at": 1,
        "hook_ids": list(range(500, 510)), "since": [0] * 10, "busy": [1], "per_lane": 8,
        "event_ids": [2_000_500, 2_000_501], "light": 160_000,
        **dict.fromkeys(delivery._MADE, [None] * 10), **_advances(10),
    }  # fmt: skip


def _advances(count: int) -> dict[str, Any]:
    """Return the parameters for advancing existing dispatches."""
    ids = [2_000_500 + number for number in range(count)]
    return {**dict.fromkeys(delivery._DONE, [1] * count), delivery._DONE[0]: ids}


HERE: tuple[Executable, ...] = (
    lookup._token, identity._repository, identity._repository_by_id, identity._organization,
    identity._organization_by_id, access._project, queries._task_by_id, queries._locked,
    queries._to_column, queries._to_move,
    column_tasks._first.light, column_tasks._next.light, writer._edit, writer._move,
    outbox._insert, fan_out._send, fan_out._sent, fan_out._sent_on_premises, fan_out._sent_on_premises_with_before,
    delivery._due_dispatches, delivery._payloads, delivery._record_all, timesheets._running, writer._take,
)  # fmt: skip
# Combined with the statement that inserts the events.
_PART = (fan_out._send, fan_out._sent, fan_out._sent_on_premises, fan_out._sent_on_premises_with_before)


def test_every_hot_statement_is_compared() -> None:
    assert {id(each) for each in HOT} == {id(each) for each in HERE}


def _whole(statement: Executable, params: Mapping[str, Any]) -> tuple[str, list[Any]]:
    known = compiled(statement)
    if statement not in _PART:
        return known.sql, known.arguments(params)
    parts: list[tuple[str, Statement]] = [("written", compiled(outbox._insert)), ("sent", compiled(fan_out._send))]
    last = compiled(fan_out._sent if statement is fan_out._send else statement)
    arguments = [value for _, each in parts for value in each.arguments(params)] + last.arguments(params)
    return joined(tuple((name, each.sql, len(each.arguments(params))) for name, each in parts), last.sql), arguments


def _shape(plan: Mapping[str, Any]) -> list[Any]:
    """Return the structure of a plan without its row estimates."""
    names = ("Node Type", "Index Name", "Relation Name", "Join Type", "Strategy", "Subplan Name")
    return [[plan.get(name) for name in names], [_shape(each) for each in plan.get("Plans", ())]]


@pytest.mark.whole
async def test_the_generic_plan_is_good_for_all_values(filled: tuple[Any, World]) -> None:
    connection, world = filled
    await connection.execute(HOT_SETTINGS)
    wrong = []
    for statement in HERE:
        sql, arguments = _whole(statement, _params(world))
        [[each]] = await connection.fetch("EXPLAIN (FORMAT JSON) " + sql, *arguments)
        await connection.execute("PREPARE planned AS " + sql)
        given = f"({', '.join(['NULL'] * len(arguments))})" if arguments else ""
        [[once]] = await connection.fetch("EXPLAIN (FORMAT JSON) EXECUTE planned" + given)
        await connection.execute("DEALLOCATE planned")
        once, each = (json.loads(plan)[0]["Plan"] for plan in (once, each))
        if once["Total Cost"] > TIMES * each["Total Cost"] and _shape(once) != _shape(each):
            wrong.append(f"{sql[:300]}\n{once['Total Cost']} against {each['Total Cost']}")
    assert wrong == [], "\n\n".join(wrong)


# --- plans made while tables are empty --------------------------------------------------------------------------------

HOOKS = """INSERT INTO hooks (id, account_id, repository_id, active, events, config, version, created_at, updated_at)
SELECT n, 1, n, true, '["*"]', '{}', 1, 1, 1 FROM generate_series(1, 32) AS n"""
DUE = """INSERT INTO events (id, account_id, repository_id, name, payload, size, created_at)
SELECT n, 1, 1, 'push', '{{}}', 2, 1 FROM generate_series({start}, {count}) AS n;
INSERT INTO dispatches (id, event_id, hook_id, guid, attempts, retries, wanted, next_attempt_at, created_at)
SELECT n, n, n % 32 + 1, n, 0, 0, 0, 1, 1 FROM generate_series({start}, {count}) AS n"""
ROWS_READ = 100_000  # allows one full scan of a table while statistics are outdated


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list | tuple):
        parts = ("NULL" if each is None else '"' + _plain(each).replace("\\", "\\\\") + '"' for each in value)
        return "'{" + ",".join(parts).replace("'", "''") + "}'"
    return "'" + _plain(value).replace("'", "''") + "'"


def _plain(value: Any) -> str:
    return f"\\x{value.hex()}" if isinstance(value, bytes) else str(value)


def _rows_read(plan: Mapping[str, Any]) -> float:
    """Return how many rows the scans of a plan returned or filtered out, in all their loops."""
    own = (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)) * plan["Actual Loops"]
    return float(own + sum(_rows_read(each) for each in plan.get("Plans", ())))


@pytest.mark.whole
async def test_a_plan_made_for_one_row_reads_little_with_many(small: tuple[Any, World]) -> None:
    """Statistics are collected only after rows arrive. Until then, sessions keep plans made for nearly empty tables."""
    connection, world = small
    await connection.execute("SET session_replication_role TO replica")  # foreign key checks have outdated plans, too
    await fill(connection, count=1, analyze=False)
    await connection.execute("ANALYZE events, dispatches, tasks")  # as autovacuum does, one table at a time
    await connection.execute(HOT_SETTINGS)
    for number, statement in enumerate(HERE):
        sql, arguments = _whole(statement, _params(world))
        await connection.execute(f"PREPARE few{number} AS {sql}")
        nulls = f"({', '.join(['NULL'] * len(arguments))})" if arguments else ""
        await connection.execute(f"EXPLAIN EXECUTE few{number}{nulls}")
    await fill(connection, start=2, analyze=False)
    read = {}
    for number, statement in enumerate(HERE):
        if statement in (*_PART[2:], delivery._record_all):
            continue  # fails with these values: the premise does not hold, and deliveries cannot be null
        _, arguments = _whole(statement, _params(world))
        given = f"({', '.join(map(_literal, arguments))})" if arguments else ""
        transaction = connection.transaction()
        await transaction.start()
        [[plan]] = await connection.fetch(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) EXECUTE few{number}{given}")
        await transaction.rollback()
        read[number] = _rows_read(json.loads(plan)[0]["Plan"])
    assert {number: rows for number, rows in read.items() if rows > ROWS_READ} == {}


@pytest.mark.whole
async def test_due_dispatches_are_found_before_their_events(small: tuple[Any, World]) -> None:
    """With a plan made for one row of each, PostgreSQL once reread every lane for each event, taking 15 s."""
    connection, _ = small
    known = compiled(delivery._due_dispatches)
    given = {"hook_ids": list(range(1, 10)), "since": [0] * 9, "busy": list(range(1, 500)), "now": 10, "per_lane": 64}
    arguments = ", ".join(map(_literal, known.arguments(given)))
    await connection.execute("SET session_replication_role TO replica; TRUNCATE hooks, events, dispatches CASCADE")
    await connection.execute(HOOKS)
    await connection.execute(DUE.format(start=1, count=1) + "; ANALYZE events, dispatches")
    await connection.execute(HOT_SETTINGS)
    await connection.execute(f"PREPARE due AS {known.sql}")
    await connection.execute(f"EXECUTE due({arguments})")
    await connection.execute(DUE.format(start=2, count=4_000))
    [[plan]] = await connection.fetch(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) EXECUTE due({arguments})")
    assert _rows_read(json.loads(plan)[0]["Plan"]) < 50_000  # 150,000,000 if the events were read first
