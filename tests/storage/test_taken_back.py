"""A transaction that the database rolls back is retried, and nothing of the first attempt remains."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from prometheus_client import REGISTRY

from tests.harness.databases import Databases
from workhook.bootstrap import open_services
from workhook.core.config import load
from workhook.events.tables import event_keys
from workhook.http.calls import Services
from workhook.storage import Transaction, sqlite
from workhook.storage.database import TRIES, RolledBack
from workhook.storage.metadata import insert_into

_insert = insert_into(event_keys, "scope", "key", "digest", "event_id", "created_at")
_change = (
    sa.update(event_keys).where(event_keys.c.key == sa.bindparam("name")).values(event_id=event_keys.c.event_id + 1)
)
_numbers = sa.select(event_keys.c.key, event_keys.c.event_id).where(event_keys.c.scope == "t")

Change = Callable[[Transaction], Awaitable[object]]


@pytest.fixture
async def services(backend: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Services]:
    """Yield a database with the rows a and b, which waits a tenth of a second for SQLite's lock."""
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_S", 0.1)
    settings: dict[str, Any] = {"data": str(tmp_path), **backend.new(tmp_path)}
    async with open_services(load(settings, {})) as opened:
        rows = [{"scope": "t", "key": key, "digest": b"", "event_id": 0, "created_at": 1} for key in "ab"]
        async with opened.database.transaction() as tx:
            await tx.execute_many(_insert, rows)
        yield opened


def _counted(reason: str, outcome: str) -> float:
    labels = {"reason": reason, "outcome": outcome}
    return REGISTRY.get_sample_value("workhook_database_rolled_back_total", labels) or 0


async def _deadlocked(services: Services, changes: list[Change]) -> None:
    """Cause a deadlock: both transactions lock their first row before either continues with the other's."""
    met, tries = asyncio.Barrier(2), 0

    def meeting(change: Change, first: str, second: str) -> Change:
        async def run(tx: Transaction) -> object:
            nonlocal tries
            tries += 1
            alone = tries > 2
            await tx.execute(_change, {"name": first})
            if not alone:
                await met.wait()
            await tx.execute(_change, {"name": second})
            return await change(tx)

        return run

    both = [meeting(changes[0], "a", "b"), meeting(changes[1], "b", "a")]
    await asyncio.gather(*(services.database.in_transaction(each) for each in both))
    assert tries == 3


async def _locked(services: Services, path: Path, changes: list[Change]) -> None:
    """Another process holds the write lock until both transactions have been refused."""

    async def run(tx: Transaction, change: Change) -> object:
        for name in "ab":
            await tx.execute(_change, {"name": name})
        return await change(tx)

    before, other = _counted("locked", "again"), sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    begun = (services.database.in_transaction(partial(run, change=each)) for each in changes)
    tasks = [asyncio.create_task(each) for each in begun]
    async with asyncio.timeout(20):
        while _counted("locked", "again") < before + 2:
            await asyncio.wait(tasks, timeout=0.001)
    other.execute("ROLLBACK")
    other.close()
    await asyncio.gather(*tasks)


async def test_a_rolled_back_transaction_is_retried_and_done_once(services: Services, tmp_path: Path) -> None:
    notified: list[str] = []

    def change(name: str) -> Change:
        async def step(tx: Transaction) -> None:
            notified.append(f"step {name}")

        async def run(tx: Transaction) -> None:
            assert tx.get_local(list) == []
            tx.get_local(list).append("seen")
            tx.before_commit(step)
            tx.after_commit(lambda: notified.append(name))

        return run

    if services.settings.database_url is None:
        await _locked(services, tmp_path / "workhook.db", [change("x"), change("y")])
    else:
        before = _counted("deadlock", "again")
        await _deadlocked(services, [change("x"), change("y")])
        assert _counted("deadlock", "again") == before + 1
    assert sorted(notified) == ["step x", "step y", "x", "y"]
    rows = await services.database.fetch_all(_numbers)
    assert {row["key"]: row["event_id"] for row in rows} == {"a": 2, "b": 2}


async def test_a_transaction_is_given_up_after_its_last_try(services: Services) -> None:
    tries, notified = 0, []

    async def change(tx: Transaction) -> None:
        nonlocal tries
        tries += 1
        tx.after_commit(lambda: notified.append("done"))
        await tx.execute(_change, {"name": "a"})
        raise RolledBack("serialization")

    before = _counted("serialization", "refused")
    with pytest.raises(RolledBack) as refused:
        await services.database.in_transaction(change)
    assert (refused.value.status, refused.value.code) == (503, "database_unavailable")
    assert int(refused.value.headers["Retry-After"]) >= 1
    assert (tries, notified, _counted("serialization", "refused")) == (TRIES, [], before + 1)
    rows = await services.database.fetch_all(_numbers)
    assert {row["event_id"] for row in rows} == {0}


async def test_other_failures_are_not_retried(services: Services) -> None:
    tries = 0

    async def fail(tx: Transaction) -> None:
        nonlocal tries
        tries += 1
        raise LookupError

    with pytest.raises(LookupError):
        await services.database.in_transaction(fail)
    assert tries == 1
