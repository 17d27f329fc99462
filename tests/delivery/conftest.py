"""Servers for the tests of the worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.delivery.site import Site
from tests.harness.databases import Databases
from tests.harness.receiver import Receiver
from tests.harness.server import Server, SharedServer


@pytest.fixture(scope="module")
def quick_server(backend: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Yield a server that retries three times within a second."""
    folder = tmp_path_factory.mktemp("quick")
    settings = {"delivery_retry_first_s": 0.05, "delivery_retries": 3, **backend.new(folder)}
    server = SharedServer(folder, settings).start()
    yield server
    server.close()


@pytest.fixture
def site(quick_server: Server) -> Iterator[Site]:
    site = Site(quick_server)
    yield site
    site.close()


@pytest.fixture
def other() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()
