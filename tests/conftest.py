"""Fixtures shared by all test folders. Tests that use a database run on SQLite and on PostgreSQL."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings

from hatch_build import LOCALES, compile_texts
from scripts import statement_rules
from tests.harness import forge, order
from tests.harness.concurrent_transactions import Beside, opened
from tests.harness.databases import Databases, begin_run, close_databases, databases, end_run, new_folder
from tests.harness.receiver import Receiver
from tests.harness.server import Server, SharedServer
from tests.harness.waiting import until
from tests.harness.world import World
from tests.work.studio import Studio
from workhook.bootstrap import open_services
from workhook.core.clock import DAY_MS, now_ms
from workhook.core.config import load
from workhook.http.calls import Services
from workhook.storage.statements import Compiler

KINDS = ("sqlite", "postgresql")

# Statements compiled in a test must obey the rule of statements, as must those in processes forked by
# `harness.forging`.
Compiler.inspect = staticmethod(statement_rules.refuse)

# Tests never connect to external hosts, and loading the system's certificate authorities costs each server 60 ms.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).parent / "harness" / "authority.pem")
os.environ["SSL_CERT_DIR"] = os.devnull

# Format tracebacks as the product does. With rich installed, structlog's default takes 50 ms per traceback.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
    ]
)

# Tests do not assert timing. If CI is set, Hypothesis uses its own profile, without deadlines and with fixed examples.
if "CI" not in os.environ:
    settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-seconds", action="store_true", help="write down how long the tests of each file take")


def _is_old(catalog: Path) -> bool:
    """Return whether the catalog changed since it was compiled. Nothing else checks this in manual test runs."""
    compiled = catalog.with_suffix(".mo")
    return not compiled.exists() or compiled.stat().st_mtime < catalog.stat().st_mtime


def pytest_configure(config: pytest.Config) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ and any(map(_is_old, LOCALES.glob("*/*/*.po"))):
        compile_texts()
    if (folder := begin_run()) is not None:
        config.add_cleanup(lambda: end_run(folder))
        # It starts while the workers collect tests. A few files with `-n 2` may not need it.
        if len(config.getoption("tx", ())) > 2 and (begun := forge.begin_for_run()) is not None:
            config.add_cleanup(lambda: forge.end_for_run(begun))
    if (worker := getattr(config, "workerinput", None)) is not None:
        config.args = order.beginning_at(config.args, int(worker["workerid"].removeprefix("gw")), worker["workercount"])
    if config.getoption("--record-seconds") and "PYTEST_XDIST_WORKER" not in os.environ:
        config.pluginmanager.register(order.Recorder())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return two workers per core for `-n auto`. Most time is spent in browsers, and more workers are no faster."""
    return (os.cpu_count() or 1) * 2


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Disable garbage collection during collection, and freeze the ten thousand tests afterwards."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True, specname="pytest_collection_modifyitems")
def pytest_in_the_same_order(items: list[pytest.Item]) -> None:
    """Sort tests by folder, which gives every worker the same order before pytest groups tests by database."""
    items.sort(key=lambda item: item.path.parent)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = {
        each
        for each in items
        if order.is_left_out(
            each.nodeid,
            whole=each.get_closest_marker("whole") is not None,
            one_database=each.get_closest_marker("one_database") is not None,
        )
    }
    others = order.others_of_variants(order.variants_of(each for each in items if each not in left_out))
    left_out |= {each for each in items if each.nodeid in others}
    others = order.others_of_many([each.nodeid for each in items if each not in left_out])
    left_out |= {each for each in items if each.nodeid in others}
    judged = [each for each in items if each not in left_out and each.get_closest_marker("usual") is None]
    others = order.slow_ones([each.nodeid for each in judged], order.known_seconds())
    left_out |= {each for each in items if each.nodeid in others}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [each for each in items if each not in left_out]
    if config.getoption("dist", "no") == "loadfile" or "PYTEST_XDIST_WORKER" in os.environ:
        order.arrange(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> order.ByUnit | None:
    """Schedule by unit for `--dist loadfile`, where a file that runs on two databases has two units."""
    if config.getoption("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False  # done by `arrange`
    return order.ByUnit(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Repeat at the end which tests this machine could not run, where it is noticed."""
    reasons = {str(each.longrepr[-1]) for each in terminalreporter.stats.get("skipped", ()) if each.longrepr}
    for reason in sorted(each for each in reasons if "NOT TESTED" in each):
        terminalreporter.write_line(reason.removeprefix("Skipped: "), yellow=True)


@pytest.fixture(scope="session")
def _shared_folder() -> Iterator[Path]:
    folder = new_folder("databases")
    yield folder
    close_databases()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session", params=KINDS)
def backend(request: pytest.FixtureRequest, _shared_folder: Path) -> Databases:
    """Provide databases of each kind in turn."""
    return databases(request.param, _shared_folder)


@pytest.fixture
async def services(backend: Databases, tmp_path: Path) -> AsyncIterator[Services]:
    """Open services with an empty database in this process."""
    settings: dict[str, Any] = {"data": str(tmp_path), "delivery_allow_networks": "127.0.0.0/8"}
    database = backend.new(tmp_path)
    async with open_services(load({**settings, **database}, {}), serving=True) as opened:
        yield opened
    backend.drop(database)


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    """Return the settings of `server` that differ from the defaults. Overridden by modules and folders."""
    return {}


@pytest.fixture(scope="module")
def server(
    backend: Databases, tmp_path_factory: pytest.TempPathFactory, server_settings: dict[str, Any]
) -> Iterator[Server]:
    """Run a server process that the tests of a module share. Each test creates its own world in it."""
    folder = tmp_path_factory.mktemp("server")
    database = backend.new(folder)
    server = SharedServer(folder, {**database, **server_settings}).start()
    yield server
    server.close()
    backend.drop(database)


@pytest.fixture
def new_server(backend: Databases, tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Return a factory of server processes for one test, `new_server(**settings)`, which all share the same data."""
    made: list[Server] = []
    database = backend.new(tmp_path)

    def make(*, command: tuple[str, ...] = ("serve", "--port", "0"), **settings: Any) -> Server:
        server = Server(tmp_path, {**database, **settings}, command=command).start()
        made.append(server)
        return server

    yield make
    for each in made:
        each.close()
    backend.drop(database)


@pytest.fixture
def world(server: Server) -> World:
    return server.world()


def _is_midnight_far() -> bool:
    """Return whether midnight (UTC) is at least 20 s away. Links of files, and so their records, change at midnight."""
    return now_ms() % DAY_MS < DAY_MS - 20_000


@pytest.fixture
def studio(server: Server, world: World) -> Iterator[Studio]:
    """Provide a new project with the people around it."""
    until(_is_midnight_far)
    studio = Studio(server, world)
    yield studio
    studio.close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture
async def beside(services: Services) -> AsyncIterator[Beside]:
    async with opened(services) as found:
        yield found
