"""Messages sent to PostgreSQL in addition to the driver's: BEGIN, COMMIT, and the plan cache mode."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import sqlalchemy as sa

from tests.harness.databases import databases
from tests.harness.round_trips import Relay
from workhook.core.errors import Unavailable
from workhook.storage import Transaction, pipeline
from workhook.storage.database import RolledBack, UniqueViolation
from workhook.storage.metadata import insert_into, probe
from workhook.storage.postgres import PostgresDatabase
from workhook.storage.statements import HOT, hot

MANY = [
    "SELECT $1::bigint AS a, $2::integer AS b, $3::smallint AS c, $4::text AS d, $5::bytea AS e, $6::boolean AS f,"
    " $7::double precision AS g, $8::varchar AS h",
    "SELECT array_to_string($1::bigint[], ',', '-') AS a, array_to_string($2::text[], ',', '-') AS b,"
    " array_to_string($3::boolean[], ',', '-') AS c, encode(($4::bytea[])[2], 'hex') AS d,"
    " array_to_string($5::double precision[], ',', '-') AS e, cardinality($6::integer[]) AS f",
]
VALUES: list[list[list[Any]]] = [
    [[-(1 << 63), -1, 7, "Grüße 'x'", b"\0\xff", True, -0.5, ""], [None] * 8, [0, 0, 0, "", b"", False, 0, "ß"]],
    [[[1, None, -5], ["a", "", None], [True, False], [b"", b"\1"], [1.5, None], []], [[], [], [], [], [], [1, 2]]],
]
_insert = insert_into(probe, "id", "written_at")
_ids = sa.select(probe.c.id).order_by(probe.c.id)
_probes = sa.select(probe.c.id, probe.c.written_at).where(probe.c.id > sa.literal(1)).order_by(probe.c.id)
_PROBES = "SELECT id, written_at FROM probe WHERE id > $1"
_INSERT = "INSERT INTO probe (id, written_at) VALUES ($1, $2)"
_mode = "SELECT current_setting('plan_cache_mode') AS mode"


@pytest.fixture
async def url(_shared_folder: Path, tmp_path: Path) -> str:
    return databases("postgresql", _shared_folder).new(tmp_path)["database_url"]


@pytest.fixture
async def connection(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    yield connection
    await connection.close()


@pytest.fixture
async def database(url: str) -> AsyncIterator[PostgresDatabase]:
    database = await PostgresDatabase.open(url, connections=2, listen=False)
    yield database
    await database.close()


async def test_values_are_encoded_like_the_drivers(connection: Any) -> None:
    for sql, sets in zip(MANY, VALUES, strict=True):
        for values in sets:
            expected = await connection.fetch(sql, *values)
            await pipeline.prepare(connection, sql, begin=True)
            assert await connection.fetch(sql, *values) == expected
            assert connection.is_in_transaction()
            assert await pipeline.fetch_and_commit(connection, sql, values) == expected
            assert not connection.is_in_transaction()


async def test_values_that_cannot_be_encoded_are_left_to_the_driver(connection: Any) -> None:
    """For an unknown type or a value that does not fit its type, the driver raises its error, and nothing is done."""
    for sql, value in (("SELECT $1::date AS day", None), ("SELECT now() - $1::timestamptz AS age", None)):
        await pipeline.prepare(connection, sql, begin=True)
        await connection.fetch(sql, value)
        assert len(await pipeline.fetch_and_commit(connection, sql, [value])) == 1
        assert not connection.is_in_transaction()
    sql = "INSERT INTO probe (id, written_at) VALUES ($1::integer, $2::bigint)"
    for wrong in (["x", 1], [1 << 40, 1], [1]):
        await pipeline.prepare(connection, "SELECT 1", begin=True)
        await connection.fetch("SELECT 1")
        with pytest.raises((asyncpg.DataError, asyncpg.InterfaceError)):
            await pipeline.fetch_and_commit(connection, sql, wrong)
        await connection.execute("ROLLBACK")
    assert await connection.fetchval("SELECT count(*) FROM probe WHERE id <> 1") == 0


async def test_a_connection_without_prepared_statements_is_supported(url: str) -> None:
    connection = await asyncpg.connect(url, statement_cache_size=0)
    await pipeline.prepare(connection, MANY[0], begin=True, planned_once=True)
    assert connection.is_in_transaction()
    assert await pipeline.fetch_and_commit(connection, MANY[0], [None] * 8)
    assert not connection.is_in_transaction()
    assert await connection.fetchval(_mode) == "auto"
    await connection.close()


async def test_an_error_in_the_last_statement_rolls_back_everything(database: PostgresDatabase) -> None:
    before = await database.fetch_all(_ids)
    with pytest.raises(UniqueViolation):
        async with database.transaction() as tx:
            await tx.execute(_insert, {"id": 5, "written_at": 1})
            tx.defer(_insert, [{"id": 5, "written_at": 1}])
    assert await database.fetch_all(_ids) == before
    async with database.transaction() as tx:  # on the same connection
        await tx.execute(_insert, {"id": 5, "written_at": 1})
        tx.defer(_insert, [{"id": 6, "written_at": 1}])
    assert {5, 6} <= {row["id"] for row in await database.fetch_all(_ids)}


async def test_the_plan_cache_mode_is_restored_after_a_rollback(url: str, database: PostgresDatabase) -> None:
    """The setting is rolled back with its transaction, and the next statement sets it again."""
    once = hot(sa.select(sa.func.current_setting("plan_cache_mode").label("mode")))
    each = sa.select(sa.func.current_setting("plan_cache_mode").label("mode"), sa.literal(1))
    try:
        for statement, mode in (
            (each, "auto"),
            (once, "force_generic_plan"),
            (once, "force_generic_plan"),
            (each, "auto"),
        ):
            assert [row["mode"] for row in await database.fetch_all(statement)] == [mode]
        with pytest.raises(LookupError):
            async with database.transaction() as tx:
                assert (await tx.fetch_all(once))[0]["mode"] == "force_generic_plan"
                raise LookupError
        for statement, mode in ((once, "force_generic_plan"), (each, "auto")):
            assert [row["mode"] for row in await database.fetch_all(statement)] == [mode]
    finally:
        HOT.remove(once)


async def _alter(url: str, kind: str) -> None:
    """Change a column as a migration does, on a separate connection."""
    connection = await asyncpg.connect(url)
    await connection.execute(f"ALTER TABLE probe ALTER written_at TYPE {kind}")
    await connection.close()


async def _run_last(connection: Any, sql: str, values: list[Any]) -> list[tuple[Any, ...]]:
    """Run a statement as the last one of a transaction and return its rows."""
    await pipeline.prepare(connection, "SELECT 1", begin=True)
    await connection.fetch("SELECT 1")
    return [tuple(row) for row in await pipeline.fetch_and_commit(connection, sql, values, planned_once=True)]


async def test_a_statement_with_a_changed_result_type_fails_only_once(connection: Any, url: str) -> None:
    """The first error drops the prepared statements. Otherwise every later use would fail as well."""
    await connection.execute(_INSERT, 2, 7)
    assert await _run_last(connection, _PROBES, [1]) == [(2, 7)]
    await _alter(url, "integer")
    with pytest.raises(asyncpg.InvalidCachedStatementError):
        await _run_last(connection, _PROBES, [1])
    await connection.execute("ROLLBACK")
    pipeline.forget(connection)
    assert await _run_last(connection, _PROBES, [1]) == [(2, 7)]
    assert not connection.is_in_transaction()


async def test_a_change_is_retried_after_a_migration(url: str, database: PostgresDatabase) -> None:
    tries, found = 0, list[Any]()

    async def change(tx: Transaction) -> None:
        nonlocal tries
        tries += 1
        await tx.execute(_insert, {"id": 10 * len(found) + 2, "written_at": 7})
        await tx.defer_fetch(_probes, None, found.append)

    await database.in_transaction(change)
    await _alter(url, "integer")
    await database.in_transaction(change)
    assert tries == 3
    assert [(row["id"], row["written_at"]) for row in found[-1]] == [(2, 7), (12, 7)]
    await _alter(url, "bigint")
    with pytest.raises(RolledBack) as refused:
        async with database.transaction() as tx:
            await tx.defer_fetch(_probes, None, found.append)
            await tx.execute(_insert, {"id": 99, "written_at": 7})
    assert (refused.value.status, refused.value.reason) == (503, "schema")
    assert [row["id"] for row in await database.fetch_all(_probes)] == [2, 12]


async def test_values_are_encoded_for_the_types_of_their_connection(connection: Any, url: str) -> None:
    """Statements prepared after a migration take other types than those prepared before."""
    await _run_last(connection, _INSERT, [2, 7])
    await _alter(url, "integer")
    other = await asyncpg.connect(url)
    await _run_last(other, _INSERT, [3, 7])
    await _run_last(connection, _INSERT, [4, 7])
    assert await _run_last(other, _PROBES, [1]) == [(2, 7), (3, 7), (4, 7)]
    await other.close()


async def test_the_plan_cache_mode_is_restored_after_the_driver_repeats_a_statement(connection: Any, url: str) -> None:
    for once, mode, kind in ((True, "force_generic_plan", "integer"), (False, "auto", "bigint")):
        await pipeline.prepare(connection, _PROBES, planned_once=not once)
        await connection.fetch(_PROBES, 1)
        await _alter(url, kind)
        await pipeline.prepare(connection, _PROBES, planned_once=once)
        await connection.fetch(_PROBES, 1)  # the driver runs it twice, the second time without the setting
        await pipeline.prepare(connection, _mode, planned_once=once)
        assert await connection.fetchval(_mode) == mode


async def test_a_commit_that_rolls_back_is_an_error(
    connection: Any, database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Unavailable, match="did not commit"):
        async with database.transaction() as tx:
            await tx.execute(_insert, {"id": 2, "written_at": 1})
            with pytest.raises(asyncpg.UniqueViolationError):
                await tx.execute(_insert, {"id": 2, "written_at": 1})
    monkeypatch.setattr(pipeline, "_COMMIT", pipeline._parsed(b"ROLLBACK"))
    with pytest.raises(Unavailable, match="did not commit"):
        await _run_last(connection, _INSERT, [2, 7])
    assert await database.fetch_all(_probes) == []


async def test_a_transaction_takes_few_round_trips(url: str) -> None:
    relay = Relay(url)
    database = await PostgresDatabase.open(relay.url, connections=1, listen=False)
    try:
        for number in (7, 8):  # the first run prepares the statements
            relay.forget()
            async with database.transaction() as tx:
                await tx.fetch_all(_ids)
                tx.defer(_insert, [{"id": number, "written_at": 1}])
        first, last = relay.trips
        assert first.startswith("BEGIN | SELECT")
        assert last.startswith("INSERT")
        assert last.endswith("| COMMIT")
        relay.forget()
        async with database.transaction() as tx:
            tx.defer(_insert, [{"id": 9, "written_at": 1}])
        assert len(relay.trips) == 1
        assert "COMMIT" not in relay.trips[0]
        relay.forget()
        async with database.transaction():
            pass
        assert relay.trips == []
    finally:
        await database.close()
        relay.close()
