"""Dispatches committed in the worker's own process are delivered from memory, once and in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path

import pytest

from tests.delivery.inside import Inside, inside
from tests.delivery.site import Site, numbers
from tests.harness.databases import Databases
from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.harness.waiting import until
from workhook.delivery import queries
from workhook.hooks.commit import CommittedDispatch, accepts_dispatches, offer, parse_before, register_worker
from workhook.storage import Reader, Row


@pytest.fixture
async def site(backend: Databases, tmp_path: Path) -> AsyncIterator[Inside]:
    async with inside(backend, tmp_path) as site:
        yield site


def pushed_numbers(receiver: Receiver) -> list[int]:
    return numbers(receiver)


class Reads:
    """Counts the rows which the worker reads: due dispatches and payloads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found = 0
        due, payloads = queries.due_dispatches, queries.payloads

        async def due_dispatches(
            reader: Reader, since: Mapping[int, int], busy: Sequence[int], now: int, per_lane: int
        ) -> Sequence[Row]:
            rows = await due(reader, since, busy, now, per_lane)
            self.found += len(rows)
            return rows

        async def of_events(reader: Reader, event_ids: Sequence[int]) -> dict[int, bytes]:
            found = await payloads(reader, event_ids)
            self.found += len(found)
            return found

        monkeypatch.setattr(queries, "due_dispatches", due_dispatches)
        monkeypatch.setattr(queries, "payloads", of_events)


async def test_dispatches_of_the_own_process_are_delivered_without_a_read(
    site: Inside, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.hooks([receiver.url], max_concurrency=1)
    async with site.delivering():
        await asyncio.to_thread(receiver.wait_for, 1)  # the ping, after which the lane is loaded
        for number in range(50):
            await site.publish(number)  # by the last of these, the lane has read and found nothing more
            await asyncio.to_thread(receiver.wait_for, 2 + number)
        reads = Reads(monkeypatch)
        for number in range(50, 60):
            await site.publish(number)
        await asyncio.to_thread(receiver.wait_for, 61)
    assert pushed_numbers(receiver) == list(range(60))
    assert reads.found == 0


async def test_a_lane_that_fell_behind_returns_to_delivery_from_memory(
    site: Inside, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More events than fit in memory are waiting, and publishing never stops in the meantime."""
    await site.hooks([receiver.url], max_concurrency=1)
    async with site.delivering():
        await asyncio.gather(*(site.publish(number) for number in range(300)))
        reads, handed, published = Reads(monkeypatch), 0, 300
        while handed < 20:  # consecutive events that were delivered without a read
            before = reads.found
            await site.publish(published)
            published += 1
            await asyncio.to_thread(receiver.wait_for, 1 + published - min(published, 40))
            handed = handed + 1 if reads.found == before else 0
        await asyncio.to_thread(receiver.wait_for, 1 + published)
    assert pushed_numbers(receiver) == list(range(published))


async def test_each_event_arrives_once_and_in_order(site: Inside, receiver: Receiver) -> None:
    await site.hooks([receiver.url], max_concurrency=1)
    async with site.delivering():
        for start in range(0, 400, 40):
            await asyncio.gather(*(site.publish(number) for number in range(start, start + 40)))
        await asyncio.to_thread(receiver.wait_for, 401)
    assert pushed_numbers(receiver) == list(range(400)), "they were published in this order"


def test_events_published_by_two_processes_in_turn_arrive_in_order(
    new_server: Callable[..., Server], receiver: Receiver
) -> None:
    """Each waits for the other's answer.

    Only one process owns the lane; it learns of the other's commits a moment later.
    """
    site = Site(new_server())
    other = site.at(new_server(command=("serve", "--no-worker", "--port", "0")))
    site.hook(receiver, max_concurrency=1)
    for number in range(0, 200, 2):
        other.publish(number)
        site.publish(number + 1)
    receiver.wait_for(201)
    assert pushed_numbers(receiver) == list(range(200))
    site.close()


def test_a_hook_changed_during_delivery_gets_each_event_once(
    new_server: Callable[..., Server], receiver: Receiver
) -> None:
    """A dispatch committed before a change is sent once, with the webhook's current configuration."""
    site = Site(new_server())
    hook = site.hook(receiver, max_concurrency=1)
    for number in range(60):
        site.publish(number)
        if number % 10 == 9:
            hook.configure(url=f"{receiver.url}?after{number}")
    receiver.wait_for(61)
    assert pushed_numbers(receiver) == list(range(60))
    hook.patch(active=False)
    assert site.publish(60) == 0
    hook.patch(active=True)
    site.publish(61)
    until(lambda: pushed_numbers(receiver)[-1] == 61)
    assert pushed_numbers(receiver) == [*range(60), 61]
    site.close()


async def test_without_a_worker_no_dispatch_is_accepted(site: Inside) -> None:
    new = CommittedDispatch(1, 1, 1, "guid", 1, {})
    assert not accepts_dispatches(site.services.database)
    assert not offer(site.services.database, new)


async def test_an_offered_dispatch_lists_those_due_before_it(site: Inside, receiver: Receiver) -> None:
    """`before` lists the dispatches that were due already. No worker runs here; a stub records the offers."""

    [hook_id] = await site.hooks([receiver.url])
    offered: list[CommittedDispatch] = []

    class StubWorker:
        def accepts_dispatches(self) -> bool:
            return True

        def accept(self, new: CommittedDispatch) -> bool:
            offered.append(new)
            return False

    await site.publish(1)
    end = register_worker(site.services.database, StubWorker())
    await site.publish(2)
    await asyncio.gather(site.publish(3), site.publish(4), site.publish(5))
    end()
    await site.publish(6)
    assert [each.hook_id for each in offered] == [hook_id] * 4
    known = [len(each.before or ()) for each in offered]
    # The ping and the first push; then one event alone, and one transaction of two; only the first has a list.
    assert known == [2, 3, 4, 0]
    assert offered[0].id in (offered[1].before or ())


def test_a_list_of_earlier_dispatches_that_is_too_long_is_dropped() -> None:
    assert parse_before(None) == ()
    assert parse_before("[1, 2]") == [1, 2]
    assert parse_before(list(range(65))) is None
