"""The contract of transactions on both databases."""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.sql.expression import Executable

import workhook
from workhook.core.clock import now_ms
from workhook.events.tables import event_keys
from workhook.http.calls import Services
from workhook.storage import Row, Transaction, dialects
from workhook.storage.database import UniqueViolation
from workhook.storage.dialects import any_of
from workhook.storage.metadata import insert_into, probe
from workhook.storage.statements import Compiler, PerDialect

_insert = insert_into(event_keys, "scope", "key", "digest", "event_id", "created_at")
_keys = sa.select(event_keys.c.key).where(event_keys.c.scope == "t").order_by(event_keys.c.key)
_some = sa.select(event_keys.c.key).where(any_of(event_keys.c.event_id, "ids")).order_by(event_keys.c.key)
_others = sa.select(event_keys.c.key).where(any_of(event_keys.c.event_id, "ids", negate=True))


def _row(key: str, event_id: int = 1) -> dict[str, object]:
    return {"scope": "t", "key": key, "digest": b"\0\xff", "event_id": event_id, "created_at": now_ms()}


async def _stored(services: Services) -> list[str]:
    return [row["key"] for row in await services.database.fetch_all(_keys)]


async def test_a_transaction_is_visible_after_its_commit(services: Services) -> None:
    async with services.database.transaction() as tx:
        await tx.execute(_insert, _row("a"))
        assert [row["key"] for row in await tx.fetch_all(_keys)] == ["a"]
        assert await _stored(services) == []
    assert await _stored(services) == ["a"]


async def test_an_exception_rolls_back_only_its_transaction(services: Services) -> None:
    async def fail() -> None:
        async with services.database.transaction() as tx:
            await tx.execute(_insert, _row("bad"))
            raise LookupError

    async def succeed(key: str) -> None:
        async with services.database.transaction() as tx:
            await tx.execute(_insert, _row(key))

    outcomes = await asyncio.gather(succeed("a"), fail(), succeed("b"), fail(), succeed("c"), return_exceptions=True)
    assert [type(each) for each in outcomes] == [type(None), LookupError, type(None), LookupError, type(None)]
    assert await _stored(services) == ["a", "b", "c"]


async def test_many_concurrent_transactions_are_committed(services: Services) -> None:
    async def insert(number: int) -> None:
        async with services.database.transaction() as tx:
            await tx.execute(_insert, _row(f"{number:04}"))

    await asyncio.gather(*(insert(number) for number in range(300)))
    assert await _stored(services) == [f"{number:04}" for number in range(300)]


async def test_a_unique_violation_is_raised_and_leaves_the_database_usable(services: Services) -> None:
    async with services.database.transaction() as tx:
        await tx.execute(_insert, _row("a"))
    with pytest.raises(UniqueViolation):
        async with services.database.transaction() as tx:
            await tx.execute(_insert, _row("b"))
            await tx.execute(_insert, _row("a"))
    async with services.database.transaction() as tx:
        await tx.execute(_insert, _row("c"))
    assert await _stored(services) == ["a", "c"]


async def test_a_canceled_transaction_is_rolled_back(services: Services) -> None:
    inside = asyncio.Event()

    async def hang() -> None:
        async with services.database.transaction() as tx:
            await tx.execute(_insert, _row("never"))
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(hang())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with services.database.transaction() as tx:
        await tx.execute(_insert, _row("next"))
    assert await _stored(services) == ["next"]


async def test_steps_before_the_commit_belong_to_the_transaction(services: Services) -> None:
    notified: list[str] = []

    async def step(tx: Transaction) -> None:
        await tx.execute(_insert, _row("step"))

    async with services.database.transaction() as tx:
        await tx.execute(_insert, _row("first"))
        tx.before_commit(step)
        tx.after_commit(lambda: notified.append("durable"))
        assert notified == []
    assert notified == ["durable"]
    assert await _stored(services) == ["first", "step"]


