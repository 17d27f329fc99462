"""The life of a process: serving requests, delivering, and stopping in order."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import os
import resource
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
import uvicorn

from workhook.asgi import build_app, build_watch_app
from workhook.bootstrap import open_services
from workhook.chores import CHORES, Chores
from workhook.core import json, log, open_telemetry
from workhook.core.clock import now_ms
from workhook.core.config import Settings, split_address
from workhook.core.errors import OperatorError
from workhook.core.limited_process import is_running
from workhook.core.mail_address import parse_sender, parse_smtp_url
from workhook.delivery import metrics as _metrics  # noqa: F401  # alerts need them in every process
from workhook.delivery.address_policy import AddressPolicy
from workhook.delivery.send import Sender, SendSettings
from workhook.delivery.worker import Worker
from workhook.http.calls import Services
from workhook.http.protocol import REQUESTS_MAX, BoundedProtocol
from workhook.http.routing import AsgiApp
from workhook.http.system import own_metrics
from workhook.supervisor import Supervised, Supervisor

if TYPE_CHECKING:
    from workhook.delivery.mail.mailer import Mailer

SERVER_FILE = "server.json"
OPEN_FILES = 65_536
FILES_OF_OTHERS = 64  # for the database, name resolution and the log
CONNECTIONS_LEAST = 8
BACKLOG = 2048  # connections waiting to be accepted
M_ARENA_MAX = -8  # from glibc's malloc.h
STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

logger = structlog.get_logger(__name__)
Welcome = Callable[[Services, str], Awaitable[None]]
Say = Callable[[str], None]


class Delivery:
    """The worker of a process with the sender it uses, and the chores and the mailer that run alongside."""

    def __init__(self, services: Services, *, beside_api: bool) -> None:
        settings = services.settings
        sending = SendSettings(
            timeout_s=settings.delivery_timeout_s,
            proxy=settings.delivery_proxy,
            # The remaining files are for requests, streams, the database and name resolution.
            connections_max=max(CONNECTIONS_LEAST, (_files_max() - FILES_OF_OTHERS) // (4 if beside_api else 2)),
        )
        self._sender = Sender(AddressPolicy(settings.delivery_allow_networks), sending, own=services.own)
        if self._sender.max_concurrency < settings.concurrency:
            logger.warning(
                "open_file_limit_low",
                concurrency=self._sender.max_concurrency,
                requested=settings.concurrency,
                remedy="Raise `ulimit -n`.",
            )
        self._worker = Worker(services, self._sender)
        self._chores = Chores(services, CHORES)
        self._drain_s = settings.drain_s
        self._services = services
        self._mailer: Mailer | None = None
        self._stopping: asyncio.Task[None] | None = None

    @property
    def state(self) -> str:
        """Return `ok`, or why no deliveries are started at the moment."""
        return self._worker.state

    async def start(self) -> None:
        await self._worker.start()
        self._chores.start()
        self._mailer = create_mailer(self._services)
        if self._mailer is not None:
            self._mailer.start()

    def begin_stop(self) -> asyncio.Task[None]:
        """Start no new work from now on. The task ends when work in progress has finished, within the drain time."""
        if self._stopping is None:
            self._worker.begin_shutdown()  # before waiting for anything else
            self._stopping = asyncio.create_task(self._stop(), name="stop")
        return self._stopping

    async def _stop(self) -> None:
        await self._chores.stop()
        ending = [self._worker.stop(self._drain_s)]
        if self._mailer is not None:
            ending.append(self._mailer.stop(self._drain_s))
        try:
            await asyncio.gather(*ending)
        finally:
            await self._sender.close()


def create_mailer(services: Services) -> Mailer | None:
    """Return the mailer, or None if e-mail is not sent from here."""
    settings, base = services.settings, services.own.base
    if settings.smtp_url is None or settings.mail_from is None:
        return None
    if base is None:
        logger.warning("mail_disabled_in_process", remedy="Set WORKHOOK_BASE_URL: links in e-mail begin with it.")
        return None
    # Processes without a mail server do not load the modules that compose messages.
    from workhook.delivery.mail.mailer import Mailer
    from workhook.web.mail import Composer

    compose = Composer(services, base, parse_sender(settings.mail_from))
    return Mailer(services.database, parse_smtp_url(settings.smtp_url), compose)


class _Server(uvicorn.Server):
    """A server that calls `ready` and leaves signals alone, because deliveries end after the requests."""

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


def _server(app: AsgiApp, settings: Settings, ready: Callable[[], Awaitable[None]]) -> _Server:
    config = uvicorn.Config(
        app,
        loop="none",
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # `trust_proxy` decides; uvicorn trusts everything on this machine
        timeout_keep_alive=75,
        # Half of the files, apart from those of streams, are for the database and deliveries.
        limit_concurrency=min(REQUESTS_MAX, _files_max() // 3),
        timeout_graceful_shutdown=max(1, round(settings.drain_s)),
    )
    return _Server(config, ready)


async def serve(
    settings: Settings, *, say: Say, work: bool = True, welcome: Welcome | None = None, processes: int = 1
) -> int:
    """Run the API and, with `work`, deliveries until SIGTERM or SIGINT. Returns the exit status.

    `welcome` is called before `say` prints the ready line, on which scripts may rely. Each of several `processes`
    behind the port calls this function too. Raises `OperatorError` and the errors of `open_services`.
    """
    _prepare_process(settings)
    supervised = await Supervised.join()
    if supervised is None and processes > 1:
        return await _supervise(settings, processes, say, welcome)
    async with _traces("serve"), open_services(settings, serving=True) as services:
        delivery = Delivery(services, beside_api=True) if work else None
        draining = _Draining(settings.drain_delay_s, settings.drain_s)
        metrics = own_metrics if supervised is None else supervised.metrics
        app = build_app(services, draining.checks, metrics)
        listening = _listen_for_all(settings) if supervised is None else supervised.listening
        address = _address(settings.host, listening)
        services.own.base = settings.base_url or address

        async def ready() -> None:
            if supervised is None:
                await _announce(services, address, say, welcome)
            else:
                await supervised.report_ready()
            _settle_memory()

        server = _server(app, settings, ready)
        if delivery is not None:
            await delivery.start()

        def stop() -> None:
            server.should_exit = True
            services.stopping.set()
            if delivery is not None:
                delivery.begin_stop()  # alongside the requests, so that both share one drain time

        draining.on_signals(stop)
        try:
            await server.serve(sockets=[listening])
        finally:
            if supervised is None:
                _remove_server_file(settings.data)
            if delivery is not None:
                await delivery.begin_stop()
    return 0


async def _supervise(settings: Settings, count: int, say: Say, welcome: Welcome | None) -> int:
    listening = _listen_for_all(settings)
    address = _address(settings.host, listening)
    supervisor = Supervisor(count, listening, stop_s=settings.drain_delay_s + settings.drain_s)
    for each in STOPPING:
        asyncio.get_running_loop().add_signal_handler(each, supervisor.stop)
    async with open_services(settings):  # migrates before the processes start, because they would wait for each other
        listening.listen(BACKLOG)

    async def ready() -> None:
        async with open_services(settings) as services:
            await _announce(services, address, say, welcome)

    try:
        await supervisor.run(ready)
    finally:
        _remove_server_file(settings.data)
    return 0


async def _announce(services: Services, address: str, say: Say, welcome: Welcome | None) -> None:
    settings = services.settings
    _write_server_file(settings, address)
    if welcome is not None:
        await welcome(services, address)
    say(log.start_line(f"workhook: listening on {address}", settings.log_format, url=address))


async def work(settings: Settings, *, say: Say) -> int:
    """Run only deliveries, otherwise like `serve`. `say` prints the URL of /metrics, if served, and the ready line."""
    _prepare_process(settings)
    async with _traces("worker"), open_services(settings, serving=True) as services:
        delivery = Delivery(services, beside_api=False)
        draining, stopped = _Draining(settings.drain_delay_s, settings.drain_s), asyncio.Event()
        draining.on_signals(stopped.set)  # before the first line, whose reader may stop the process at once
        async with _watched(services, lambda: {"delivering": delivery.state, **draining.checks()}, say):
            await delivery.start()
            say(log.start_line("workhook: delivering", settings.log_format))
            _settle_memory()
            await stopped.wait()
            await delivery.begin_stop()
    return 0


@contextlib.asynccontextmanager
async def _traces(role: str) -> AsyncIterator[None]:
    """Start tracing if the environment requests it, and send the last spans at the end."""
    end = open_telemetry.turn_on(role)
    try:
        yield
    finally:
        await asyncio.to_thread(end)


@contextlib.asynccontextmanager
async def _watched(services: Services, checks: Callable[[], dict[str, str]], say: Say) -> AsyncIterator[None]:
    """Serve health and metrics at `worker_listen`, from before the first delivery until after the last."""
    if services.settings.worker_listen is None:
        yield
        return
    host, port = split_address(services.settings.worker_listen)
    listening = _listen(host, port, "Choose another --listen.")
    listens = asyncio.Event()

    async def ready() -> None:
        address = _address(host, listening)
        say(log.start_line(f"workhook: listening on {address}", services.settings.log_format, url=address))
        listens.set()

    app = build_watch_app(services, checks)
    server = _server(app, services.settings, ready)
    serving = asyncio.create_task(server.serve(sockets=[listening]), name="watch")
    try:
        waiting = asyncio.create_task(listens.wait())
        await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        yield
    finally:
        server.should_exit = True
        await serving


def _prepare_process(settings: Settings) -> None:
    _share_one_heap()
    log.configure(settings.log_level, settings.log_format)
    os.umask(0o077)  # files are readable only by this user
    settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    gc.collect()  # once for all imports; the command line disabled it for them
    gc.freeze()
    # Requests and deliveries create few reference cycles. At the default threshold, collection takes 5 % of the CPU.
    gc.set_threshold(20_000, 20, 20)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _share_one_heap() -> None:
    """Let all threads allocate from one heap if the C library is glibc. One for each takes 3 MiB more at rest."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(M_ARENA_MAX, 1)


