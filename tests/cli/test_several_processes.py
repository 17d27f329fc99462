"""`workhook serve --workers N`: one port, and nothing is lost when one of the processes ends."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
import pytest

from tests.cli.cli_kit import Cli
from tests.harness.receiver import Received, Receiver, Reply
from tests.harness.server import Server
from tests.harness.waiting import until
from workhook.supervisor import merged

WORKERS = 2
SERVE = ("serve", "--port", "0", "--workers", str(WORKERS))
PUSH = {"event": "push", "payload": {}}
on_postgresql = pytest.mark.parametrize("backend", ["postgresql"], indirect=True)


def processes_of(server: Server) -> list[psutil.Process]:
    assert server.process is not None
    found: list[psutil.Process] = psutil.Process(server.process.pid).children()
    return found


def answering(client: httpx.Client) -> set[str]:
    """Return the numbers of the processes that answered with metrics."""
    answer = client.get("/metrics")
    assert answer.status_code == 200, answer.text
    return set(re.findall(r'workhook_build_info\{process="(\d)"', answer.text))


@on_postgresql
@pytest.mark.timeout(180)
def test_a_killed_process_is_restarted_and_nothing_is_lost(
    new_server: Callable[..., Server], receiver: Receiver
) -> None:
    server = new_server(command=SERVE)
    world = server.world()
    before = processes_of(server)
    assert len(before) == WORKERS
    with server.client(world.token) as client:
        config = {"url": receiver.url, "content_type": "json"}
        made = client.post(f"{world.repo_path}/hooks", json={"config": config, "events": ["push"]})
        assert made.status_code == 201, made.text
        assert answering(client) == {"1", "2"}
        acknowledged = 0
        for number in range(60):
            if number == 20:
                before[0].kill()
            try:
                acknowledged += client.post(f"{world.repo_path}/events", json=PUSH).status_code == 202
            except httpx.TransportError:
                continue  # the killed process had this connection, so nothing was acknowledged
        assert acknowledged >= 59
        until(lambda: len(receiver.events("push")) >= acknowledged)
        until(lambda: answering(client) == {"1", "2"})
    after = processes_of(server)
    assert len(after) == WORKERS
    assert before[0] not in after
    assert server.stop() == 0
    gone, alive = psutil.wait_procs(after, timeout=30)
    assert (len(gone), alive) == (WORKERS, [])
    assert "Traceback" not in server.log()


@on_postgresql
def test_the_processes_end_with_their_parent(new_server: Callable[..., Server]) -> None:
    server = new_server(command=SERVE)
    processes = processes_of(server)
    server.kill()
    _, alive = psutil.wait_procs(processes, timeout=30)
    assert alive == []


@on_postgresql
def test_ctrl_c_ends_all_processes(new_server: Callable[..., Server]) -> None:
    server = new_server(command=SERVE)
    processes = processes_of(server)
    assert server.process is not None
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(60) == 0
    assert psutil.wait_procs(processes, timeout=30)[1] == []
    assert not (server.data / "server.json").exists()


@on_postgresql
def test_the_port_is_closed_during_shutdown(new_server: Callable[..., Server], receiver: Receiver) -> None:
    """A proxy can then switch to another server immediately."""
    answer_now = threading.Event()

    def hold(received: Received) -> Reply:
        answer_now.wait(60)
        return Reply()

    receiver.reply = hold
    server = new_server(command=SERVE)
    world = server.world()
    with server.client(world.token) as client:
        config = {"url": receiver.url, "content_type": "json"}
        assert client.post(f"{world.repo_path}/hooks", json={"config": config, "events": ["push"]}).status_code == 201
    receiver.wait_for(1)  # the ping, held by the receiver
    assert server.process is not None
    server.process.send_signal(signal.SIGTERM)
    try:
        until(server.refuses)
        assert server.process.poll() is None
    finally:
        answer_now.set()
    assert server.process.wait(60) == 0


@on_postgresql
def test_a_process_that_is_still_starting_is_stopped_too(new_server: Callable[..., Server]) -> None:
    server = new_server(command=SERVE)
    first = processes_of(server)[0]
    first.kill()
    until(lambda: len(processes_of(server)) == WORKERS and first not in processes_of(server))
    assert server.stop() == 0
    assert "process_killed" not in server.log()


@on_postgresql
@pytest.mark.whole
def test_a_hanging_process_is_missing_from_the_metrics(new_server: Callable[..., Server]) -> None:
    """Concurrent requests wait for the hanging process once, together."""
    server = new_server(command=SERVE)
    hanging = processes_of(server)[0]
    with server.client(None) as client:
        until(lambda: answering(client) == {"1", "2"})
    hanging.suspend()
    try:  # over new connections, which the hanging process does not accept
        with server.client(None) as client, ThreadPoolExecutor(6) as pool:
            told = list(pool.map(lambda _: answering(client), range(6)))
    finally:
        hanging.resume()
    assert [len(each) for each in told] == [1] * 6
    with server.client(None) as client:
        until(lambda: answering(client) == {"1", "2"})
    assert server.stop() == 0


def test_several_workers_need_postgresql(tmp_path: Path) -> None:
    said = Cli(tmp_path, {}).refused(*SERVE, status=2)
    assert "--workers needs PostgreSQL" in said
    assert "WORKHOOK_DATABASE_URL" in said
    assert list(tmp_path.iterdir()) == []


def test_metrics_of_several_processes_are_merged() -> None:
    text = (
        b'# HELP a_total How many.\n# TYPE a_total counter\na_total{kind="x"} 1.0\n# HELP b B.\n# TYPE b gauge\nb 2.0\n'
    )
    assert merged({1: text, 2: text}).decode().splitlines() == [
        "# HELP a_total How many.",
        "# TYPE a_total counter",
        'a_total{kind="x",process="1"} 1.0',
        'a_total{kind="x",process="2"} 1.0',
        "# HELP b B.",
        "# TYPE b gauge",
        'b{process="1"} 2.0',
        'b{process="2"} 2.0',
    ]