async def test_a_failing_step_rolls_back_and_no_callback_runs(services: Services) -> None:
    notified: list[str] = []

    async def step(tx: Transaction) -> None:
        raise LookupError

    with pytest.raises(LookupError):
        async with services.database.transaction() as tx:
            await tx.execute(_insert, _row("first"))
            tx.before_commit(step)
            tx.after_commit(lambda: notified.append("durable"))
    assert notified == []
    assert await _stored(services) == []


async def test_deferred_writes_run_before_the_next_query(services: Services) -> None:
    async def step(tx: Transaction) -> None:
        tx.defer(_insert, [_row("last")])

    async with services.database.transaction() as tx:
        for ask in (tx.fetch_all, tx.fetch_one, tx.execute):
            tx.defer(_insert, [_row(f"{ask.__name__} 1")])
            tx.defer(_insert, [_row(f"{ask.__name__} {number}") for number in (2, 3)])
            assert len(tx.deferred) == 2
            assert await ask(_keys), "it sees what waited"
            assert tx.deferred == []
        tx.defer(_insert, [_row("many")])
        await tx.execute_many(_insert, [_row("of many")])
        tx.defer(_insert, [])
        assert tx.deferred == []
        tx.defer(_insert, [_row("at the end")])
        tx.before_commit(step)
    counted = [f"{name} {number}" for name in ("execute", "fetch_all", "fetch_one") for number in (1, 2, 3)]
    assert sorted(await _stored(services)) == sorted(["at the end", *counted, "last", "many", "of many"])


async def test_deferred_statements_take_one_round_trip(services: Services) -> None:
    written = sa.table("written", sa.column("key"))
    postgresql = sa.select(sa.literal("a").label("key"), written.c.key.label("new"))
    sqlite = sa.select(sa.literal("a").label("key"), sa.literal("b").label("new"))
    async with services.database.transaction() as tx:
        await tx.execute(_insert, _row("a", 7))
        tx.defer(_insert.returning(event_keys.c.key), [_row("b")], name="written")
        tx.defer(_insert, [_row("c")])
        rows = list[Row]()
        await tx.defer_fetch(PerDialect(sqlite=sqlite, postgresql=postgresql), None, rows.extend)
        await tx.flush()
        assert [(row["key"], row["new"]) for row in rows] == [("a", "b")]
        assert tx.deferred == []
    assert await _stored(services) == ["a", "b", "c"]


async def test_statements_that_depend_on_deferred_ones_cannot_be_deferred(services: Services) -> None:
    renamed = sa.update(event_keys).where(event_keys.c.key == "a").values(key="b")
    others = [each for each in event_keys.c if each.name != "key"]
    copy = sa.insert(event_keys).from_select(["key", *others], sa.select(sa.literal("d"), *others))
    async with services.database.transaction() as tx:
        tx.defer(_insert, [_row("a")])
        for clashing in (renamed, copy, sa.delete(event_keys)):
            with pytest.raises(AssertionError, match="changes event_keys"):
                tx.defer(clashing, [{}])
        with pytest.raises(AssertionError, match="changes event_keys"):
            await tx.defer_fetch(_keys, None, list[Row]().extend)
        await tx.flush()
        tx.defer(renamed, [{}])
        with pytest.raises(AssertionError, match="changes event_keys"):
            tx.defer(_insert, [_row("b")])
        await tx.flush()
        tx.defer(PerDialect(sqlite=copy, postgresql=copy), [{}])
    assert await _stored(services) == ["b", "d"]


async def test_deferred_writes_fail_and_roll_back_with_their_transaction(services: Services) -> None:
    notified: list[str] = []
    async with services.database.transaction() as tx:
        tx.defer(_insert, [_row("a")])
    with pytest.raises(UniqueViolation):
        async with services.database.transaction() as tx:
            await tx.execute(_insert, _row("b"))
            tx.defer(_insert, [_row("a")])
            tx.after_commit(lambda: notified.append("durable"))
    with pytest.raises(LookupError):
        async with services.database.transaction() as tx:
            tx.defer(_insert, [_row("c")])
            raise LookupError
    assert notified == []
    assert await _stored(services) == ["a"]


