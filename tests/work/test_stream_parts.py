"""Streams in this process: what takes long otherwise, and what fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.harness.waiting import WAIT_S, until
from tests.harness.world import make_world
from workhook.bootstrap import open_services
from workhook.core.errors import TooManyRequests, Unavailable
from workhook.events import order, outbox
from workhook.http import messages
from workhook.http.calls import Services
from workhook.http.protocol import BoundedProtocol
from workhook.identity.queries import find_project
from workhook.work.history.activity import live, queries
from workhook.work.history.activity.live import HEARTBEAT

ONE = live.Listener(queries.Proof("token", 1), counted_as="user:1", account_id=1)


@pytest.fixture
async def repository_id(services: Services) -> int:
    world = await make_world(services)
    project = await find_project(services.database, world.project_id, 0)
    assert project is not None
    return project.id


async def _append(services: Services, repository_id: int, **payload: object) -> int:
    async with services.database.transaction() as tx:
        event = await outbox.append(tx, outbox.Draft(1, repository_id, "push", None, payload))
    return event.id


async def _next(stream: AsyncIterator[bytes]) -> bytes:
    """Whatever comes next."""
    async with asyncio.timeout(WAIT_S):
        return await anext(stream)


async def _told(stream: AsyncIterator[bytes]) -> bytes:
    """What comes next and is no comment, of which a machine that stands still for a while sees one more."""
    while (part := await _next(stream)) == HEARTBEAT:
        pass
    return part


async def test_a_comment_keeps_the_connection_alive(
    services: Services, repository_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "HEARTBEAT_S", 0.05)
    stream = await live.follow(services, repository_id, ONE, None)
    try:
        assert await _next(stream) == b"retry: 2000\nid: 0\n\n"
        assert [await _next(stream) for _ in range(2)] == [HEARTBEAT] * 2
        event_id = await _append(services, repository_id, text="line\nbreak")
        assert (await _told(stream)).startswith(b"id: %d\nevent: push\ndata: {" % event_id)
    finally:
        await stream.aclose()


async def test_a_signal_that_is_lost_costs_only_time(
    services: Services, repository_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "POLL_S", 0.1)
    stream = await live.follow(services, repository_id, ONE, None)
    try:
        await _next(stream)
        async with open_services(services.settings) as other:
            other.database.signals.forward = None
            event_id = await _append(other, repository_id)
        assert (await _told(stream)).startswith(b"id: %d\n" % event_id)
    finally:
        await stream.aclose()


async def test_a_look_that_fails_is_made_again(
    services: Services, repository_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "POLL_S", 0.05)
    right, failures = order.commit_snapshot, 3

    async def fails(reader: Any) -> order.CommitSnapshot:
        nonlocal failures
        if failures:
            failures -= 1
            raise RuntimeError("no database")
        return await right(reader)

    monkeypatch.setattr(order, "commit_snapshot", fails)
    before = live.TROUBLE.labels("look")._value.get()
    stream = await live.follow(services, repository_id, ONE, None)
    try:
        assert (await _next(stream)).startswith(b"retry")
        assert live.TROUBLE.labels("look")._value.get() == before + 3
    finally:
        await stream.aclose()


async def test_a_process_has_a_number_of_streams_which_keep_it_from_nothing(
    services: Services, repository_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "endless_max", lambda: 2)
    protocol = BoundedProtocol.__new__(BoundedProtocol)
    protocol.limit_concurrency = 100
    opened = [await live.follow(services, repository_id, ONE._replace(account_id=each), None) for each in range(2)]
    try:
        assert protocol.limit_concurrency == 102
        with pytest.raises(Unavailable, match="too many streams") as refused:
            await live.follow(services, repository_id, ONE, None)
        assert refused.value.headers["Retry-After"] == "10"
    finally:
        for each in opened:
            await each.aclose()
    assert protocol.limit_concurrency == 100
    await (await live.follow(services, repository_id, ONE, None)).aclose()


async def test_one_account_takes_half_of_the_streams_of_a_process(
    services: Services, repository_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many people it has: another one's always find room."""
    monkeypatch.setattr(messages, "endless_max", lambda: 4)
    opened = []
    try:
        for number in range(2):
            mine = live.Listener(queries.Proof("token", number), counted_as=f"user:{number}", account_id=1)
            opened.append(await live.follow(services, repository_id, mine, None))
        with pytest.raises(TooManyRequests, match="as many streams open as they may") as refused:
            await live.follow(
                services, repository_id, live.Listener(queries.Proof("token", 2), "user:2", account_id=1), None
            )
        assert (refused.value.code, refused.value.headers["Retry-After"]) == ("too_many_streams", "10")
        opened.append(
            await live.follow(
                services, repository_id, live.Listener(queries.Proof("token", 2), "user:2", account_id=2), None
            )
        )
        await opened.pop(0).aclose()
        opened.append(
            await live.follow(
                services, repository_id, live.Listener(queries.Proof("token", 3), "user:3", account_id=1), None
            )
        )
    finally:
        for each in opened:
            await each.aclose()


