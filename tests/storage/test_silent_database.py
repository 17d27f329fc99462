"""A database that no longer answers, as when the network is cut: a canceled task must end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.harness.databases import databases
from tests.harness.round_trips import Relay
from workhook.storage import postgres
from workhook.storage.postgres import PostgresDatabase

_ask = sa.text("SELECT 1")


@pytest.fixture
def relay(_shared_folder: Path, tmp_path: Path) -> Iterator[Relay]:
    relay = Relay(databases("postgresql", _shared_folder).new(tmp_path)["database_url"])
    yield relay
    relay.close()


async def test_a_cancellation_is_not_turned_into_an_error(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the cancellation became a database error, callers told to stop would retry forever."""
    monkeypatch.setattr(postgres, "COMMAND_TIMEOUT_S", 1.0)
    database = await PostgresDatabase.open(relay.url, connections=2, listen=False)
    begun = asyncio.Event()

    async def query_forever() -> None:
        async with database.transaction() as tx:
            while True:
                await tx.fetch_one(_ask)
                relay.silent = True
                begun.set()

    asking = asyncio.create_task(query_forever())
    await begun.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    relay.silent = False
    row = await database.fetch_one(_ask)
    assert row is not None
    await database.close()
