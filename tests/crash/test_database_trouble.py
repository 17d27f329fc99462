"""A database that is locked, full or down: writes get 503, and nothing acknowledged is lost."""

from __future__ import annotations

import resource
import shutil
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa

from tests.delivery.site import Hook, Site, numbers
from tests.harness.databases import PostgresDatabases, databases, new_folder
from tests.harness.disks import disk_of
from tests.harness.receiver import Received, Receiver, Reply
from tests.harness.server import Server
from tests.harness.waiting import WAIT_S, until
from workhook.http.calls import Services
from workhook.identity.tables import audit_log

pytestmark = pytest.mark.variants("troubled")

Trouble = Callable[[], AbstractContextManager[None]]


class OwnPostgres(PostgresDatabases):
    """A PostgreSQL cluster for a single test, which may stop it."""

    durable = True

    def __init__(self) -> None:
        self._above = new_folder("own")
        super().__init__(self._above)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the cluster as a power failure would."""
        self.control("-m", "immediate", "stop")
        try:
            yield
        finally:
            self.control("-l", str(self.folder / "log"), "restart")  # with its original options

    def close(self) -> None:
        super().close()
        shutil.rmtree(self._above, ignore_errors=True)


@contextmanager
def locked(server: Server) -> Iterator[None]:
    """Hold a write lock, as a process does that never finishes."""
    connection = sqlite3.connect(server.data / "workhook.db", isolation_level=None, timeout=WAIT_S)
    try:
        connection.execute("BEGIN EXCLUSIVE")
        yield
        connection.execute("ROLLBACK")
    finally:
        connection.close()


@contextmanager
def no_file_may_grow(server: Server) -> Iterator[None]:
    """Make writes fail as on a full disk, except for the error number (EFBIG)."""
    assert server.process is not None
    soft, hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (1, hard))
    try:
        yield
    finally:
        with suppress(ProcessLookupError):  # it has been stopped
            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def disk_full(server: Server) -> Iterator[None]:
    filler = server.data / "filler"
    try:
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(b"\0" * 4096)
        yield
    finally:
        filler.unlink()


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """Yield a disk that is large enough while it is empty: readiness requires 100 MiB."""
    with disk_of(128) as folder:
        yield folder


@pytest.fixture(params=["locked", "file size", "disk", "stopped"])
def troubled(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Site, Trouble]]:
    """Yield a site and a context manager that gets its database into trouble."""
    if request.param == "stopped":
        cluster = OwnPostgres()
        server = Server(tmp_path, {**cluster.new(tmp_path), "delivery_retry_first_s": 0.05, "drain_s": 600})
        trouble: Trouble = cluster.stopped
        end: Callable[[], None] = cluster.close
    else:
        data = request.getfixturevalue("small_disk") if request.param == "disk" else tmp_path
        databases("sqlite", request.getfixturevalue("_shared_folder")).new(data)
        server = Server(data, {"delivery_retry_first_s": 0.05, "drain_s": 600})
        trouble = {
            "locked": lambda: locked(server),
            "file size": lambda: no_file_may_grow(server),
            "disk": lambda: disk_full(server),
        }[request.param]
        end = lambda: None  # noqa: E731
    try:
        site = Site(server.start())
        yield site, trouble
        site.close()
    finally:
        server.close()
        end()


def refused(answer: httpx.Response) -> bool:
    """Return whether the answer is a 503 with `Retry-After`. Raise for any other failure."""
    if answer.status_code == 503:
        assert int(answer.headers["Retry-After"]) >= 1
        return True
    assert answer.is_success, (answer.status_code, answer.text)
    return False


def publish(site: Site, number: int) -> httpx.Response:
    body = {"event": "push", "payload": {"number": number}}
    return site.client.post(f"{site.world.repo_path}/events", json=body, timeout=60)


def create_project(site: Site, title: str) -> httpx.Response:
    return site.client.post("/api/v1/projects", json={"title": title}, timeout=60)


def test_writes_are_refused_in_the_format_of_their_api(troubled: tuple[Site, Trouble], receiver: Receiver) -> None:
    site, trouble = troubled
    site.hook(receiver)
    with trouble():
        until(lambda: refused(publish(site, 1)))
        b, a = publish(site, 2), create_project(site, "Refused")
        ready = site.client.get("/readyz", timeout=60)
        alive = site.client.get("/healthz", timeout=60)
    assert refused(b)
    assert set(b.json()) >= {"message", "documentation_url", "status"}
    assert b.json()["status"] == "503"
    assert refused(a)
    assert (a.json()["success"], a.json()["code"]) == (False, "database_unavailable")
    assert a.json()["message"]
    assert ready.status_code == 503
    assert ready.json()["checks"]["database"] != "ok"
    assert "Retry-After" in ready.headers
    assert alive.status_code == 200
    assert "Traceback" not in b.text + a.text + ready.text
    until(lambda: site.client.get("/readyz").status_code == 200)
    until(lambda: not refused(publish(site, 3)))
    assert create_project(site, "Accepted").is_success
    receiver.wait_for(lambda requests: any(each.event == "push" for each in requests))


def test_nothing_acknowledged_is_lost(troubled: tuple[Site, Trouble], receiver: Receiver) -> None:
    """Clients publish before, during and after the trouble."""
    site, trouble = troubled
    hook = site.hook(receiver)
    acknowledged: set[int] = set()
    refusals: Counter[int] = Counter()
    lock = threading.Lock()

    def one(number: int) -> None:
        answer = publish(site, number)
        with lock:
            if refused(answer):
                refusals[number] += 1
            else:
                acknowledged.add(number)

    with ThreadPoolExecutor(4) as clients:
        before = [clients.submit(one, number) for number in range(16)]
        until(lambda: len(acknowledged) > 5)
        with trouble():
            during = [clients.submit(one, number) for number in range(100, 104)]
            for each in (*before, *during):
                each.result()
        until(lambda: not refused(publish(site, 999)))
        for each in [clients.submit(one, number) for number in range(200, 220)]:
            each.result()
    assert refusals, "there was no trouble"
    assert set(range(200, 220)) <= acknowledged
    receiver.wait_for(lambda _: acknowledged <= set(numbers(receiver)))
    recorded = hook.attempts("push", len(acknowledged))
    assert len({each["guid"] for each in recorded}) == len(recorded)  # each is recorded once
    assert Counter(numbers(receiver)).most_common(1)[0][1] == 1
    assert site.server.process is not None
    assert site.server.process.poll() is None


def test_attempts_that_end_during_the_trouble_are_recorded_afterwards(
    troubled: tuple[Site, Trouble], receiver: Receiver
) -> None:
    site, trouble = troubled
    going_on = threading.Event()

    def hold(received: Received) -> Reply:
        if received.event == "push":
            going_on.wait(60)
        return Reply()

    receiver.reply = hold
    hook: Hook = site.hook(receiver, max_concurrency=2)
    for number in range(5):
        site.publish(number)
    until(lambda: len(receiver.events("push")) == 2)
    with trouble():
        until(lambda: refused(publish(site, 99)))
        going_on.set()
        until(lambda: "outcome_write_delayed" in site.server.log())
    assert len(hook.attempts("push", 5)) >= 5
    assert sorted(number for number in numbers(receiver) if number < 99) == list(range(5))


def guess(site: Site) -> None:
    bad = httpx.get(f"{site.server.url}/user", headers={"Authorization": "Bearer guessed"}, timeout=60)
    assert bad.status_code == 401


def test_refused_attempts_are_in_the_audit_log_afterwards(troubled: tuple[Site, Trouble], receiver: Receiver) -> None:
    site, trouble = troubled
    site.hook(receiver)
    with trouble():
        until(lambda: refused(publish(site, 1)))
        for _ in range(3):
            guess(site)
        until(lambda: "refusal_audit_delayed" in site.server.log())
        guess(site)  # added to the waiting refusals

    async def times(services: Services) -> int:
        rows = await services.database.fetch_all(sa.select(audit_log.c.times).where(audit_log.c.status == 401))
        return sum(row["times"] for row in rows)

    until(lambda: site.server.run(times) == 4)
    metrics = httpx.get(f"{site.server.url}/metrics").text
    assert "workhook_audit_refusals_dropped_total 0.0" in metrics


@pytest.mark.whole
def test_the_server_stops_in_time_while_the_database_is_unavailable(
    troubled: tuple[Site, Trouble], receiver: Receiver
) -> None:
    site, trouble = troubled
    site.hook(receiver)
    with trouble():
        until(lambda: refused(publish(site, 1)))
        assert site.server.stop() == 0, "long before the time is over that it has for deliveries"
    site.server.start()
    again = site.at(site.server)
    again.publish(2)
    until(lambda: 2 in numbers(receiver))