async def test_who_is_there_when_the_server_stops_is_let_go_and_nobody_comes(
    services: Services, repository_id: int
) -> None:
    stream = await live.follow(services, repository_id, ONE, None)
    await _next(stream)
    services.stopping.set()
    with pytest.raises(StopAsyncIteration):
        await _told(stream)
    await stream.aclose()
    with pytest.raises(Unavailable, match="stopping"):
        await live.follow(services, repository_id, ONE, None)


@pytest.mark.parametrize("good", [True, False], ids=["member removed", "token revoked"])
async def test_who_is_let_go_hears_what_was_before(
    services: Services, repository_id: int, monkeypatch: pytest.MonkeyPatch, good: bool
) -> None:
    """The check comes between the commit and the look that finds it. A token that is revoked hears nothing more."""
    gone = False

    async def who(reader: Any, repository_id: int, proofs: set[queries.Proof]) -> set[queries.Proof]:
        return set() if gone else set(proofs)

    async def which(reader: Any, proofs: set[queries.Proof]) -> set[queries.Proof]:
        return set(proofs) if good else set()

    monkeypatch.setattr(live, "CHECK_S", 0.01)
    monkeypatch.setattr(live, "GATHER_S", 0.3 if good else 3600)
    monkeypatch.setattr(queries, "who_may_follow", who)
    monkeypatch.setattr(queries, "which_are_good", which)
    stream = await live.follow(services, repository_id, ONE, None)
    try:
        await _next(stream)
        following = asyncio.create_task(_told(stream))
        await asyncio.to_thread(until, lambda: stream._is_live)
        event_id = await _append(services, repository_id)
        gone = True
        if good:
            assert (await following).startswith(b"id: %d\n" % event_id)
            following = asyncio.create_task(_told(stream))
        with pytest.raises(StopAsyncIteration):
            await following
    finally:
        await stream.aclose()


async def test_what_a_client_does_not_take_is_not_kept(
    services: Services, repository_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "BUFFER_MAX_BYTES", 2000)
    slow = await live.follow(services, repository_id, ONE, None)
    quick = await live.follow(services, repository_id, ONE, None)
    try:
        await _next(slow)
        await _next(quick)
        assert not slow._is_live
        slow_begins = asyncio.create_task(_next(slow))
        ids = [await _append(services, repository_id, text="x" * 300)]
        parts = [await slow_begins]
        ids += [await _append(services, repository_id, text="x" * 300) for _ in range(20)]
        seen = b""
        while b"id: %d\n" % ids[-1] not in seen:
            seen += await _next(quick)
            assert slow._waiting_bytes <= 2000
        while b"id: %d\n" % ids[-1] not in parts[-1]:
            parts.append(await _next(slow))
        told = [line for line in b"".join(parts).split(b"\n") if line.startswith(b"id: ")]
        assert told == [b"id: %d" % each for each in ids]
    finally:
        await slow.aclose()
        await quick.aclose()
