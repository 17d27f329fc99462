"""A slow search is interrupted and does not block other requests, on both databases."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter

import pytest
import sqlalchemy as sa

from tests.harness.waiting import WAIT_S
from workhook.http.calls import Services
from workhook.storage import slow
from workhook.storage.metadata import probe
from workhook.storage.statements import PerDialect

_endless = PerDialect(
    sqlite=sa.text("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"),
    postgresql=sa.text("SELECT pg_sleep(600)"),
)
_quick = sa.select(probe)
_sleeping = sa.text(
    "SELECT count(*) AS sleeping FROM pg_stat_activity "
    "WHERE datname = current_database() AND state = 'active' AND query LIKE 'SELECT pg_sleep%'"
)


class Clock:
    """The clock used for slow reads on SQLite, which can be advanced."""

    def __init__(self) -> None:
        self.ahead_s = 0.0
        self.looks: Counter[int] = Counter()  # by thread

    def monotonic(self) -> float:
        self.looks[threading.get_ident()] += 1
        return time.monotonic() + self.ahead_s


async def _under_way(services: Services, clock: Clock) -> int:
    """Return the number of slow reads in progress that already have their time limit."""
    if services.database.name == "sqlite":
        return sum(looks > 1 for looks in clock.looks.values())
    row = await services.database.fetch_one(_sleeping)
    assert row is not None
    return int(row["sleeping"])


async def test_a_slow_read_is_interrupted(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(slow, "TIMEOUT_S", 0.5)
        for _ in range(slow.AT_ONCE + 1):  # also the next read on the same connection
            async with asyncio.timeout(WAIT_S):
                with pytest.raises(slow.QueryTooSlow) as refused:
                    await services.database.fetch_slow(_endless)
    assert refused.value.status == 503
    assert refused.value.headers["Retry-After"] == "10"
    monkeypatch.setattr(slow, "TIMEOUT_S", WAIT_S)
    await services.database.fetch_slow(_quick)


async def test_slow_reads_take_turns_and_do_not_delay_others(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(slow, "time", clock)
    monkeypatch.setattr(slow, "TIMEOUT_S", 3600.0)
    reads = [asyncio.create_task(services.database.fetch_slow(_endless)) for _ in range(slow.AT_ONCE)]
    try:
        async with asyncio.timeout(WAIT_S):
            while await _under_way(services, clock) < slow.AT_ONCE:
                await asyncio.wait(reads, timeout=0.01)
            monkeypatch.setattr(slow, "TIMEOUT_S", 0.5)
            waiting = [services.database.fetch_slow(_endless) for _ in range(20)]
            outcomes = await asyncio.gather(*waiting, return_exceptions=True)
            assert {type(each) for each in outcomes} == {slow.QueryTooSlow}
            for _ in range(10):
                await services.database.fetch_one(_quick)
        assert not any(read.done() for read in reads)
    finally:
        monkeypatch.setattr(slow, "TIMEOUT_S", WAIT_S)
        clock.ahead_s = 7200
        if services.database.name == "postgresql":
            for read in reads:
                read.cancel()
        ends = await asyncio.gather(*reads, return_exceptions=True)  # otherwise a thread could read for an hour
    assert {type(each) for each in ends} <= {slow.QueryTooSlow, asyncio.CancelledError}
    await services.database.fetch_slow(_quick)


async def test_a_slow_read_in_a_transaction_is_an_ordinary_read(services: Services) -> None:
    async with services.database.transaction() as tx:
        assert list(await tx.fetch_slow(_quick)) == list(await tx.fetch_all(_quick))
