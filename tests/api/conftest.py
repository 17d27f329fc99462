"""Fixtures of the webhook API tests: owners of webhooks, and a client that acts as their owner."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.api.oauth_kit import Site
from tests.api.wire import Api, Place
from tests.harness.server import Server
from tests.harness.world import World


@pytest.fixture(params=("repository", "organization"))
def place(request: pytest.FixtureRequest, world: World) -> Place:
    """Return a repository and an organization in turn."""
    return Place(request.param, world)


@pytest.fixture
def repository(world: World) -> Place:
    return Place("repository", world)


@pytest.fixture
def organization(world: World) -> Place:
    return Place("organization", world)


@pytest.fixture
def api(server: Server, world: World) -> Iterator[Api]:
    """Yield the owner's client, whose token has every scope."""
    with server.client(world.token) as client:
        yield Api(client)


@pytest.fixture(scope="module")
def site(server: Server) -> Iterator[Site]:
    site = Site(server)
    yield site
    site.close()
