"""A database that says nothing any more, as behind a network that is cut: whoever is told to stop stops."""

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


async def test_a_cancellation_stays_one(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    """It became an error of the database, after which whoever was told to stop tried again for ever."""
    monkeypatch.setattr(postgres, "COMMAND_TIMEOUT_S", 1.0)
    database = await PostgresDatabase.open(relay.url, connections=2, listen=False)
    begun = asyncio.Event()

    async def ask_for_ever() -> None:
        async with database.transaction() as tx:
            while True:
                await tx.fetch_one(_ask)
                relay.silent = True
                begun.set()

    asking = asyncio.create_task(ask_for_ever())
    await begun.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    relay.silent = False
    row = await database.fetch_one(_ask)
    assert row is not None
    await database.close()
