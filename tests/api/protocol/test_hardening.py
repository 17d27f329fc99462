"""Attacks by strangers, by former colleagues, and by users with a token of their own."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
import sqlalchemy as sa
from sqlalchemy.sql.expression import Executable

from tests.api.wire import Api, Place, refused, unknown_event
from tests.harness import forge
from tests.harness.receiver import Received, Receiver, Reply
from tests.harness.server import Server
from tests.harness.waiting import WAIT_S, until
from tests.harness.world import World, add_user
from workhook.http.calls import Services
from workhook.identity import queries
from workhook.identity.tables import collaborators, tokens
from workhook.identity.tokens.issue import digest_of

pytestmark = pytest.mark.one_database

MIB = 1024 * 1024


@contextlib.contextmanager
def connection(server: Server) -> Iterator[socket.socket]:
    parts = urlsplit(server.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=90) as made:
        yield made


def rest(made: socket.socket) -> bytes:
    """Receive until the server closes the connection, and return everything."""
    parts = []
    with contextlib.suppress(ConnectionError):
        while part := made.recv(65536):
            parts.append(part)
    return b"".join(parts)


def memory(server: Server) -> int:
    assert server.process is not None
    return int(psutil.Process(server.process.pid).memory_info().rss)


def open_to_others(folder: Path) -> list[str]:
    """Return the files that other users can read or write."""
    return sorted(each.name for each in folder.rglob("*") if each.is_file() and each.stat().st_mode & 0o077)


# --- another user of the machine -----------------------------------------------------------------------------------


@pytest.fixture
def lax() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_files_of_a_server_are_private(tmp_path: Path, lax: None) -> None:
    server = Server(tmp_path / "data", {}).start()
    try:
        names = {each.name for each in server.data.iterdir()}
        assert {"workhook.db", "workhook.db-wal", "workhook.db-shm", "server.json", "secret.key"} <= names
        assert open_to_others(server.data) == []
        assert server.data.stat().st_mode & 0o777 == 0o700
    finally:
        server.close()


def test_files_of_a_command_are_private(tmp_path: Path, lax: None) -> None:
    data = tmp_path / "data"
    assert workhook("migrate", data).returncode == 0
    assert open_to_others(data) == []


def test_doctor_reports_files_that_others_can_read(tmp_path: Path) -> None:
    data = tmp_path / "data"
    workhook("migrate", data)
    advice = f"Others can read it: chmod 600 {data / 'workhook.db'}*"
    assert advice not in workhook("doctor", data).stdout
    (data / "workhook.db").chmod(0o644)
    ran = workhook("doctor", data)
    assert ran.returncode == 1
    assert advice in ran.stdout


def workhook(command: str, data: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WORKHOOK_")}
    return forge.run([command, "--data", str(data)], environment)


# --- a stranger ----------------------------------------------------------------------------------------------------


def test_endless_headers_use_no_memory(server: Server) -> None:
    before = memory(server)
    for line in (b"a:b\r\n", b"x"):
        with connection(server) as made, contextlib.suppress(ConnectionError):
            made.sendall(b"GET / HTTP/1.1\r\na: ")
            for _ in range(320):
                made.sendall(line * (65536 // len(line)))
            rest(made)
    assert memory(server) - before < 20 * MIB


def test_a_connection_with_an_incomplete_head_is_closed(server: Server) -> None:
    with connection(server) as silent, connection(server) as begun:
        begun.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n")
        assert rest(silent) == b""
        assert rest(begun).startswith(b"HTTP/1.1 408 Request Timeout\r\n")


def test_the_length_of_a_request_target_is_limited(server: Server) -> None:
    with server.client(None) as client:
        assert client.get("/" + "x" * 8000).status_code == 404
        response = client.get("/api/v1/" + "x" * 8192)
        assert (response.status_code, response.json()["code"]) == (414, "target_too_long")


# --- a former colleague --------------------------------------------------------------------------------------------


@contextlib.contextmanager
def begun(server: Server, token: str, path: str, body: bytes) -> Iterator[Callable[[], bytes]]:
    """Send an authorized POST without the last byte of its body, and yield a function that sends it and returns the
    response."""
    head = f"POST {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n"
    with connection(server) as made:
        made.sendall(f"{head}Expect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n".encode())
        welcome = b""
        while not welcome.endswith(b"\r\n\r\n") and (part := made.recv(1)):
            welcome += part
        assert welcome == b"HTTP/1.1 100 Continue\r\n\r\n"  # the guard has checked the request
        made.sendall(body[:-1])
        started = time.monotonic()

        def finish() -> bytes:
            until(lambda: time.monotonic() - started > 1.5)  # the guard's first result is cached for a second
            made.sendall(body[-1:])
            return rest(made)

        yield finish


PUSH = json.dumps({"event": "push", "payload": {}}).encode()


def test_a_token_revoked_during_a_request_cannot_finish_it(server: Server, world: World) -> None:
    revoke = sa.update(tokens).where(tokens.c.digest == digest_of(world.token)).values(revoked_at=1)
    with begun(server, world.token, f"{world.repo_path}/events", PUSH) as finish:
        server.run(lambda services: _write(services, revoke))
        assert finish().startswith(b"HTTP/1.1 401 ")


def test_a_collaborator_removed_during_a_request_cannot_finish_it(server: Server, world: World) -> None:
    token = server.run(lambda services: add_user(services, world, role="write"))

    async def remove(services: Services) -> None:
        repository = await queries.find_repository(services.database, world.organization, world.repository)
        assert repository is not None
        await _write(services, sa.delete(collaborators).where(collaborators.c.repository_id == repository.id))

    with begun(server, token, f"{world.repo_path}/events", PUSH) as finish:
        server.run(remove)
        assert finish().startswith(b"HTTP/1.1 404 ")


async def _write(services: Services, statement: Executable) -> None:
    async with services.database.transaction() as tx:
        assert await tx.execute(statement) == 1


def test_a_slow_body_counts_once_toward_the_rate_limit(new_server: Callable[..., Server]) -> None:
    server = new_server(api_rate_limit=100)
    world = server.world()
    with begun(server, world.token, f"{world.repo_path}/events", PUSH) as finish:
        head = finish().decode()
    assert head.startswith("HTTP/1.1 202 ")
    assert "x-ratelimit-used: 1\r\n" in head.lower()


def test_a_client_disconnect_is_not_logged_as_a_failure(server: Server, world: World) -> None:
    with begun(server, world.token, f"{world.repo_path}/events", PUSH):
        pass
    with server.client(world.token) as client:
        until(lambda: 'route="/repos/{owner}/{repo}/events",status="400"' in client.get("/metrics").text)
    assert "request_failed" not in server.log()


# --- unusual text --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["web\u017fite", "webSITE\u0307", "\uff57ebsite"])
def test_names_do_not_match_by_unicode_folding(api: Api, world: World, name: str) -> None:
    """For example, U+017F folds to s."""
    assert api.get(f"/repos/{world.organization}/WEBSITE/hooks", params={"per_page": 1}).status_code == 200
    refused(api.get(f"/repos/{world.organization}/{name}/hooks", params={"per_page": 1}), 404, "Not Found")


def test_link_headers_contain_valid_urls(api: Api, repository: Place) -> None:
    for _ in range(2):
        api.hook(repository)
    response = api.get(repository.hooks.replace("website", "w%65bsite") + "/", params={"per_page": 1, "x": "\u017f <>"})
    link = response.headers["link"]
    assert link.isascii()
    address = link.split(">")[0].removeprefix("<")
    assert api.get(address).status_code == 200


@pytest.mark.parametrize("depth", [500, 950])
def test_deeply_nested_lists_are_refused(api: Api, depth: int) -> None:
    body = b'{"title": ' + b"[" * depth + b"]" * depth + b"}"
    response = api.post("/api/v1/projects", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code in (400, 422)


def test_deeply_nested_lists_are_refused_in_webhooks(api: Api, repository: Place) -> None:
    """About 1000 levels can be parsed. Whatever can be parsed can also be shown and written."""
    bodies = (b'{"config": {"url": %s}}', b'{"events": [%s]}', b'{"name": "x", "config": {"a": %s}}')
    for depth in range(900, 1000, 7):
        deep = b"[" * depth + b"]" * depth
        for body in bodies:
            assert api.post(repository.hooks, content=body % deep).status_code in (400, 422)
        response = api.post(f"{repository.path}/events", content=b'{"event": "push", "payload": {"a": %s}}' % deep)
        assert response.status_code in (202, 400)


# --- a user with a token -------------------------------------------------------------------------------------------


def test_a_forged_host_header_does_not_affect_others(new_server: Callable[..., Server], receiver: Receiver) -> None:
    server = new_server(base_url="https://work.example.com")
    world = server.world()
    evil = {"Host": "evil.example"}
    with server.client(world.token) as client:
        config = {"url": receiver.url, "content_type": "json"}
        body = {"name": "web", "events": ["*"], "config": config}
        hook = client.post(f"{world.org_path}/hooks", json=body, headers=evil).json()
        client.post(f"{world.org_path}/hooks/{hook['id']}/pings", headers=evil)
        client.post(f"{world.repo_path}/events", content=PUSH, headers=evil)
        client.post(f"{world.repo_path}/dispatches", json={"event_type": "x"}, headers=evil)
        created = client.post("/api/v1/projects", json={"title": "New"}, headers=evil)
        assert created.status_code == 200
    sent = receiver.wait_for(5)
    assert {each.headers["x-service-event"] for each in sent} == {"ping", "push", "repository_dispatch", "project"}
    for each in sent:
        assert b"evil.example" not in each.body
        assert each.payload()["organization"]["url"] == f"https://work.example.com{world.org_path}"


MANY = 190_000  # of the 200,000 values that a body may contain


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("{place}/hooks", {"config": {}, "events": [1] * MANY}),
        ("{place}/hooks", {"config": {}, "events": [str(number) for number in range(100_000)]}),
        ("{place}/hooks", {"config": {str(number): 1 for number in range(80_000)}}),
        ("{place}/hooks", {"config": {"x" * 900_000: 1}}),
        ("{place}/hooks", {"config": {}, "events": ["x" * 900_000]}),
        ("{place}/hooks", {"config": {}, "name": ["x" * 900_000]}),
        ("{place}/events", {"event": "x" * 900_000, "payload": {}}),
        ("{place}/hooks/{hook}/deliveries/redeliver", {str(number): 1 for number in range(80_000)}),
        ("{place}/hooks/{hook}/deliveries/redeliver", {"x" * 900_000: 1}),
        ("{place}/hooks/{hook}/deliveries/redeliver", {"ids": ["x"] * MANY}),
        ("/api/v1/projects", {str(number): 1 for number in range(80_000)}),
        ("/api/v1/projects", {"x" * 900_000: 1}),
    ],
    ids=lambda value: str(value)[:40],
)
def test_an_error_response_is_limited_in_size(api: Api, repository: Place, path: str, body: dict[str, Any]) -> None:
    hook = api.hook(repository)
    address = path.format(place=repository.path, hook=hook["id"])
    response = api.post(address, content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert response.status_code == 422
    assert len(response.content) < 30_000
    assert len(response.json().get("errors", [])) <= 100


def test_short_errors_are_not_truncated(api: Api, repository: Place) -> None:
    response = api.create(repository, events=[f"e{number}" for number in range(100)])
    assert [each["message"] for each in response.json()["errors"]] == [
        unknown_event(f"e{number}") for number in range(100)
    ]


@pytest.mark.parametrize(("event", "status"), [("task", 403), ("hook", 403), ("push", 202), ("member", 202)])
def test_only_admins_publish_workhooks_own_events(server: Server, world: World, event: str, status: int) -> None:
    body = {"event": event, "payload": {}}
    writer = server.run(lambda services: add_user(services, world, role="write"))
    with server.client(writer) as client:
        assert client.post(f"{world.repo_path}/events", json=body).status_code == status
    with server.client(world.token) as client:
        assert client.post(f"{world.repo_path}/events", json=body).status_code == 202


@pytest.mark.parametrize("event", ["project", "member", "ping", "push"])
def test_code_hosting_events_can_be_published(api: Api, place: Place, event: str) -> None:
    assert api.post(f"{place.path}/events", json={"event": event, "payload": {}}).status_code == 202


# --- excessive redelivery ------------------------------------------------------------------------------------------


@pytest.fixture
def failed(api: Api, repository: Place, receiver: Receiver) -> dict[str, Any]:
    """Return a webhook with a ping and four pushes that failed."""
    receiver.reply = lambda received: Reply(500)
    config = {"url": receiver.url, "retries": "0", "max_concurrency": "1"}
    hook = api.hook(repository, config=config, events=["*"], active=True)
    for number in range(4):
        api.post(f"{repository.path}/events", json={"event": "push", "payload": {"number": number}})
    until(lambda: len(api.read(hook["deliveries_url"])) == 5)
    return hook


def test_repeated_redelivery_requests_send_once(api: Api, failed: dict[str, Any], receiver: Receiver) -> None:
    before, held = len(receiver.requests), threading.Event()

    def hold(received: Received) -> Reply:
        held.wait(WAIT_S)
        return Reply()

    receiver.reply = hold
    address = f"{failed['deliveries_url']}/redeliver"
    counts = [api.post(address, json={"event": "push"}).json()["queued"] for _ in range(20)]
    assert counts[0] == 4
    assert sum(counts) == 4
    held.set()
    until(lambda: len(api.read(failed["deliveries_url"])) >= 9)
    api.post(failed["ping_url"])  # additional redeliveries would be sent before this ping
    until(lambda: receiver.events("ping")[1:])
    assert len(receiver.requests) - before == 5
