"""The servers of these tests: two processes on the same data, behind a trusted proxy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.databases import Databases
from tests.harness.server import Server, SharedServer
from tests.web.studio import Studio, open_studio


@pytest.fixture(scope="session")
def server(backend: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run one server for all tests. Each test has its own people, and each browser its own IP address."""
    folder = tmp_path_factory.mktemp("web")
    server = SharedServer(folder, {**backend.new(folder), "trust_proxy": "true"}).start()
    yield server
    server.close()


@pytest.fixture(scope="session")
def second_server(server: Server) -> Iterator[Server]:
    second = SharedServer(server.data, server.settings).start()
    yield second
    second.close()


@pytest.fixture
def studio(server: Server) -> Iterator[Studio]:
    """Provide a new project for each test, with people who are signed in."""
    with open_studio(server) as studio:
        yield studio
