"""Hosts with different clocks: only the database's clock counts, so nothing is sent twice or delayed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.delivery.site import Site
from tests.harness.databases import Databases, databases
from tests.harness.receiver import Received, Receiver, Reply
from tests.harness.server import Server
from tests.harness.skew import SkewedServer, skewed
from tests.harness.waiting import until
from workhook.hooks.tables import workers
from workhook.http.calls import Services

OFF_S = 3600  # much longer than a lease


@pytest.fixture
def backend(_shared_folder: Path) -> Databases:
    """Return PostgreSQL only: processes that share an SQLite file are on one host, which has one clock."""
    return databases("postgresql", _shared_folder)


@pytest.fixture
def site(new_server: Callable[..., Server]) -> Iterator[Site]:
    site = Site(new_server(delivery_lease_s=120))
    yield site
    site.close()


@pytest.fixture
def start_skewed_worker(site: Site, tmp_path: Path) -> Iterator[Callable[[int], Server]]:
    """Return a function that starts a worker on a host whose clock is off by `seconds`."""
    made: list[Server] = []

    def start(seconds: int) -> Server:
        worker = SkewedServer(tmp_path, site.server.settings, command=("worker",))
        worker.seconds = seconds
        made.append(worker)
        return worker.start()

    yield start
    for each in made:
        each.close()


def live_workers(site: Site) -> int:
    async def read(services: Services) -> int:
        return len(await services.database.fetch_all(sa.select(workers.c.owner)))

    found: int = site.server.run(read)
    return found


@pytest.mark.variants("seconds")
@pytest.mark.parametrize("seconds", [OFF_S, -OFF_S])
def test_workers_with_different_clocks_send_nothing_twice(
    site: Site, start_skewed_worker: Callable[[int], Server], receiver: Receiver, seconds: int
) -> None:
    answer_now = threading.Event()

    def hold(received: Received) -> Reply:
        if "held" in received.path and received.event == "push":
            answer_now.wait(60)
        return Reply()

    receiver.reply = hold
    held = [site.hook(f"{receiver.url}?held={number}", events=["push"]) for number in range(4)]
    site.publish(1)
    receiver.wait_for(lambda requests: sum(each.event == "push" for each in requests) == 4)
    worker = start_skewed_worker(seconds)
    until(lambda: live_workers(site) == 2)
    # Once both have delivered these events, the new worker has seen everything.
    others = [site.hook(f"{receiver.url}?free={number}", events=["fork"]) for number in range(6)]
    for number in range(20):
        site.publish(number, event="fork")
    for hook in others:
        hook.attempts("fork", 20)
    answer_now.set()
    for hook in held:
        hook.attempts("push", 1)
    assert set(Counter(each.guid for each in receiver.requests).values()) == {1}
    assert "host_clock_off" in worker.log()


@pytest.mark.whole
def test_a_dispatch_from_a_host_with_a_wrong_clock_is_due_immediately(
    site: Site, start_skewed_worker: Callable[[int], Server], receiver: Receiver, tmp_path: Path
) -> None:
    site.hook(receiver, events=["push"])
    early = SkewedServer(tmp_path, site.server.settings, command=("serve", "--no-worker", "--port", "0"))
    early.seconds = OFF_S
    try:
        there = site.at(early.start())
        there.publish(7)
        receiver.wait_for(2)  # by its own clock it would be due in an hour
        told = re.search(r"^workhook_clock_ahead_seconds (\S+)", there.client.get("/metrics").text, re.M)
        assert told is not None
        assert OFF_S - 60 < float(told[1]) < OFF_S + 60
    finally:
        early.close()


@pytest.mark.whole
def test_the_doctor_reports_a_wrong_clock(site: Site) -> None:
    command = [sys.executable, "-m", "workhook", "doctor", "--json"]
    for seconds, way in ((OFF_S, "ahead of"), (-OFF_S, "behind")):
        done = subprocess.run(
            command, env=skewed(site.server.environment(), seconds), capture_output=True, text=True, check=False
        )
        bad = {each["name"]: each for each in json.loads(done.stdout)["checks"] if not each["ok"]}
        assert way in bad["clock"]["detail"], done.stdout
        assert "NTP" in bad["clock"]["advice"]
