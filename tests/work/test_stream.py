"""`/projects/{id}/stream`: live events of a project, complete and without duplicates."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from tests.harness.server import Server
from tests.harness.waiting import WAIT_S, until
from tests.harness.world import make_world, must
from tests.work.listener import Listener
from tests.work.studio import Caller, Studio
from workhook.bootstrap import open_services
from workhook.core.config import load
from workhook.core.errors import TooManyRequests, Unavailable
from workhook.events import order, outbox
from workhook.hooks.fan_out import send_now
from workhook.http import messages
from workhook.http.calls import Services
from workhook.http.protocol import BoundedProtocol
from workhook.identity.queries import find_project
from workhook.identity.tokens.issue import revoke as revoke_tokens
from workhook.identity.tokens.lookup import find_actor
from workhook.work.history.activity import live, queries
from workhook.work.history.activity.live import HEARTBEAT


class Stage:
    """A studio and the listeners of its project."""

    def __init__(self, studio: Studio, stack: ExitStack) -> None:
        self.studio, self._stack = studio, stack
        self.path = f"{studio.project}/stream"

    def listen(self, caller: Caller | None = None, **more: Any) -> Listener:
        """Listen as `caller`, optionally on another `server`."""
        caller = caller or self.studio.owner
        url = more.pop("server", self.studio.server).url
        return self._stack.enter_context(Listener(url, more.pop("path", self.path), caller.token, **more))

    def listen_when_it_may_begin(self) -> Listener:
        """Listen, retrying while a long change of the project delays new listeners."""
        found = until(lambda: found if (found := self.listen()).status == 200 else None)
        assert found is not None
        return found

    def rename(self, title: object) -> None:
        self.studio.owner.patch(self.studio.project, json={"title": str(title)})

    def everything(self) -> list[int]:
        """Return the IDs of all events of the project, reading every page."""
        answer = self.studio.owner.call("GET", f"{self.studio.project}/activity")
        found = [each["id"] for each in answer.json()["activity"]]
        while "next" in answer.links:
            answer = self.studio.owner.http.get(answer.links["next"]["url"])
            found += [each["id"] for each in answer.json()["activity"]]
        return sorted(found)

    def open_streams(self) -> int:
        text = self.studio.owner.http.get("/metrics").text
        found = re.search(r"^workhook_streams_open (\d+)", text, re.MULTILINE)
        return int(found[1]) if found else 0


@pytest.fixture
def stage(studio: Studio) -> Iterator[Stage]:
    with ExitStack() as stack:
        yield Stage(studio, stack)


def _titles(told: list[Any]) -> list[str]:
    return [each.data["payload"]["project"]["title"] for each in told]


# --- contents --------------------------------------------------------------------------------------------------------


def test_events_are_streamed(stage: Stage) -> None:
    stage.rename("Before")
    listener = stage.listen()
    assert listener.status == 200
    assert listener.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert listener.headers["cache-control"] == "no-store"
    assert listener.opened() > 0
    stage.rename("After")
    [told] = listener.events(1)
    assert told.event == "project"
    assert set(told.data) == {"event", "action", "created_at", "published", "payload"}
    assert (told.data["event"], told.data["action"]) == ("project", "edited")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", told.data["created_at"])
    assert told.data["payload"] == stage.studio.happened()[-1].payload
    [newest] = stage.studio.owner.get(f"{stage.studio.project}/activity", params={"per_page": 1})["activity"]
    assert (newest["id"], newest["payload"]) == (told.id, told.data["payload"])


def test_events_of_other_projects_are_not_streamed(stage: Stage) -> None:
    listener = stage.listen()
    other = stage.studio.owner.post("/projects", json={"title": "Other"})["project"]
    elsewhere = stage.listen(path=f"/projects/{other['id']}/stream")
    stage.rename("Here")
    stage.studio.owner.patch(f"/projects/{other['id']}", json={"title": "There"})
    assert _titles(listener.events(1)) == ["Here"]
    assert _titles(elsewhere.events(1)) == ["There"]


def test_published_events_are_streamed_but_hook_events_are_not(stage: Stage) -> None:
    studio = stage.studio
    listener = stage.listen(studio.member)
    studio.hook("http://127.0.0.1:9/secret", "push")
    push = {"event": "push", "payload": {"ref": "refs/heads/main", "note": "a\nb\u2028c"}}
    assert studio.owner.http.post(f"{studio.world.repo_path}/events", json=push).status_code == 202
    [told] = listener.events(1)
    assert (told.event, told.data["action"], told.data["payload"]["note"]) == ("push", None, "a\nb\u2028c")
    assert told.data["published"] is True
    stage.rename("Done here")
    assert [each.data["published"] for each in listener.events(1)] == [False]


@pytest.mark.whole
def test_a_listener_catches_up_in_order_without_duplicates(stage: Stage) -> None:
    first = stage.listen()
    stage.rename(0)
    [seen] = first.events(1)
    first.close()
    for number in range(1, 450):  # more than one batch
        stage.rename(number)
    wanted = [str(number) for number in range(1, 450)]
    by_header = stage.listen(last=seen.id)
    by_query = stage.listen(path=f"{stage.path}?last_event_id={seen.id}")
    both = stage.listen(path=f"{stage.path}?last_event_id=1", last=seen.id)
    stage.rename("and on")
    for listener in (by_header, by_query, both):
        told = listener.events(450)
        assert _titles(told) == [*wanted, "and on"]
        assert [each.id for each in told] == sorted({each.id for each in told})


def test_a_listener_that_reconnects_misses_nothing(stage: Stage) -> None:
    first = stage.listen()
    position = first.opened()
    first.close()
    stage.rename("Meanwhile")
    assert _titles(stage.listen(last=position).events(1)) == ["Meanwhile"]
    never_was = stage.listen(last=10**14)
    stage.rename("New")
    assert _titles(never_was.events(1)) == ["New"]


def test_all_listeners_get_the_same_events_during_concurrent_writes(stage: Stage) -> None:
    listeners = [stage.listen(each) for each in (stage.studio.owner, stage.studio.member) for _ in range(4)]
    names = [f"client{number}.{stage.studio.world.owner}@a.example" for number in range(60)]
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(stage.studio.new_client, names))
    for listener in listeners:
        told = listener.events(60)
        assert [each.id for each in told] == sorted({each.id for each in told})
        assert sorted(each.data["payload"]["client"]["id"] for each in told) == sorted(each["id"] for each in made)


def test_a_slow_reader_gets_every_event(stage: Stage) -> None:
    listener = stage.listen(receive_bytes=8192)
    published = f"{stage.studio.world.repo_path}/events"
    for number in range(60):  # 12 MB, which exceeds the socket and server buffers
        push = {"event": "push", "payload": {"number": number, "text": "x" * 200_000}}
        assert stage.studio.owner.http.post(published, json=push).status_code == 202
    stage.rename("Last")
    told = listener.events(61)
    assert [each.data["payload"].get("number") for each in told] == [*range(60), None]


# --- permissions -----------------------------------------------------------------------------------------------------


def test_listening_requires_a_role_in_the_project(stage: Stage) -> None:
    studio = stage.studio
    assert studio.client.refused(403, "GET", stage.path)["code"] == "missing_role"
    studio.stranger.refused(404, "GET", stage.path)
    studio.nobody.refused(401, "GET", stage.path)
    studio.owner.refused(404, "GET", "/projects/prj_x/stream")
    for wrong in ("x", "-1", "1.5", "9" * 16):
        headers = {"Last-Event-ID": wrong}
        assert studio.owner.faults("GET", stage.path, headers=headers) == {"Last-Event-ID": "invalid"}
        assert studio.owner.faults("GET", stage.path, params={"last_event_id": wrong}) == {"last_event_id": "invalid"}
    assert studio.owner.faults("GET", stage.path, params={"since": "1"}) == {"since": "unknown"}
    assert stage.listen(studio.add(role="read")).status == 200


def test_revoking_a_token_ends_only_its_streams(stage: Stage) -> None:
    other = stage.studio.add(member="member")
    mine, theirs = stage.listen(), stage.listen(other)

    async def revoke(services: Services) -> None:
        async with services.database.transaction() as tx:
            actor = must(await find_actor(tx, other.token or ""))
            await revoke_tokens(tx, [actor.token_id])

    stage.studio.server.run(revoke)
    assert theirs.rest() == []
    stage.rename("After")
    assert _titles(mine.events(1)) == ["After"]


def test_a_removed_member_gets_that_event_last(stage: Stage) -> None:
    studio = stage.studio
    added = studio.add(role="write")
    name = added.login
    listener = stage.listen(added)
    studio.owner.delete(f"{studio.project}/members/{name}")
    [told] = listener.rest()
    assert (told.event, told.data["action"]) == ("member", "removed")


def test_a_deleted_project_sends_that_event_and_ends_its_streams(stage: Stage) -> None:
    listener = stage.listen()
    stage.studio.owner.delete(stage.studio.project)
    assert [each.data["action"] for each in listener.rest()] == ["deleted"]


# --- limits ----------------------------------------------------------------------------------------------------------


def test_the_number_of_streams_per_token_is_limited(stage: Stage) -> None:
    caller = stage.studio.add(member="member")
    listeners = [stage.listen(caller) for _ in range(10)]
    assert {each.status for each in listeners} == {200}
    refused = caller.call("GET", stage.path)
    assert (refused.status_code, refused.json()["code"]) == (429, "too_many_streams")
    assert refused.headers["retry-after"] == "10"
    assert stage.listen().status == 200  # another user's
    listeners[0].close()
    assert until(lambda: stage.listen(caller).status == 200)


def test_more_tokens_do_not_allow_more_streams(stage: Stage) -> None:
    """Otherwise, one member with 50 tokens could take all streams of the process from other organizations."""
    caller = stage.studio.add(member="member")
    tokens = [caller.http.post("/user/tokens", json={"scopes": ["work"]}).json()["token"] for _ in range(5)]
    callers = [Caller(stage.studio.server, token) for token in tokens]
    try:
        listeners = [stage.listen(each) for each in callers for _ in range(2)]
        assert {each.status for each in listeners} == {200}
        assert {stage.listen(each).status for each in (caller, callers[0])} == {429}
        for each in (caller, callers[0]):
            refused = each.refused(429, "GET", stage.path)
            assert refused["code"] == "too_many_streams"
            assert refused["message"].startswith("You have 10 open streams")
        assert stage.listen().status == 200  # another user's
    finally:
        for each in callers:
            each.http.close()


def test_a_closed_stream_is_released(stage: Stage) -> None:
    until(lambda: stage.open_streams() == 0)  # streams of earlier tests have closed
    assert stage.studio.owner.call("HEAD", stage.path).status_code == 200
    listener = stage.listen()
    assert until(lambda: stage.open_streams() == 1)
    listener.close()
    assert until(lambda: stage.open_streams() == 0)


# --- several processes -----------------------------------------------------------------------------------------------


def test_events_from_another_process_are_streamed(new_server: Callable[..., Server]) -> None:
    one, other = new_server(), new_server()
    world = one.world()
    path = f"/projects/{world.project_id}"
    with (
        Listener(one.url, f"{path}/stream", world.token) as here,
        Listener(other.url, f"{path}/stream", world.token) as there,
        other.client(world.token) as client,
    ):
        for number in range(20):
            assert client.patch(f"/api/v1{path}", json={"title": str(number)}).status_code == 200
        for listener in (here, there):
            assert _titles(listener.events(20)) == [str(number) for number in range(20)]


def test_a_stopping_server_ends_its_streams_at_once(new_server: Callable[..., Server]) -> None:
    server = new_server(drain_s=120)
    world = server.world()
    with Listener(server.url, f"/projects/{world.project_id}/stream", world.token) as listener:
        position = listener.opened()
        with ThreadPoolExecutor(1) as pool:
            stopped = pool.submit(server.stop)
            assert listener.rest() == []
            assert stopped.result(60) == 0
    assert "Traceback" not in server.log()
    again = new_server()
    with again.client(world.token) as client:
        client.patch(f"/api/v1/projects/{world.project_id}", json={"title": "Later"})
    with Listener(again.url, f"/projects/{world.project_id}/stream", world.token, last=position) as listener:
        assert _titles(listener.events(1)) == ["Later"]


# --- the order of commits --------------------------------------------------------------------------------------------


class Undone(Exception):
    pass


@pytest.mark.parametrize("undone", [False, True])
async def test_an_event_committed_late_is_not_skipped(stage: Stage, undone: bool) -> None:
    studio = stage.studio
    if "database_url" not in studio.server.settings:
        pytest.skip("SQLite has one writer at a time")
    listener = stage.listen()
    listener.opened()
    async with open_services(load(studio.server.settings, {})) as services:

        async def append(tx: Any, note: str) -> None:
            project = must(await find_project(tx, studio.project_id, 0))
            payload = {"project": {"title": note}}
            account_id, repository_id = project.owner.id, project.id
            outbox.add(tx, [outbox.Draft(account_id, repository_id, "push", None, payload)])
            await outbox.send(tx)
            await tx.flush()

        try:
            async with services.database.transaction() as held:
                await append(held, "Early")  # has the lower ID
                await asyncio.to_thread(stage.rename, "Late")
                fresh = asyncio.create_task(asyncio.to_thread(stage.listen_when_it_may_begin))
                assert await asyncio.to_thread(listener.nothing_for, 1.0)
                assert not fresh.done()  # new listeners wait until it is clear which events precede them
                if undone:
                    raise Undone
        except Undone:
            pass
        wanted = ["Late"] if undone else ["Early", "Late"]
        told = listener.events(len(wanted))
        assert _titles(told) == wanted
        assert [each.id for each in told] == sorted(each.id for each in told)
        again = stage.listen(last=told[0].id)
        newcomer = await fresh
    stage.rename("Then")
    for each, expected in ((listener, ["Then"]), (again, [*wanted[1:], "Then"]), (newcomer, ["Then"])):
        assert _titles(each.events(len(expected))) == expected


async def test_pending_events_of_another_project_cause_no_delay(stage: Stage) -> None:
    studio = stage.studio
    if "database_url" not in studio.server.settings:
        pytest.skip("SQLite has one writer at a time")
    other = studio.owner.post("/projects", json={"title": "Other"})["project"]
    listener = stage.listen()
    async with open_services(load(studio.server.settings, {})) as services, services.database.transaction() as held:
        repository_id: int = other["repository_id"]
        await outbox.append(held, outbox.Draft(1, repository_id, "push", None, {}))
        await asyncio.to_thread(stage.rename, "Here")
        assert _titles(await asyncio.to_thread(listener.events, 1)) == ["Here"]


def test_listeners_can_join_during_concurrent_writes(stage: Stage) -> None:
    """A listener that joins while others write gets every event after its starting point."""
    stop, opened = False, list[tuple[int, Listener]]()

    def write() -> int:
        number = 0
        while not stop:
            stage.rename(number)
            number += 1
        return number

    with ThreadPoolExecutor(2) as pool:
        writing = [pool.submit(write) for _ in range(2)]
        for _ in range(8):
            listener = stage.listen()
            opened.append((listener.opened(), listener))
        stop = True
        assert all(each.result() for each in writing)
    stage.rename("The end")
    every = stage.everything()
    for position, listener in opened:
        wanted = [each for each in every if each > position]
        assert [each.id for each in listener.events(len(wanted))] == wanted


# --- stream parts ----------------------------------------------------------------------------------------------------
# Streams within this process: slow cases and failures.


ONE = live.Listener(queries.Proof("token", 1), counted_as="user:1", account_id=1)


@pytest.fixture
async def repository_id(services: Services) -> int:
    world = await make_world(services)
    project = must(await find_project(services.database, world.project_id, 0))
    return project.id


async def _append(services: Services, repository_id: int, **payload: object) -> int:
    async with services.database.transaction() as tx:
        outbox.add(tx, [outbox.Draft(1, repository_id, "push", None, payload)])
        rows = await send_now(tx)
    event_id: int = rows[-1]["event_id"]
    return event_id


async def _next(stream: AsyncIterator[bytes]) -> bytes:
    """Return the next part, waiting if necessary."""
    async with asyncio.timeout(WAIT_S):
        return await anext(stream)


async def _next_event(stream: AsyncIterator[bytes]) -> bytes:
    """Return the next part that is not a heartbeat, of which there may be extra ones on a stalled machine."""
    while (part := await _next(stream)) == HEARTBEAT:
        pass
    return part


async def test_a_heartbeat_keeps_the_connection_alive(
    services: Services, repository_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "HEARTBEAT_S", 0.05)
    stream = await live.follow(services, repository_id, ONE, None)
    try:
        assert await _next(stream) == b"retry: 2000\nid: 0\n\n"
        assert [await _next(stream) for _ in range(2)] == [HEARTBEAT] * 2
        event_id = await _append(services, repository_id, text="line\nbreak")
        assert (await _next_event(stream)).startswith(b"id: %d\nevent: push\ndata: {" % event_id)
    finally:
        await stream.aclose()


async def test_a_lost_signal_only_causes_a_delay(
    services: Services, repository_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "POLL_S", 0.1)
    stream = await live.follow(services, repository_id, ONE, None)
    try:
        await _next(stream)
        async with open_services(services.settings) as other:
            other.database.signals.forward = None
            event_id = await _append(other, repository_id)
        assert (await _next_event(stream)).startswith(b"id: %d\n" % event_id)
    finally:
        await stream.aclose()


async def test_a_failed_poll_is_retried(
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
    before = live.FAILURES.labels("look")._value.get()
    stream = await live.follow(services, repository_id, ONE, None)
    try:
        assert (await _next(stream)).startswith(b"retry")
        assert live.FAILURES.labels("look")._value.get() == before + 3
    finally:
        await stream.aclose()


async def test_streams_per_process_are_limited_and_do_not_use_up_connections(
    services: Services, repository_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "endless_max", lambda: 2)
    protocol = BoundedProtocol.__new__(BoundedProtocol)
    protocol.limit_concurrency = 100
    opened = [await live.follow(services, repository_id, ONE._replace(account_id=each), None) for each in range(2)]
    try:
        assert protocol.limit_concurrency == 102
        with pytest.raises(Unavailable, match="Too many streams are open") as refused:
            await live.follow(services, repository_id, ONE, None)
        assert refused.value.headers["Retry-After"] == "10"
    finally:
        for each in opened:
            await each.aclose()
    assert protocol.limit_concurrency == 100
    await (await live.follow(services, repository_id, ONE, None)).aclose()


async def test_an_account_can_use_half_of_the_streams_of_a_process(
    services: Services, repository_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit applies regardless of the number of people, so other accounts always find room."""
    monkeypatch.setattr(messages, "endless_max", lambda: 4)
    opened = []

    async def follow(number: int, account_id: int) -> None:
        listener = live.Listener(queries.Proof("token", number), f"user:{number}", account_id)
        opened.append(await live.follow(services, repository_id, listener, None))

    try:
        await follow(0, 1)
        await follow(1, 1)
        with pytest.raises(TooManyRequests, match="reached their limit of open streams") as refused:
            await follow(2, 1)
        assert (refused.value.code, refused.value.headers["Retry-After"]) == ("too_many_streams", "10")
        await follow(2, 2)
        await opened.pop(0).aclose()
        await follow(3, 1)
    finally:
        for each in opened:
            await each.aclose()


