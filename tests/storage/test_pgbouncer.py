"""A real PgBouncer, which runs each transaction on one of a few connections, and the connections of a process."""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from tests.cli.cli_kit import Cli
from tests.harness import debian
from tests.harness.databases import Databases
from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.harness.waiting import finish, until
from workhook.core.config import Settings

pytestmark = pytest.mark.parametrize("backend", ["postgresql"], indirect=True)

POOL = 3
PUBLISHERS, EVENTS = 24, 240
_OBSERVER = "observer"
_USED = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
    f" AND application_name <> '{_OBSERVER}'"
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def ask(url: str, query: str) -> Any:
    async def fetch() -> Any:
        connection = await asyncpg.connect(url, server_settings={"application_name": _OBSERVER})
        try:
            return await connection.fetchval(query)
        finally:
            await connection.close()

    return finish(fetch)


class Bouncer:
    """A PgBouncer in transaction mode in front of the server at a URL."""

    def __init__(self, url: str) -> None:
        # Not below pytest's folder: PgBouncer refuses to run as root and reads its file as another user.
        self._folder = tempfile.TemporaryDirectory(prefix="workhook-pgbouncer-")
        folder = Path(self._folder.name)
        folder.chmod(0o755)
        program = debian.program("pgbouncer", "pgbouncer")
        self.port = free_port()
        sockets = parse_qs(urlsplit(url).query)["host"][0]
        config = folder / "pgbouncer.ini"
        config.write_text(
            f"[databases]\n* = host={sockets} user=postgres\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            f"auth_type = any\npool_mode = transaction\ndefault_pool_size = {POOL}\nmax_client_conn = 200\n"
        )
        config.chmod(0o644)
        # The owner of the server's sockets may access them.
        owner = pwd.getpwuid(Path(sockets).stat().st_uid).pw_name if os.getuid() == 0 else None
        log = (folder / "pgbouncer.log").open("w")
        with log:
            self._process = subprocess.Popen(
                [program.path, str(config)],
                env={**os.environ, **program.environment},
                stdout=log,
                stderr=log,
                user=owner,
            )
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}{urlsplit(url).path}"
        until(lambda: self._listens(folder))

    def _listens(self, folder: Path) -> bool:
        assert self._process.poll() is None, (folder / "pgbouncer.log").read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(30)
        self._folder.cleanup()


@pytest.fixture
def url(backend: Databases, tmp_path: Path) -> str:
    """Return the URL of the server itself."""
    return backend.new(tmp_path)["database_url"]


@pytest.fixture
def bouncer(url: str) -> Iterator[Bouncer]:
    made = Bouncer(url)
    yield made
    made.close()


def publish(server: Server, receiver: Receiver, url: str) -> int:
    """Publish concurrently until everything is delivered. Return the highest number of connections seen."""
    world = server.world()
    with server.client(world.token) as client:
        config = {"url": receiver.url, "content_type": "json"}
        made = client.post(f"{world.repo_path}/hooks", json={"config": config, "events": ["push"]})
        assert made.status_code == 201, made.text
        receiver.wait_for(1)

        def one(number: int) -> int:
            body = {"event": "push", "payload": {"number": number}}
            client.post(f"{world.repo_path}/events", json=body).raise_for_status()
            client.post("/api/v1/projects", json={"title": "P", "organization": world.organization}).raise_for_status()
            return int(ask(url, _USED)) if number % 20 == 0 else 0

        with ThreadPoolExecutor(PUBLISHERS) as threads:
            seen = max(threads.map(one, range(EVENTS)))
    receiver.wait_for(EVENTS + 1)
    got = [each.payload()["number"] for each in receiver.requests if each.event == "push"]
    assert sorted(got) == list(range(EVENTS))
    return seen


@pytest.mark.whole
def test_server_and_worker_run_behind_pgbouncer(url: str, bouncer: Bouncer, receiver: Receiver, tmp_path: Path) -> None:
    """A server and a worker use the few pooled connections and one listening connection each."""
    settings = {"database_url": bouncer.url, "database_session_url": url}
    server = Server(tmp_path, settings, command=("serve", "--port", "0", "--no-worker")).start()
    worker = Server(tmp_path, settings, command=("worker",)).start()
    try:
        used = publish(server, receiver, url)
        assert 2 < used <= POOL + 2
        log = server.log() + worker.log()
        assert "prepared statement" not in log
        assert "trouble" not in log
    finally:
        server.stop()
        worker.stop()


@pytest.mark.whole
def test_migrations_use_the_session_url(backend: Databases, tmp_path: Path) -> None:
    """Migrate an empty database through the pooler."""
    url = backend.empty(tmp_path)["database_url"]
    bouncer = Bouncer(url)
    try:
        Server(tmp_path, {"database_url": bouncer.url, "database_session_url": url}).start().stop()
    finally:
        bouncer.close()
    assert ask(url, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0


def test_commands_run_behind_pgbouncer(url: str, bouncer: Bouncer, tmp_path: Path) -> None:
    """Commands share the pooled connections with each other, so none may name a statement."""
    cli = Cli(tmp_path / "data", {"database_url": bouncer.url, "database_session_url": url})
    cli.setup()
    for day in ("monday", "tuesday"):
        cli.json("backup", str(tmp_path / day))


@pytest.mark.whole
def test_a_process_opens_at_most_its_number_of_connections(url: str, receiver: Receiver, tmp_path: Path) -> None:
    """Without a pooler and with the default settings."""
    server = Server(tmp_path, {"database_url": url}).start()
    try:
        used = publish(server, receiver, url)
    finally:
        server.stop()
    assert Settings.database_connections == 6
    assert 2 < used <= Settings.database_connections