def _settle_memory() -> None:
    """Exempt what the start has created from garbage collection, and return what it has freed to the system."""
    gc.freeze()
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


def _files_max() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OPEN_FILES if soft == resource.RLIM_INFINITY else soft


class _Draining:
    """The shutdown of a process: unready, so that load balancers stop sending requests, then stopped.

    It is unready for `delay_s` or until a second signal.
    """

    def __init__(self, delay_s: float, drain_s: float) -> None:
        self._delay_s, self._drain_s = delay_s, drain_s
        self._begun = False

    def checks(self) -> dict[str, str]:
        return {"stopping": "the process is about to stop"} if self._begun else {}

    def on_signals(self, stop: Callable[[], None]) -> None:
        """Call `stop` after SIGTERM, SIGINT or SIGHUP, and log the first one."""
        loop = asyncio.get_running_loop()

        def heard() -> None:
            first, self._begun = not self._begun, True
            if first:
                logger.info("stopping", delay_s=self._delay_s, drain_s=self._drain_s)
            if first and self._delay_s:
                loop.call_later(self._delay_s, stop)
            else:
                stop()

        for each in STOPPING:
            loop.add_signal_handler(each, heard)


def _listen_for_all(settings: Settings) -> socket.socket:
    return _listen(settings.host, settings.port, "Choose another --port or --host.")