async def test_a_stopping_server_ends_streams_and_refuses_new_ones(services: Services, repository_id: int) -> None:
    stream = await live.follow(services, repository_id, ONE, None)
    await _next(stream)
    services.stopping.set()
    with pytest.raises(StopAsyncIteration):
        await _next_event(stream)
    await stream.aclose()
    with pytest.raises(Unavailable, match="shutting down"):
        await live.follow(services, repository_id, ONE, None)


@pytest.mark.parametrize("good", [True, False], ids=["member removed", "token revoked"])
async def test_a_listener_that_loses_access_gets_earlier_events_first(
    services: Services, repository_id: int, monkeypatch: pytest.MonkeyPatch, good: bool
) -> None:
    """The check runs after the commit but before the poll that finds the event. A revoked token gets nothing more."""
    gone = False

    async def who(reader: Any, repository_id: int, proofs: set[queries.Proof]) -> set[queries.Proof]:
        return set() if gone else set(proofs)

    async def which(reader: Any, proofs: set[queries.Proof]) -> set[queries.Proof]:
        return set(proofs) if good else set()

    monkeypatch.setattr(live, "CHECK_S", 0.01)
    monkeypatch.setattr(live, "GATHER_S", 0.3 if good else 3600)
    monkeypatch.setattr(queries, "filter_followers", who)
    monkeypatch.setattr(queries, "filter_valid_proofs", which)
    stream = await live.follow(services, repository_id, ONE, None)
    try:
        await _next(stream)
        following = asyncio.create_task(_next_event(stream))
        await asyncio.to_thread(until, lambda: stream._is_live)
        event_id = await _append(services, repository_id)
        gone = True
        if good:
            assert (await following).startswith(b"id: %d\n" % event_id)
            following = asyncio.create_task(_next_event(stream))
        with pytest.raises(StopAsyncIteration):
            await following
    finally:
        await stream.aclose()


async def test_unread_events_are_not_buffered_beyond_the_limit(
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
