"""A browser process for each worker, a server, and people. Tests here are `async` and share the loop of the session.

Playwright's other interface leaves a loop running in the thread of the tests, and no async test could run after it.
"""

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

_LITTLE = {"width", "scripts", "way"}  # parameters that make little difference: see `tests.harness.depth`

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
    """One for all files: each test has people of its own."""
    folder = tmp_path_factory.mktemp("browser")
    database = backend.new(folder)
    server = SharedServer(folder, database).start()
    yield server
    server.close()
    backend.drop(database)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """A process of Chromium, and none when the worker ends."""
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
    """Opens pages: `page = await visit("/login")`, `await visit("/", team.owner, width=360, scheme="dark")`."""
    visits = Visits(browser, server)
    yield visits
    await visits.close()


@pytest.fixture
def team(server: Server) -> Team:
    """A new organization with a project, its owner, a member and a client."""
    team: Team = server.run(make_team)
    return team


@pytest.fixture
def studio(server: Server) -> Iterator[Studio]:
    """A project of its own for each test, and browsers of its people."""
    with open_studio(server) as studio:
        yield studio


@pytest.fixture(params=[360, 1440])
def width(request: pytest.FixtureRequest) -> int:
    """Of the window: a telephone's and a desk's."""
    width: int = request.param
    return width


@pytest.fixture
def scheme(width: int) -> Scheme:
    """Of the colours at first. `accessible` looks at the other one, too."""
    return "dark" if width == 360 else "light"