def _listen(host: str, port: int, remedy: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise OperatorError(f"cannot listen on {host}:{port}: {error.strerror}.", remedy) from error
    return listening


def _address(host: str, listening: socket.socket) -> str:
    port = listening.getsockname()[1]
    shown = host if host not in ("0.0.0.0", "::") else "127.0.0.1"  # noqa: S104  # for display only
    return f"http://[{shown}]:{port}" if ":" in str(shown) else f"http://{shown}:{port}"


def _write_server_file(settings: Settings, address: str) -> None:
    """Write the addresses for commands and Git hooks. If another server is running, its file is kept."""
    path = settings.data / SERVER_FILE
    try:
        other = int(json.decode(path.read_bytes())["pid"])
        if other != os.getpid() and is_running(other):
            logger.warning("data_folder_in_use", pid=other, note="Git hooks and commands use that server.")
            return
    except (OSError, ValueError, KeyError, TypeError) as error:
        logger.debug("no_other_server", error=str(error))
    draft = path.with_suffix(f".{os.getpid()}")
    known = {"url": address, "base_url": settings.base_url, "pid": os.getpid(), "started_at": now_ms()}
    draft.write_bytes(json.encode(known))
    draft.replace(path)


def _remove_server_file(data: Path) -> None:
    path = data / SERVER_FILE
    try:
        if json.decode(path.read_bytes()).get("pid") == os.getpid():
            path.unlink()
    except FileNotFoundError as error:
        logger.debug("no_server_file", error=str(error))  # stopped before it was ready
    except (OSError, ValueError) as error:
        logger.warning("server_file_not_removed", error=str(error))
