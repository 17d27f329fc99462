"""What a process commits for a lane of its own it sends from memory, once, in its order."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.delivery.test_lanes import NOW, hook, lane
from tests.harness.databases import Databases
from tests.harness.receiver import Receiver
from tests.harness.waiting import WAIT_S
from tests.harness.world import make_world
from workhook.bootstrap import open_services
from workhook.core.config import load
from workhook.delivery import queries
from workhook.delivery.guard import AddressPolicy
from workhook.delivery.lanes import Work
from workhook.delivery.send import Sender
from workhook.delivery.worker import Worker
from workhook.hooks import actions, publishing
from workhook.hooks.handover import Fresh, offer
from workhook.hooks.parsing import parse_hook
from workhook.hooks.records import Place
from workhook.http.calls import Services
from workhook.identity.queries import find_repository
from workhook.identity.tokens.lookup import find_actor
from workhook.storage import Row


class Hooked:
    """A repository with a hook, in a process that delivers."""

    def __init__(self, services: Services, place: Place, hook_id: int) -> None:
        self._services, self._place, self.hook_id = services, place, hook_id

    async def publish(self, number: int) -> None:
        publication = publishing.Publication("push", {"number": number})
        await publishing.publish(self._services.database, self._place, publication, actor=None, base="http://x")


@pytest.fixture
async def site(backend: Databases, tmp_path: Path, receiver: Receiver) -> AsyncIterator[Hooked]:
    settings: dict[str, Any] = {"data": str(tmp_path), "delivery_allow_networks": "127.0.0.0/8"}
    async with open_services(load({**settings, **backend.new(tmp_path)}, {})) as services:
        world = await make_world(services)
        repository = await find_repository(services.database, world.organization, world.repository)
        actor = await find_actor(services.database, world.token)
        assert repository is not None
        assert actor is not None
        place = Place(repository.owner, repository)
        config = {"url": receiver.url, "content_type": "json", "max_concurrency": 1}
        change = parse_hook({"config": config, "events": ["push"]}, "repository", services.check_url, creating=True)
        async with services.database.transaction() as tx:
            made = await actions.create_hook(tx, actor, place, change, vault=services.vault, limit=0, base="http://x")
        sender = Sender(AddressPolicy(("127.0.0.0/8",)))
        worker = Worker(services, sender)
        await worker.start()
        yield Hooked(services, place, made.id)
        await worker.stop(WAIT_S)
        await sender.close()


async def test_nothing_is_read_for_it(site: Hooked, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    await asyncio.to_thread(receiver.wait_for, 1)  # the ping: the lane is here

    async def none(*_: object) -> list[Row]:
        return []

    monkeypatch.setattr(queries, "due_dispatches", none)
    # One that is committed while the lane is about to look is left to that look, which finds nothing here.
    async with asyncio.timeout(WAIT_S):
        for number in itertools.count():
            await site.publish(number)
            if len(receiver.requests) > 1:
                break


async def test_each_comes_once_and_in_order(site: Hooked, receiver: Receiver) -> None:
    await asyncio.gather(*(site.publish(number) for number in range(100)))
    received = await asyncio.to_thread(receiver.wait_for, 101)
    numbers = [each.payload()["number"] for each in received[1:]]
    assert numbers == list(range(100)), "they were published in this order"


async def test_with_no_worker_nobody_takes_it(backend: Databases, tmp_path: Path) -> None:
    async with open_services(load({"data": str(tmp_path), **backend.new(tmp_path)}, {})) as services:
        fresh = Fresh(1, 1, 1, "guid", 1, "push", None, None, None, b"{}", NOW)
        assert not offer(services.database, fresh)


def test_a_lane_takes_what_comes_next_and_nothing_else() -> None:
    made = lane(0)
    made.more = False
    assert made.accepts(5, version=1)
    made.add(Work(5, 5, "five", 0, 0, 0, NOW, "push", None, 1, 10))
    assert not made.accepts(5, version=1), "it is here already"
    assert not made.accepts(4, version=1), "a later one is here: what is between is not known"
    assert made.accepts(6, version=1)
    assert not made.accepts(6, version=2), "the hook has changed"
    for state in ("more", "reading", "stale", "leaving", "halted"):
        setattr(made, state, True)
        assert not made.accepts(6, version=1), state
        setattr(made, state, False)
    made.hook = hook()
    assert made.accepts(6, version=1)
