"""Real server processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar

import httpx
from sqlalchemy.sql.expression import Executable

from tests.harness import forge
from tests.harness.world import KeptServices, World, make_world, with_services
from workhook.cli.setup import FIRST_SIGN_IN
from workhook.http.calls import Services
from workhook.storage import Transaction
from workhook.storage.statements import Params

T = TypeVar("T")

START_TIMEOUT_S = 60.0

_NO_TLS = httpx.create_ssl_context(verify=False)  # servers speak plain HTTP, and contexts are slow to create


MANUAL_MOST = 200
"""Pings, tests and redeliveries of a webhook per minute."""


class Server:
    """`workhook serve` on its own port. By default, deliveries to loopback are allowed, limits are off, and receivers
    may respond slowly."""

    def __init__(
        self, data: Path, settings: dict[str, Any], *, command: Sequence[str] = ("serve", "--port", "0")
    ) -> None:
        self.data = data
        self.settings = {
            "delivery_allow_networks": "127.0.0.0/8",
            "api_rate_limit": 0,
            "hooks_per_event": 0,
            "manual_deliveries_per_minute": MANUAL_MOST,
            "delivery_timeout_s": 40,
            **settings,
            "data": str(data),
        }
        self.command = tuple(command)
        self.url = ""
        self.process: forge.Forged | None = None
        self.output: list[str] = []
        self.running = False  # whether it has reported its start

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("WORKHOOK_")}
        return {**kept, **{f"WORKHOOK_{name.upper()}": str(value) for name, value in self.settings.items()}}

    def start(self) -> Server:
        self.running = False
        self.process, output = forge.start(self.command, self.environment())
        ready = threading.Event()
        threading.Thread(target=self._read, args=(output, ready), daemon=True).start()
        assert ready.wait(START_TIMEOUT_S), "".join(self.output)
        if not self.running:
            self.process.wait(START_TIMEOUT_S)
        assert self.running, "".join(self.output)
        return self

    def _read(self, output: IO[str], ready: threading.Event) -> None:
        with output:
            for line in output:
                self.output.append(line)
                if line.startswith('{"event": "workhook: '):
                    line = json.loads(line)["event"]  # if log_format=json
                if line.startswith("workhook: listening on "):
                    self.url = line.split()[-1]
                    self.running = True
                    ready.set()
                elif line.startswith("workhook: delivering"):
                    self.running = True
                    ready.set()
        ready.set()

    def refuses(self) -> bool:
        """Return whether new connections are refused rather than left waiting."""
        host, port = self.url.removeprefix("http://").split(":")
        try:
            socket.create_connection((host, int(port)), timeout=5).close()
        except ConnectionError:
            return True
        return False

    def stop(self) -> int:
        """Send SIGTERM, and return the exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def kill(self) -> None:
        """Send SIGKILL."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(30)

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()

    def log(self) -> str:
        return "".join(self.output)

    def first_sign_in(self) -> str:
        """Return the link and token of the first start, which are not logged."""
        return (self.data / FIRST_SIGN_IN).read_text(encoding="utf-8")

    def world(self) -> World:
        """Create an organization with a repository on this server."""
        world: World = self.run(make_world)
        return world

    def run(self, work: Any) -> Any:
        """Run `work(services)` in this process on the server's database, and return its result."""
        return with_services(self.settings, work)

    def change(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        """Run `work(tx)` in this process in its own transaction, and return its result."""
        done: T = self.run(lambda services: services.database.in_transaction(work))
        return done

    def execute(self, statement: Executable, params: Params | None = None) -> None:
        """Run one statement in its own transaction in this process."""
        self.change(lambda tx: tx.execute(statement, params))

    def fetch(self, statement: Executable, params: Params | None = None) -> list[dict[str, Any]]:
        """Return the rows found by a statement."""

        async def read(services: Services) -> list[dict[str, Any]]:
            rows = await services.database.fetch_all(statement, params)
            return [{name: row[name] for name in row.keys()} for row in rows]  # noqa: SIM118  # rows offer no other way

        found: list[dict[str, Any]] = self.run(read)
        return found

    def client(self, token: str | None, **more: Any) -> httpx.Client:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(**{"base_url": self.url, "headers": headers, "timeout": 60, "verify": _NO_TLS, **more})


class SharedServer(Server):
    """A server shared by many tests. It is not restarted, so services opened on its database stay open."""

    _beside: KeptServices | None = None

    def run(self, work: Any) -> Any:
        if self._beside is None:
            self._beside = KeptServices(self.settings)
        return self._beside.run(work)

    def close(self) -> None:
        try:
            if self._beside is not None:
                self._beside.close()
        finally:
            self._beside = None
            super().close()
