"""What waits in memory is little, whatever the number of lanes, and no lane keeps another from it."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.delivery.inside import Inside, inside
from tests.harness.databases import Databases
from tests.harness.receiver import Received, Receiver, Reply
from tests.harness.waiting import WAIT_S
from workhook.delivery import queries
from workhook.storage import Reader, Row

SLOTS = 32
IN_HAND = 512  # at most, besides what is being sent


class Hanging:
    """Receivers whose path says so do not answer before the end."""

    def __init__(self) -> None:
        self.over = threading.Event()

    def __call__(self, received: Received) -> Reply:
        if "hang" in received.path:
            self.over.wait(4 * WAIT_S)
        return Reply()


@pytest.fixture
def hanging(receiver: Receiver) -> Iterator[Hanging]:
    hanging = Hanging()
    receiver.reply = hanging
    yield hanging
    hanging.over.set()


class Watched:
    """What the worker asks for: how many dispatches it has in hand then, and for how many payloads at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.busy: list[int] = []
        self.payloads: list[int] = []
        due, payloads = queries.due_dispatches, queries.payloads

        async def due_dispatches(
            reader: Reader, since: Mapping[int, int], busy: Sequence[int], now: int, per_lane: int
        ) -> Sequence[Row]:
            self.busy.append(len(busy))
            return await due(reader, since, busy, now, per_lane)

        async def of_events(reader: Reader, event_ids: Sequence[int]) -> dict[int, bytes]:
            self.payloads.append(len(event_ids))
            return await payloads(reader, event_ids)

        monkeypatch.setattr(queries, "due_dispatches", due_dispatches)
        monkeypatch.setattr(queries, "payloads", of_events)


async def all_arrive(receiver: Receiver, wanted: int, path: str) -> Counter[str]:
    """The pushes to paths of this kind: how many came to each."""

    def come(requests: list[Received]) -> bool:
        return sum(path in each.path and each.event == "push" for each in requests) >= wanted

    requests = await asyncio.to_thread(receiver.wait_for, come)
    return Counter(each.path for each in requests if path in each.path and each.event == "push")


async def backlog(site: Inside, number: int, **more: object) -> None:
    """With nobody to deliver it yet."""
    await asyncio.gather(*(site.publish(each, **more) for each in range(number)))


async def test_with_many_lanes_little_is_in_hand(
    backend: Databases, tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them would like to have 32."""
    lanes, each = 200, 10
    async with inside(backend, tmp_path, concurrency=SLOTS) as site:
        await site.hooks([f"{receiver.url}?to{number}" for number in range(lanes)])
        await backlog(site, each)
        watched = Watched(monkeypatch)
        async with site.delivering():
            arrived = await all_arrive(receiver, lanes * each, "to")
    assert set(arrived.values()) == {each}, "to every hook each event once"
    assert max(watched.busy) <= IN_HAND + SLOTS
    assert sum(watched.payloads) < lanes * each, "payloads are read in pages, not one by one"


async def test_what_hangs_keeps_nobody_else_waiting(
    backend: Databases, tmp_path: Path, receiver: Receiver, hanging: Hanging
) -> None:
    """A tenth of the receivers hang, and they alone would take more slots, and more of what waits, than there are."""
    async with inside(backend, tmp_path, concurrency=SLOTS) as site:
        await site.hooks([f"{receiver.url}?hang{number}" for number in range(10)])
        await site.hooks([f"{receiver.url}?fine{number}" for number in range(90)])
        await backlog(site, 10)
        async with site.delivering():
            arrived = await all_arrive(receiver, 90 * 10, "fine")
            assert set(arrived.values()) == {10}
            hung = [each for each in receiver.requests if "hang" in each.path]
            assert 10 <= len(hung) <= 10 + SLOTS // 2
            hanging.over.set()


async def test_many_that_hang_keep_nobody_else_from_what_waits(
    backend: Databases, tmp_path: Path, receiver: Receiver, hanging: Hanging
) -> None:
    """What waits for them alone is more than may wait at all."""
    async with inside(backend, tmp_path, concurrency=256) as site:
        await site.hooks([f"{receiver.url}?hang{number}" for number in range(100)])
        await site.hooks([f"{receiver.url}?fine{number}" for number in range(5)])
        await backlog(site, 40)
        async with site.delivering():
            assert set((await all_arrive(receiver, 5 * 40, "fine")).values()) == {40}
            hanging.over.set()


# --- Bytes -----------------------------------------------------------------------------------------------------------


async def test_payloads_in_hand_are_bounded(
    backend: Databases, tmp_path: Path, receiver: Receiver, hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While every receiver hangs, what was read stays in memory."""
    lanes, each = 2, 60
    async with inside(backend, tmp_path, concurrency=256, delivery_memory_mb=1) as site:
        await site.hooks([f"{receiver.url}?hang{number}" for number in range(lanes)])
        await backlog(site, each, note="x" * 50_000)
        read, payloads = list[int](), queries.payloads

        async def of_events(reader: Reader, event_ids: Sequence[int]) -> dict[int, bytes]:
            found = await payloads(reader, event_ids)
            read.append(sum(map(len, found.values())))
            return found

        monkeypatch.setattr(queries, "payloads", of_events)
        async with site.delivering():
            await asyncio.to_thread(receiver.wait_for, lanes)  # each has its ping, and by then what comes next was read
            assert sum(read) <= 1024 * 1024
            hanging.over.set()
            assert set((await all_arrive(receiver, lanes * each, "hang")).values()) == {each}


async def test_an_event_that_is_larger_than_the_memory_goes_all_the_same(
    backend: Databases, tmp_path: Path, receiver: Receiver
) -> None:
    async with inside(backend, tmp_path, delivery_memory_mb=1) as site:
        await site.hooks([receiver.url])
        async with site.delivering():
            await backlog(site, 3, note="x" * 3_000_000)
            await backlog(site, 5)
            await all_arrive(receiver, 8, "")
