"""SIGTERM and SIGHUP with `drain_delay_s`: the server keeps serving but is not ready, for the load balancer."""

from __future__ import annotations

import signal
from collections.abc import Callable

import httpx
import pytest

from tests.crash.conftest import Life
from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.harness.waiting import WAIT_S, until

SIGNALS = [signal.SIGTERM, signal.SIGHUP]
WATCHED = ("worker", "--listen", "127.0.0.1:0")


def ready(url: str) -> httpx.Response:
    return httpx.get(f"{url}/readyz", timeout=30)


@pytest.mark.parametrize("sent", SIGNALS)
def test_a_draining_server_serves_and_delivers(
    new_life: Callable[..., Life], receiver: Receiver, sent: signal.Signals
) -> None:
    life = new_life(drain_delay_s=600)
    life.site.hook(receiver)
    server = life.site.server
    assert server.process is not None
    assert ready(server.url).status_code == 200
    server.process.send_signal(sent)
    until(lambda: ready(server.url).status_code == 503)
    assert ready(server.url).json()["checks"]["stopping"] != "ok"
    life.site.publish(1)  # a new connection, a change and its delivery
    until(lambda: len(receiver.events("push")) == 1)
    server.process.send_signal(sent)  # a second signal ends the delay
    assert server.process.wait(WAIT_S) == 0


@pytest.mark.parametrize("sent", SIGNALS)
def test_a_draining_worker_is_not_ready(
    new_life: Callable[..., Life], new_server: Callable[..., Server], receiver: Receiver, sent: signal.Signals
) -> None:
    life = new_life(command=("serve", "--no-worker", "--port", "0"))
    worker = new_server(command=WATCHED, drain_delay_s=600)
    life.site.hook(receiver)
    assert worker.process is not None
    until(lambda: ready(worker.url).status_code == 200)
    worker.process.send_signal(sent)
    until(lambda: ready(worker.url).status_code == 503)
    life.site.publish(1)
    until(lambda: len(receiver.events("push")) == 1)
    worker.process.send_signal(sent)
    assert worker.process.wait(WAIT_S) == 0


def test_a_server_stops_after_the_delay(new_life: Callable[..., Life]) -> None:
    life = new_life(drain_delay_s=0.5)
    assert life.site.server.stop() == 0
    assert '"delay_s": 0.5' in life.site.server.log()


def test_sighup_without_a_delay_stops_the_server(new_life: Callable[..., Life]) -> None:
    server = new_life().site.server
    assert server.process is not None
    server.process.send_signal(signal.SIGHUP)
    assert server.process.wait(WAIT_S) == 0
    assert "Traceback" not in server.log()
