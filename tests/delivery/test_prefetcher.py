"""The backlog in memory is small, whatever the number of lanes, and no lane keeps others out of it."""

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
IN_HAND = 512  # at most, in addition to attempts in flight


class Hanging:
    """A reply that withholds the answer on paths with "hang" until the test ends."""

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


class RecordedReads:
    """Records the worker's reads: the dispatches in hand at each, and the number of payloads read together."""

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


async def wait_for_pushes(receiver: Receiver, wanted: int, path: str) -> Counter[str]:
    """Wait for `wanted` pushes to paths that contain `path`. Return their number per path."""

    def have_arrived(requests: list[Received]) -> bool:
        return sum(path in each.path and each.event == "push" for each in requests) >= wanted

    requests = await asyncio.to_thread(receiver.wait_for, have_arrived)
    return Counter(each.path for each in requests if path in each.path and each.event == "push")


async def publish_backlog(site: Inside, number: int, **more: object) -> None:
    """Publish events before a worker runs."""
    await asyncio.gather(*(site.publish(each, **more) for each in range(number)))


async def test_the_number_of_dispatches_in_hand_is_bounded_with_many_lanes(
    backend: Databases, tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them alone would prefetch 32."""
    lanes, each = 200, 10
    async with inside(backend, tmp_path, concurrency=SLOTS) as site:
        await site.hooks([f"{receiver.url}?to{number}" for number in range(lanes)])
        await publish_backlog(site, each)
        watched = RecordedReads(monkeypatch)
        async with site.delivering():
            arrived = await wait_for_pushes(receiver, lanes * each, "to")
    assert set(arrived.values()) == {each}, "to every hook each event once"
    assert max(watched.busy) <= IN_HAND + SLOTS
    assert sum(watched.payloads) < lanes * each, "payloads are read in pages, not one by one"


async def test_hanging_receivers_do_not_delay_others(
    backend: Databases, tmp_path: Path, receiver: Receiver, hanging: Hanging
) -> None:
    """A tenth of the receivers hang.

    They alone would take more slots and more of the backlog than there is room for.
    """
    async with inside(backend, tmp_path, concurrency=SLOTS) as site:
        await site.hooks([f"{receiver.url}?hang{number}" for number in range(10)])
        await site.hooks([f"{receiver.url}?fine{number}" for number in range(90)])
        await publish_backlog(site, 10)
        async with site.delivering():
            arrived = await wait_for_pushes(receiver, 90 * 10, "fine")
            assert set(arrived.values()) == {10}
            hung = [each for each in receiver.requests if "hang" in each.path]
            assert 10 <= len(hung) <= 10 + SLOTS // 2
            hanging.over.set()


async def test_many_hanging_receivers_do_not_keep_others_out_of_memory(
    backend: Databases, tmp_path: Path, receiver: Receiver, hanging: Hanging
) -> None:
    """Their backlog alone is more than fits in memory."""
    async with inside(backend, tmp_path, concurrency=256) as site:
        await site.hooks([f"{receiver.url}?hang{number}" for number in range(100)])
        await site.hooks([f"{receiver.url}?fine{number}" for number in range(5)])
        await publish_backlog(site, 40)
        async with site.delivering():
            assert set((await wait_for_pushes(receiver, 5 * 40, "fine")).values()) == {40}
            hanging.over.set()


# --- Bytes -----------------------------------------------------------------------------------------------------------


async def test_the_size_of_payloads_in_hand_is_bounded(
    backend: Databases, tmp_path: Path, receiver: Receiver, hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While every receiver hangs, the payloads already read stay in memory."""
    lanes, each = 2, 60
    async with inside(backend, tmp_path, concurrency=256, delivery_memory_mb=1) as site:
        await site.hooks([f"{receiver.url}?hang{number}" for number in range(lanes)])
        await publish_backlog(site, each, note="x" * 50_000)
        read, payloads = list[int](), queries.payloads

        async def of_events(reader: Reader, event_ids: Sequence[int]) -> dict[int, bytes]:
            found = await payloads(reader, event_ids)
            read.append(sum(map(len, found.values())))
            return found

        monkeypatch.setattr(queries, "payloads", of_events)
        async with site.delivering():
            await asyncio.to_thread(receiver.wait_for, lanes)  # by the pings, further payloads have been read
            assert sum(read) <= 1024 * 1024
            hanging.over.set()
            assert set((await wait_for_pushes(receiver, lanes * each, "hang")).values()) == {each}


async def test_an_event_larger_than_the_memory_limit_is_still_delivered(
    backend: Databases, tmp_path: Path, receiver: Receiver
) -> None:
    async with inside(backend, tmp_path, delivery_memory_mb=1) as site:
        await site.hooks([receiver.url])
        async with site.delivering():
            await publish_backlog(site, 3, note="x" * 3_000_000)
            await publish_backlog(site, 5)
            await wait_for_pushes(receiver, 8, "")
