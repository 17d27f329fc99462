"""`workhook worker --listen`: health checks and metrics of a worker."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable

import pytest
import sqlalchemy as sa

from tests.api.wire import Api, Place
from tests.harness.receiver import Received, Receiver, Reply
from tests.harness.server import Server
from tests.harness.waiting import WAIT_S, until
from workhook import __version__
from workhook.core.config import SettingsError, load, split_address
from workhook.http.calls import Services
from workhook.storage.migrate import HEAD

NewServer = Callable[..., Server]

_table = sa.table("alembic_version", sa.column("version_num", sa.Text()))
_set_schema = sa.update(_table).values(version_num=sa.bindparam("wanted"))


@pytest.fixture
def pair(new_server: NewServer) -> tuple[Server, Server]:
    """Return a server that delivers nothing and a monitored worker."""
    serving = new_server(command=("serve", "--no-worker", "--port", "0"))
    worker = new_server(command=("worker", "--listen", "127.0.0.1:0"))
    until(lambda: "workhook: delivering" in worker.log())
    return serving, worker


def test_a_worker_serves_health_and_metrics(pair: tuple[Server, Server], receiver: Receiver) -> None:
    serving, worker = pair
    assert worker.url.startswith("http://127.0.0.1:")
    world = serving.world()
    with serving.client(world.token) as client:
        api = Api(client)
        hook = api.hook(Place("repository", world), config={"url": receiver.url}, active=True)
        receiver.wait_for(1)
        until(lambda: api.read(hook["deliveries_url"]))
    with worker.client(None) as client:
        assert client.get("/healthz").json() == {"status": "ok", "version": __version__}
        ready = client.get("/readyz")
        expected = dict.fromkeys(("database", "files", "disk", "schema", "delivering"), "ok")
        assert (ready.status_code, ready.json()) == (200, {"status": "ready", "checks": expected})
        counted = 'workhook_deliveries_total{outcome="success"} 1.0'
        until(lambda: counted in client.get("/metrics").text)
    with serving.client(None) as client:
        assert counted not in client.get("/metrics").text, "what a worker counts is its own"


def test_a_worker_serves_nothing_else(pair: tuple[Server, Server]) -> None:
    serving, worker = pair
    world = serving.world()
    with worker.client(world.token) as client:
        for path in (
            "/",
            "/user",
            "/api/v1/projects",
            f"/orgs/{world.organization}",
            "/docs",
            "/openapi.json",
            "/login",
        ):
            assert client.get(path).status_code == 404, path
        assert client.post("/metrics").status_code == 405
        assert client.post("/api/v1/projects", json={"title": "New"}).status_code == 404


def test_metrics_require_the_token(new_server: NewServer) -> None:
    token = "a-token-of-24-characters"  # an example, not a secret
    worker = new_server(command=("worker", "--listen", "127.0.0.1:0"), metrics_token=token)
    with worker.client(None) as client:
        assert client.get("/metrics").status_code == 401, "a local proxy is not trusted either"
        assert client.get("/metrics", headers={"Authorization": "Bearer another"}).status_code == 401
        assert client.get("/metrics", headers={"Authorization": f"Bearer {token}"}).status_code == 200


def test_without_a_token_metrics_are_limited_to_this_machine(new_server: NewServer) -> None:
    worker = new_server(command=("worker", "--listen", "127.0.0.1:0"))
    with worker.client(None) as client:
        assert client.get("/metrics").status_code == 200
        assert client.get("/metrics", headers={"X-Forwarded-For": "203.0.113.9"}).status_code == 403


def test_a_worker_of_an_older_version_is_not_ready(pair: tuple[Server, Server]) -> None:
    _, worker = pair

    async def newer(services: Services) -> None:
        async with services.database.transaction() as tx:
            await tx.execute(_set_schema, {"wanted": "9999"})

    worker.run(newer)
    with worker.client(None) as client:
        ready = until(lambda: answer if (answer := client.get("/readyz")).status_code == 503 else None)
        assert ready is not None
        assert ready.headers["retry-after"] == "2"
        assert ready.json()["checks"]["schema"] == (
            f"the database has schema 9999, but this process needs {HEAD}: restart the process"
        )
        assert client.get("/healthz").status_code == 200


def test_a_stopping_worker_serves_health_until_its_last_delivery_ends(
    pair: tuple[Server, Server], receiver: Receiver
) -> None:
    serving, worker = pair
    world = serving.world()
    answer_now = threading.Event()

    def reply(received: Received) -> Reply:
        answer_now.wait(WAIT_S)
        return Reply()

    receiver.reply = reply
    with serving.client(world.token) as client, worker.client(None) as watching:
        hook = Api(client).hook(Place("repository", world), config={"url": receiver.url}, active=True)
        receiver.wait_for(1)
        assert worker.process is not None
        worker.process.send_signal(signal.SIGTERM)
        ready = until(lambda: answer if (answer := watching.get("/readyz")).status_code == 503 else None)
        assert ready is not None
        checks = ready.json()["checks"]
        assert (checks["delivering"], checks["stopping"]) == ("it stops", "the process is about to stop")
        answer_now.set()
    assert worker.process.wait(WAIT_S) == 0
    assert "Traceback" not in worker.log()
    with serving.client(world.token) as client:
        (delivery,) = client.get(hook["deliveries_url"]).json()
    assert (delivery["event"], delivery["status"]) == ("ping", "OK")


def test_a_worker_limits_requests_like_a_server(pair: tuple[Server, Server]) -> None:
    _, worker = pair
    host, port = split_address(worker.url.removeprefix("http://"))
    with socket.create_connection((host, port), WAIT_S) as connection:
        connection.sendall(b"GET /healthz?" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 414")


def test_an_address_in_use_is_reported(new_server: NewServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(AssertionError, match=f"cannot listen on {where}.*\n.*--listen"):
            new_server(command=("worker", "--listen", where))


@pytest.mark.parametrize(
    "wrong", ["9100", "localhost", "host:port", "http://x:1", "127.0.0.1:70000", ":9100", "a@b:1", "x:"]
)
def test_an_invalid_address_is_refused(wrong: str) -> None:
    with pytest.raises(SettingsError, match=r"--listen: .* is invalid; expected HOST:PORT"):
        load({"worker_listen": wrong}, {})


@pytest.mark.parametrize(
    ("text", "expected"), [("127.0.0.1:0", ("127.0.0.1", 0)), ("[::1]:9100", ("::1", 9100)), ("box:1", ("box", 1))]
)
def test_a_valid_address_is_accepted(text: str, expected: tuple[str, int]) -> None:
    assert load({}, {"WORKHOOK_WORKER_LISTEN": text}).worker_listen == text
    assert split_address(text) == expected


def test_without_the_option_a_worker_does_not_listen(new_server: NewServer) -> None:
    worker = new_server(command=("worker",))
    assert "listening on" not in worker.log()
