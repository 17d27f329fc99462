"""Hosts whose clocks disagree: the database's clock counts, so nothing is sent twice and nothing waits."""

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

OFF_S = 3600  # by far more than a lease


@pytest.fixture
def backend(_shared_folder: Path) -> Databases:
    """Processes that share a file are on one host, which has one clock."""
    return databases("postgresql", _shared_folder)


@pytest.fixture
def site(new_server: Callable[..., Server]) -> Iterator[Site]:
    site = Site(new_server(delivery_lease_s=120))
    yield site
    site.close()


@pytest.fixture
def beside(site: Site, tmp_path: Path) -> Iterator[Callable[[int], Server]]:
    """Starts a worker on a host whose clock is off."""
    made: list[Server] = []

    def start(seconds: int) -> Server:
        worker = SkewedServer(tmp_path, site.server.settings, command=("worker",))
        worker.seconds = seconds
        made.append(worker)
        return worker.start()

    yield start
    for each in made:
        each.close()


def alive(site: Site) -> int:
    async def read(services: Services) -> int:
        return len(await services.database.fetch_all(sa.select(workers.c.owner)))

    found: int = site.server.run(read)
    return found


@pytest.mark.variants("seconds")
@pytest.mark.parametrize("seconds", [OFF_S, -OFF_S])
def test_nothing_is_sent_twice(site: Site, beside: Callable[[int], Server], receiver: Receiver, seconds: int) -> None:
    answer_now = threading.Event()

    def hold(received: Received) -> Reply:
        if "held" in received.path and received.event == "push":
            answer_now.wait(60)
        return Reply()

    receiver.reply = hold
    held = [site.hook(f"{receiver.url}?held={number}", events=["push"]) for number in range(4)]
    site.publish(1)
    receiver.wait_for(lambda requests: sum(each.event == "push" for each in requests) == 4)
    worker = beside(seconds)
    until(lambda: alive(site) == 2)
    # When the two have shared this work, the newcomer has looked at all there is.
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
def test_what_a_host_with_another_clock_writes_is_due_at_once(
    site: Site, beside: Callable[[int], Server], receiver: Receiver, tmp_path: Path
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
def test_the_doctor_says_so(site: Site) -> None:
    command = [sys.executable, "-m", "workhook", "doctor", "--json"]
    for seconds, way in ((OFF_S, "ahead of"), (-OFF_S, "behind")):
        done = subprocess.run(
            command, env=skewed(site.server.environment(), seconds), capture_output=True, text=True, check=False
        )
        bad = {each["name"]: each for each in json.loads(done.stdout)["checks"] if not each["ok"]}
        assert way in bad["clock"]["detail"], done.stdout
        assert "NTP" in bad["clock"]["advice"]
