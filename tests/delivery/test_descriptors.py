"""More receivers than a process may open files: every delivery is made, and every request is answered."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.delivery import sending
from tests.delivery.receivers import Receiver, forever, receiver
from tests.delivery.sending import MakeSender, send
from tests.delivery.site import Site
from tests.harness.databases import Databases
from tests.harness.own_process import OwnProcess
from tests.harness.waiting import WAIT_S, until
from workhook.delivery import client
from workhook.delivery.send import SendSettings

FILES = 128
RECEIVERS = 200
EVENTS = 4
PUBLISHERS = 8

make_sender = pytest.fixture(sending.make_sender)


class FewFiles(OwnProcess):
    """A server process with a low limit on open files."""

    def command_line(self) -> Sequence[str]:
        limit = f"import os, resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES}))"
        return [sys.executable, "-c", f"{limit}; os.execv(sys.argv[1], sys.argv[1:])", *super().command_line()]


@pytest.fixture
async def receivers() -> AsyncIterator[list[Receiver]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(receiver(forever())) for _ in range(RECEIVERS)]


def count_events(receivers: list[Receiver]) -> list[Counter[str]]:
    """Count the received events of each name, per receiver."""
    return [Counter(each.headers["X-Service-Event"] for each in there.requests) for there in receivers]


@pytest.mark.whole
async def test_deliveries_reach_more_receivers_than_there_are_descriptors(
    backend: Databases, tmp_path: Path, receivers: list[Receiver]
) -> None:
    server = FewFiles(tmp_path, {**backend.new(tmp_path), "delivery_retry_first_s": 0.05}).start()
    site = Site(server)
    try:
        urls = [each.url for each in receivers]

        def work() -> None:
            with ThreadPoolExecutor(PUBLISHERS) as publishers:
                list(publishers.map(site.hook, urls))
            site.publish_many(range(EVENTS))

        await asyncio.to_thread(work)
        wanted = {"ping": 1, "push": EVENTS}
        await asyncio.to_thread(until, lambda: all(each == wanted for each in count_events(receivers)), 2 * WAIT_S)
        hooks = await asyncio.to_thread(site.pages, f"{site.world.repo_path}/hooks", {})
        assert {each["last_response"]["code"] for each in hooks} == {200}
        assert len(hooks) == RECEIVERS
        assert server.stop() == 0
        assert "out_of_resources" not in server.log()
    finally:
        site.close()
        server.close()


# --- A sender ----------------------------------------------------------------------------------------------------


async def test_the_connection_idle_longest_is_closed_for_a_new_one(make_sender: MakeSender) -> None:
    sender = make_sender(settings=SendSettings(connections_max=3))
    async with AsyncExitStack() as stack:
        there = [await stack.enter_async_context(receiver(forever())) for _ in range(4)]
        for each in there[:3]:
            assert (await send(sender, each)).ok
        assert (await send(sender, there[0])).ok  # now the second connection has been idle longest
        assert (await send(sender, there[3])).ok
        await asyncio.wait_for(there[1].connections[0].closed.wait(), WAIT_S)
        for each in (there[0], there[2], there[3]):
            assert (await send(sender, each)).ok
    assert [len(each.connections) for each in there] == [1, 1, 1, 1]


async def test_verified_and_unverified_connections_share_one_limit(make_sender: MakeSender) -> None:
    sender = make_sender(settings=SendSettings(connections_max=1))
    async with receiver(forever()) as one, receiver(forever()) as other:
        assert (await send(sender, one)).ok
        assert (await send(sender, other, insecure_ssl=True)).ok
        await asyncio.wait_for(one.connections[0].closed.wait(), WAIT_S)


async def test_a_connection_is_closed_once_it_has_been_idle_for_long(
    make_sender: MakeSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = make_sender()
    async with receiver(forever()) as there:
        assert (await send(sender, there)).ok
        sender._client._sweep()
        assert (await send(sender, there)).ok
        [connection] = there.connections
        monkeypatch.setattr(client, "KEEP_ALIVE_S", 0.0)
        sender._client._sweep()
        await asyncio.wait_for(connection.closed.wait(), WAIT_S)


async def test_a_connection_closed_by_the_receiver_does_not_count(make_sender: MakeSender) -> None:
    sender = make_sender(settings=SendSettings(connections_max=2))
    async with receiver(forever()) as kept:
        assert (await send(sender, kept)).ok
        async with receiver(forever()) as gone:
            assert (await send(sender, gone)).ok
        await asyncio.wait_for(gone.connections[0].closed.wait(), WAIT_S)
        async with receiver(forever()) as third:
            assert (await send(sender, third)).ok
            assert (await send(sender, kept)).ok
    assert len(kept.connections) == 1
