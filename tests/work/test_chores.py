"""Chores: done at the start and in their turn, never beside themselves, whatever happens in them."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import pkgutil

import pytest
from prometheus_client import REGISTRY

from tests.harness.server import Server
from tests.harness.waiting import WAIT_S, until
from workhook import work
from workhook.core.clock import now_ms
from workhook.http.calls import Services
from workhook.storage.metadata import insert_into, probe
from workhook.work.chores import CHORES, Chore, Chores, run_once

_write = insert_into(probe, "id", "written_at")


def _runs(name: str, outcome: str) -> float:
    return REGISTRY.get_sample_value("workhook_chore_runs_total", {"chore": name, "outcome": outcome}) or 0


class Counted:
    """A chore that can be waited for."""

    def __init__(self, *, fails: bool = False, blocks: bool = False) -> None:
        self.began: list[int] = []
        self.at_once = 0
        self.most_at_once = 0
        self._fails, self._blocks = fails, blocks
        self._changed = asyncio.Condition()

    async def run(self, services: Services, now: int) -> int:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            async with self._changed:
                self.began.append(now)
                self._changed.notify_all()
            if self._fails:
                raise ValueError("it does not work today")
            if self._blocks:
                await asyncio.Event().wait()
            return 1
        finally:
            self.at_once -= 1

    async def until_begun(self, times: int) -> None:
        async with asyncio.timeout(WAIT_S), self._changed:
            await self._changed.wait_for(lambda: len(self.began) >= times)


async def test_a_chore_is_done_at_the_start_and_again(services: Services) -> None:
    counted, seldom, before = Counted(), Counted(), now_ms()
    chores = Chores(services, [Chore("again", 1, counted.run), Chore("seldom", 3600, seldom.run)])
    chores.start()
    await counted.until_begun(3)
    await chores.stop()
    first, second = counted.began[:2]
    assert before <= first < second <= now_ms()
    assert len(seldom.began) == 1, "each in its turn"
    assert _runs("again", "success") >= 2


async def test_a_chore_that_fails_is_counted_and_tried_again(services: Services) -> None:
    failing, other = Counted(fails=True), Counted()
    chores = Chores(services, [Chore("failing", 1, failing.run), Chore("other", 1, other.run)])
    chores.start()
    await failing.until_begun(2)
    await other.until_begun(2)
    await chores.stop()
    assert _runs("failing", "failure") >= 2
    assert _runs("failing", "success") == 0


async def test_a_chore_that_takes_long_is_not_begun_beside_itself_and_keeps_no_other_waiting(
    services: Services,
) -> None:
    endless, other = Counted(blocks=True), Counted()
    chores = Chores(services, [Chore("endless", 1, endless.run), Chore("beside", 1, other.run)])
    chores.start()
    await other.until_begun(3)
    assert (len(endless.began), endless.most_at_once) == (1, 1)
    await chores.stop()
    assert endless.at_once == 0  # it was canceled, not left behind


async def test_stopping_undoes_what_was_not_finished(services: Services) -> None:
    begun = asyncio.Event()

    async def half(services: Services, now: int) -> int:
        async with services.database.transaction() as tx:
            await tx.execute(_write, {"id": 77, "written_at": now})
            begun.set()
            await asyncio.Event().wait()
        return 1

    chores = Chores(services, [Chore("half", 1, half)])
    chores.start()
    async with asyncio.timeout(WAIT_S):
        await begun.wait()
    await chores.stop()
    rows = await services.database.fetch_all(probe.select())
    assert 77 not in [row["id"] for row in rows]
    async with services.database.transaction() as tx:  # the writer is free
        await tx.execute(_write, {"id": 77, "written_at": 1})


async def test_one_run_answers_what_it_did(services: Services) -> None:
    async def three(services: Services, now: int) -> int:
        return now

    assert await run_once(services, Chore("three", 1, three), 3) == 3
    assert await run_once(services, Chore("broken", 1, Counted(fails=True).run), 3) == 0


def test_less_than_a_second_is_too_often() -> None:
    with pytest.raises(ValueError, match="too_often"):
        Chore("too_often", 0.5, Counted().run)


def test_a_server_does_its_chores(server: Server) -> None:
    wanted = 'workhook_chore_runs_total{chore="idempotency_keys",outcome="success"}'
    with server.client(None) as http:
        until(lambda: wanted in http.get("/metrics").text)


def test_whatever_can_be_a_chore_is_one() -> None:
    written = set()
    for found in pkgutil.walk_packages(work.__path__, f"{work.__name__}."):
        module = importlib.import_module(found.name)
        for name, function in inspect.getmembers(module, inspect.iscoroutinefunction):
            takes = {key: str(kind) for key, kind in inspect.get_annotations(function).items()}
            if takes == {"services": "Services", "now": "int", "return": "int"} and not name.startswith("_"):
                written.add(function)
    assert len(written) >= 5
    assert written <= {chore.run for chore in CHORES}
