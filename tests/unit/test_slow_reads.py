"""A search that takes long ends, and keeps nobody else waiting. Both databases."""

from __future__ import annotations

import asyncio

import pytest
import sqlalchemy as sa

from workhook.http.calls import Services
from workhook.storage import slow
from workhook.storage.metadata import probe
from workhook.storage.statements import PerDialect

_endless = PerDialect(
    sqlite=sa.text("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"),
    postgresql=sa.text("SELECT pg_sleep(60)"),
)
_quick = sa.select(probe)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow, "TIMEOUT_S", 0.5)


async def test_a_slow_read_is_ended(services: Services, short: None) -> None:
    for _ in range(slow.AT_ONCE + 1):  # also the next one on the same connection
        async with asyncio.timeout(30):
            with pytest.raises(slow.TooSlow) as refused:
                await services.database.fetch_slow(_endless)
    assert refused.value.status == 503
    assert refused.value.headers["Retry-After"] == "10"
    await services.database.fetch_slow(_quick)


async def test_slow_reads_wait_for_their_turn_and_others_for_none(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slow, "TIMEOUT_S", 2.0)
    reads = [asyncio.create_task(services.database.fetch_slow(_endless)) for _ in range(20)]
    await asyncio.sleep(0)
    for _ in range(10):
        await services.database.fetch_one(_quick)
    assert not any(read.done() for read in reads)
    outcomes = await asyncio.wait_for(asyncio.gather(*reads, return_exceptions=True), 60)
    assert {type(each) for each in outcomes} == {slow.TooSlow}
    await services.database.fetch_slow(_quick)


async def test_a_transaction_reads_as_it_is(services: Services) -> None:
    async with services.database.transaction() as tx:
        assert list(await tx.fetch_slow(_quick)) == list(await tx.fetch_all(_quick))
