"""The only place that chooses the database and the queue, and that starts and stops a process."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import resource
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import structlog
import uvicorn
from litestar import Litestar

from workhook.core import json, log
from workhook.core.clock import now_ms
from workhook.core.config import Settings
from workhook.core.vault import open_vault
from workhook.delivery.guard import AddressPolicy, check_url
from workhook.delivery.retention import Retention
from workhook.delivery.send import Sender, SendSettings
from workhook.delivery.worker import Worker
from workhook.events import outbox
from workhook.hooks import operations as hook_operations
from workhook.hooks.fan_out import fan_out
from workhook.http import openapi, routing, system
from workhook.http.calls import Services
from workhook.http.operations import Operation
from workhook.identity import api as identity_api
from workhook.identity import policy as identity_policy
from workhook.identity.guard import Guard
from workhook.identity.rate import RateLimiter
from workhook.storage import Database
from workhook.storage.migrate import migrate
from workhook.work.projects import api as projects_api

SERVER_FILE = "server.json"
OPEN_FILES = 65_536

logger = structlog.get_logger(__name__)
Welcome = Callable[[Services, str], Awaitable[None]]


@asynccontextmanager
async def open_services(settings: Settings, *, serving: bool = False) -> AsyncIterator[Services]:
    """Migrate and open the database. `serving`: listen for what other processes do.

    Raises `core.errors.Unavailable` if the database cannot be reached, `storage.migrate.NewerSchema` if it is newer.
    """
    outbox.subscribe(fan_out)
    database = await _open_database(settings, serving=serving)
    policy = AddressPolicy(settings.delivery_allow_networks)
    try:
        yield Services(
            settings=settings,
            database=database,
            vault=open_vault(settings.data, settings.secret_key),
            check_url=lambda url: check_url(url, policy),
        )
    finally:
        await database.close()


async def _open_database(settings: Settings, *, serving: bool) -> Database:
    path = settings.sqlite_path
    if path is not None:
        from workhook.storage.sqlite import SqliteDatabase

        path.parent.mkdir(parents=True, exist_ok=True)
        await migrate(path, None)
        return await SqliteDatabase.open(path, watch=serving)
    from workhook.storage.postgres import PostgresDatabase

    assert settings.database_url is not None, "sqlite_path is None only for another database"
    await migrate(None, settings.database_url)
    return await PostgresDatabase.open(settings.database_url, listen=serving)


def operations(services: Callable[[], Services], checks: Callable[[], dict[str, str]]) -> tuple[Operation, ...]:
    """Every route of the server."""
    areas: Sequence[Operation] = (
        *identity_api.OPERATIONS,
        *hook_operations.OPERATIONS,
        *projects_api.OPERATIONS,
        *system.operations(system.Probe(lambda: services().database), checks),
    )
    return (*areas, *openapi.operations(areas, identity_policy.access_of))


def build_app(services: Services, checks: Callable[[], dict[str, str]] = dict) -> Litestar:
    guard = Guard(RateLimiter(services.settings.api_rate_limit))
    return routing.build(operations(lambda: services, checks), lambda: services, guard)


class Delivery:
    """The worker of a process with what it needs: the sender before it, the pruning beside it."""

    def __init__(self, services: Services) -> None:
        settings = services.settings
        self._sender = Sender(
            AddressPolicy(settings.delivery_allow_networks),
            SendSettings(timeout_s=settings.delivery_timeout_s, proxy=settings.delivery_proxy),
        )
        self._worker = Worker(services, self._sender)
        self._retention = Retention(services.database, settings.retention_days)

    async def start(self) -> None:
        await self._worker.start()
        self._retention.start()

    async def stop(self, drain_s: float) -> None:
        await self._retention.stop()
        try:
            await self._worker.stop(drain_s)
        finally:
            await self._sender.close()


class _Server(uvicorn.Server):
    """Says when it is ready; leaves the signals to us, since after the requests the deliveries have to end."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], Awaitable[None]]) -> None:
        super().__init__(config)
        self._ready = ready

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.should_exit:
            await self._ready()


async def serve(settings: Settings, *, work: bool = True, welcome: Welcome | None = None) -> int:
    """API and, with `work`, deliveries, until SIGTERM or SIGINT. Answers the exit status.

    `welcome` is called with the services and the address before the ready line, on every start.
    """
    _prepare_process(settings)
    async with open_services(settings, serving=True) as services:
        delivery = Delivery(services) if work else None
        app = build_app(services)
        listening = _listen(settings)
        address = _address(settings, listening)

        async def ready() -> None:
            _write_server_file(settings.data, address)
            if welcome is not None:
                await welcome(services, address)
            print(f"workhook: listening on {address}", flush=True)  # a promise to scripts
            gc.freeze()

        config = uvicorn.Config(
            app,
            loop="none",
            http="httptools",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=max(1, round(settings.drain_s)),
        )
        server = _Server(config, ready)
        if delivery is not None:
            await delivery.start()
        _on_stop_signals(lambda: setattr(server, "should_exit", True))
        try:
            await server.serve(sockets=[listening])
        finally:
            _remove_server_file(settings.data)
            if delivery is not None:
                await delivery.stop(settings.drain_s)
    return 0


async def work(settings: Settings) -> int:
    """Deliveries only, until SIGTERM or SIGINT."""
    _prepare_process(settings)
    async with open_services(settings, serving=True) as services:
        delivery = Delivery(services)
        await delivery.start()
        print("workhook: delivering", flush=True)  # a promise to scripts
        gc.freeze()
        stopped = asyncio.Event()
        _on_stop_signals(stopped.set)
        await stopped.wait()
        await delivery.stop(settings.drain_s)
    return 0


def _prepare_process(settings: Settings) -> None:
    log.configure(settings.log_level, settings.log_format)
    settings.data.mkdir(parents=True, exist_ok=True)
    # Little of what a request or a delivery makes is garbage in cycles: at the default, collecting is 5 % of the CPU.
    gc.set_threshold(20_000, 20, 20)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _on_stop_signals(stop: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stop)


def _listen(settings: Settings) -> socket.socket:
    """Raises `SystemExit` with a plain sentence when the address cannot be had."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
    except OSError as error:
        listening.close()
        where = f"{settings.host}:{settings.port}"
        sys.exit(f"workhook: cannot listen on {where}: {error.strerror}. Choose another --port.")
    listening.set_inheritable(True)
    return listening


def _address(settings: Settings, listening: socket.socket) -> str:
    port = listening.getsockname()[1]
    shown = settings.host if settings.host not in ("0.0.0.0", "::") else "127.0.0.1"  # noqa: S104  # only shown
    return f"http://[{shown}]:{port}" if ":" in str(shown) else f"http://{shown}:{port}"


def _write_server_file(data: Path, address: str) -> None:
    """Where commands and Git hooks beside the server find it."""
    path = data / SERVER_FILE
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_bytes(json.encode({"url": address, "pid": os.getpid(), "started_at": now_ms()}))
    draft.replace(path)


def _remove_server_file(data: Path) -> None:
    path = data / SERVER_FILE
    try:
        if json.decode(path.read_bytes()).get("pid") == os.getpid():
            path.unlink()
    except (OSError, ValueError) as error:
        logger.warning("server_file_left", error=str(error))