async def test_a_list_is_passed_as_one_parameter(services: Services) -> None:
    async with services.database.transaction() as tx:
        await tx.execute_many(_insert, [_row(name, number) for number, name in enumerate("abcd", start=1)])
    read = services.database.fetch_all
    assert [row["key"] for row in await read(_some, {"ids": [2, 4, 9]})] == ["b", "d"]
    assert [row["key"] for row in await read(_some, {"ids": []})] == []
    assert sorted(row["key"] for row in await read(_others, {"ids": [2, 4]})) == ["a", "c"]


async def test_a_missing_parameter_is_an_error(services: Services) -> None:
    with pytest.raises(KeyError):
        await services.database.fetch_all(_some, {})


async def test_signals_reach_listeners_after_the_commit(services: Services) -> None:
    heard: list[frozenset[int] | None] = []
    stop = services.database.signals.listen("topic", heard.append)
    heard.clear()
    services.database.signals.send("topic", [1, 2])
    assert frozenset({1, 2}) in heard
    stop()
    services.database.signals.send("topic", [3])
    assert frozenset({3}) not in heard


async def test_a_snapshot_is_consistent_while_others_write(services: Services) -> None:
    async def insert(key: str) -> None:
        async with services.database.transaction() as tx:
            await tx.execute(_insert, _row(key))

    await insert("a")
    async with services.database.snapshot() as reader:
        assert [row["key"] for row in await reader.fetch_all(_keys)] == ["a"]
        await insert("b")
        assert [row["key"] for row in await reader.fetch_all(_keys)] == ["a"]
    async with services.database.snapshot() as reader:
        assert [row["key"] for row in await reader.fetch_all(_keys)] == ["a", "b"]


# --- Statements ------------------------------------------------------------------------------------------------------
# Statements are built on import and compiled at first use. This compiles rarely used ones, too.


def statements() -> Iterator[tuple[str, Executable]]:
    """Yield every statement in a module, or in a dictionary of a module, with its name."""
    for module in pkgutil.walk_packages(workhook.__path__, "workhook."):
        if ".migrations" in module.name or module.name.endswith("__main__"):
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            found = value.values() if isinstance(value, dict) else [value]
            yield from ((f"{module.name}.{name}", each) for each in found if isinstance(each, Executable))


@pytest.mark.parametrize("dialect", [dialects.SQLITE, dialects.postgresql()], ids=lambda dialect: dialect.name)
def test_every_statement_compiles(dialect: Dialect) -> None:
    compiler = Compiler(dialect)
    compiled = {name: compiler(statement).sql for name, statement in statements()}
    assert len(compiled) > 50
    assert any("lanes" in sql for sql in compiled.values())


def test_on_conflict_compiles_identically_for_both_databases() -> None:
    """SQLite's construct is also compiled for PostgreSQL: `dialects` provides what that compiler needs."""
    row: dict[str, sa.ColumnElement[int]] = {"id": sa.literal_column("1"), "written_at": sa.literal_column("2")}
    insert = dialects.upsert(probe).values(row)
    for made, end in (
        (insert.on_conflict_do_nothing(), "ON CONFLICT DO NOTHING"),
        (
            insert.on_conflict_do_update(index_elements=["id"], set_={"written_at": insert.excluded.written_at}),
            "ON CONFLICT (id) DO UPDATE SET written_at = excluded.written_at",
        ),
    ):
        for each in (dialects.SQLITE, dialects.postgresql()):
            written = str(made.compile(dialect=each))
            assert written.startswith(f"INSERT INTO probe (id, written_at) VALUES (1, 2) {end}")
