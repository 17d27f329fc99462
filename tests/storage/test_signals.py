"""Signals between processes are batched, and none is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
import sqlalchemy as sa

from tests.harness.databases import Databases, databases
from workhook.http.calls import Services
from workhook.storage import postgres
from workhook.storage.signals import DUE


class Gate:
    """Replaces the pause between two NOTIFY, which ends when a test opens the gate."""

    def __init__(self) -> None:
        self.reached, self.opened = asyncio.Event(), asyncio.Event()

    async def __call__(self, seconds: float) -> None:
        self.reached.set()
        await self.opened.wait()


@pytest.fixture
def backend(_shared_folder: Path) -> Databases:
    """Return PostgreSQL only, because SQLite has no NOTIFY."""
    return databases("postgresql", _shared_folder)


@pytest.fixture
def gate(backend: Databases, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate()
    monkeypatch.setattr(postgres, "_pause", gate)
    yield gate
    gate.opened.set()


async def test_the_first_signal_is_sent_immediately_and_others_are_batched(
    gate: Gate, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[frozenset[str]] = []
    came = asyncio.Event()

    def hear(connection: object, pid: int, channel: str, payload: object) -> None:
        heard.append(frozenset(str(payload).split(":")[2].split(",")))
        came.set()

    assert services.settings.database_url is not None
    listening = await asyncpg.connect(services.settings.database_url)
    await listening.add_listener(postgres.CHANNEL, hear)
    monkeypatch.setattr(postgres, "GATHER_S", 3600)
    services.database.signals.send(DUE, [1])
    await asyncio.wait_for(came.wait(), 30)
    for number in range(2, 22):
        services.database.signals.send(DUE, [number])
        await services.database.fetch_one(sa.select(sa.literal(1)))  # enough time for a NOTIFY each
    await asyncio.wait_for(gate.reached.wait(), 30)
    gate.opened.set()
    while len(heard) < 2:
        came.clear()
        await asyncio.wait_for(came.wait(), 30)
    await listening.close()
    assert heard == [{"1"}, {str(number) for number in range(2, 22)}]
