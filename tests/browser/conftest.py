"""One browser process per worker, a server, and people. Tests here are `async` and share the event loop of the session.

Playwright's synchronous API would leave a loop running in the test thread, and no async test could run after it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from inspect import iscoroutinefunction
from pathlib import Path

import psutil
import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright, expect

from tests.browser.chromium import launch, wait_for_end
from tests.browser.people import Team, make_team
from tests.browser.visits import Scheme, Visits
from tests.harness.databases import Databases
from tests.harness.server import Server, SharedServer
from tests.harness.waiting import WAIT_S
from tests.web.studio import Studio, open_studio

HERE = Path(__file__).parent

_LITTLE = {"width", "scripts", "way"}  # parameters with little influence on the outcome, see `tests.harness.depth`

expect.set_options(timeout=WAIT_S * 1000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.one_database)
            little = _LITTLE & set(item.fixturenames) if isinstance(item, pytest.Function) else set()
            if little:
                item.add_marker(pytest.mark.variants(*little))
            if isinstance(item, pytest.Function) and iscoroutinefunction(item.obj):
                item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest.fixture(scope="session")
def server(backend: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run one server for all files. Each test has its own people."""
    folder = tmp_path_factory.mktemp("browser")
    database = backend.new(folder)
    server = SharedServer(folder, database).start()
    yield server
    server.close()
    backend.drop(database)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Start a Chromium process for the worker and stop it at the end."""
    before = set(psutil.Process().children())
    async with async_playwright() as playwright:
        [driver] = set(psutil.Process().children()) - before
        browser = await launch(playwright)
        yield browser
        processes = driver.children(recursive=True)
        assert processes
        await browser.close()
    wait_for_end(processes)


@pytest_asyncio.fixture(loop_scope="session")
async def visit(browser: Browser, server: Server) -> AsyncIterator[Visits]:
    """Open pages: `page = await visit("/login")`, `await visit("/", team.owner, width=360, scheme="dark")`."""
    visits = Visits(browser, server)
    yield visits
    await visits.close()


@pytest.fixture
def team(server: Server) -> Team:
    """Provide a new organization with a project, its owner, a member and a client."""
    team: Team = server.run(make_team)
    return team


@pytest.fixture
def studio(server: Server) -> Iterator[Studio]:
    """Provide a new project for each test, with people who are signed in."""
    with open_studio(server) as studio:
        yield studio


@pytest.fixture(params=[360, 1440])
def width(request: pytest.FixtureRequest) -> int:
    """Window widths of a phone and a desktop."""
    width: int = request.param
    return width


@pytest.fixture
def scheme(width: int) -> Scheme:
    """Initial color scheme per width. `accessible` also checks the other one."""
    return "dark" if width == 360 else "light"
