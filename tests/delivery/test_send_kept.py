"""Connections that are kept from one delivery to the next: bytes that belong to no answer, and ends in between."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from tests.delivery import sending
from tests.delivery.receivers import OK, Connection, forever, once, receiver
from tests.delivery.sending import CLOSED, MakeSender, failure, send
from tests.harness.waiting import WAIT_S
from workhook.delivery import send as sends
from workhook.delivery.send import SendSettings

make_sender = pytest.fixture(sending.make_sender)


async def test_a_connection_is_used_again(make_sender: MakeSender) -> None:
    sender = make_sender()
    async with receiver(forever()) as there:
        for _ in range(3):
            assert (await send(sender, there)).ok
    assert len(there.connections) == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 204 No Content\r\n\r\nstray",
        b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nstray",
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nstray",
        b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nstray\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokstray",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nokstray",
        OK + b"HTTP/1.1 500 Stale\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n" + b"HTTP/1.1 500 Stale\r\nContent-Length: 0\r\n\r\n",
    ],
)
async def test_bytes_after_an_answer_hurt_nobody(make_sender: MakeSender, answer: bytes) -> None:
    sender = make_sender()
    expected = int(answer[9:12])
    async with receiver(forever(answer)) as there:
        for _ in range(3):
            outcome = await send(sender, there)
            assert outcome.status_code == expected
            assert outcome.response_body == (b"ok" if expected == 200 else b"")


@pytest.mark.parametrize("stray", [b"stray", b"HTTP/1.1 500 Stale\r\nContent-Length: 0\r\n\r\n"])
async def test_late_bytes_on_a_kept_connection_are_no_answer(make_sender: MakeSender, stray: bytes) -> None:
    go_on = asyncio.Event()

    async def script(connection: Connection) -> None:
        await connection.answer(b"HTTP/1.1 204 No Content\r\n\r\n")
        if connection.number == 1:
            await go_on.wait()
            await connection.send(stray)
            await connection.wait_closed_by_sender()

    sender = make_sender()
    async with receiver(script) as there:
        assert (await send(sender, there)).status_code == 204
        go_on.set()
        await asyncio.wait_for(there.connections[0].closed.wait(), WAIT_S)
        assert (await send(sender, there)).status_code == 204


async def test_a_connection_closed_while_idle_costs_nothing(make_sender: MakeSender) -> None:
    sender = make_sender()
    async with receiver(once(OK)) as there:
        for _ in range(5):
            assert (await send(sender, there)).ok
            await there.connections[-1].closed.wait()
    assert len(there.requests) == 5


@pytest.mark.parametrize("how", ["close", "reset", "stray"])
async def test_a_kept_connection_that_ends_without_an_answer_is_replaced_once(
    make_sender: MakeSender, how: str
) -> None:
    async def script(connection: Connection) -> None:
        await connection.answer()
        if connection.number == 1:
            await connection.request()  # it was read: at least once
            if how == "reset":
                connection.reset()
            elif how == "stray":
                await connection.send(b"</body>\n")

    sender = make_sender()
    async with receiver(script) as there:
        assert (await send(sender, there)).ok
        assert (await send(sender, there)).ok
    assert len(there.connections) == 2
    assert len(there.requests) == 3


async def test_the_replacement_is_not_replaced(make_sender: MakeSender) -> None:
    async def script(connection: Connection) -> None:
        if connection.number == 1:
            await connection.answer()
        await connection.request()

    sender = make_sender()
    async with receiver(script) as there:
        assert (await send(sender, there)).ok
        assert failure(await send(sender, there)) == CLOSED
    assert len(there.requests) == 3


@pytest.mark.parametrize("begun", [b"H", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"])
async def test_a_kept_connection_that_had_begun_to_answer_is_not_replaced(
    make_sender: MakeSender, begun: bytes
) -> None:
    async def script(connection: Connection) -> None:
        await connection.answer()
        await connection.answer(begun)

    sender = make_sender()
    async with receiver(script) as there:
        assert (await send(sender, there)).ok
        assert failure(await send(sender, there)) == CLOSED
    assert len(there.requests) == 2


async def test_a_replacement_is_not_another_kept_connection(make_sender: MakeSender) -> None:
    """When a receiver restarts, every connection that is kept to it ends."""
    both_open = asyncio.Barrier(2)

    async def script(connection: Connection) -> None:
        await connection.request()
        if connection.number <= 2:
            await both_open.wait()
        await connection.send(OK)
        await connection.request()

    sender = make_sender()
    async with receiver(script) as there:
        assert all(outcome.ok for outcome in await asyncio.gather(send(sender, there), send(sender, there)))
        assert (await send(sender, there)).ok
    assert len(there.requests) == 4


async def test_a_replacement_shares_the_timeout(make_sender: MakeSender, monkeypatch: pytest.MonkeyPatch) -> None:
    total_timeout, given = sends._total_timeout, list[float]()

    def noted(total_s: float) -> aiohttp.ClientTimeout:
        given.append(total_s)
        return total_timeout(total_s)

    monkeypatch.setattr(sends, "_total_timeout", noted)

    async def script(connection: Connection) -> None:
        if connection.number == 1:
            await connection.answer()
            await connection.request()
            await asyncio.sleep(0.5)  # the receiver's own slowness: some of the time is gone when it closes
            return
        await connection.request()
        await connection.wait_closed_by_sender()

    sender = make_sender(settings=SendSettings(timeout_s=4.0))
    async with receiver(script) as there:
        assert (await send(sender, there)).ok
        outcome = await send(sender, there)
    assert len(there.connections) == 2
    assert failure(outcome) == ("timed out", 504)
    assert given[0] == 4.0
    assert given[-1] <= 3.51  # not a timeout of its own
