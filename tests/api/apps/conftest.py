"""Fixtures: an installed app, and clients that act as the app."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
import pytest

from tests.harness.apps import Registered, make_app
from tests.harness.server import Server
from tests.harness.world import World


@pytest.fixture
def app(server: Server, world: World) -> Registered:
    return make_app(server, world)


@pytest.fixture
def as_app(server: Server, app: Registered) -> Iterator[httpx.Client]:
    with app.client(server) as client:
        yield client


@pytest.fixture
def call(server: Server) -> Iterator[Callable[..., httpx.Response]]:
    """Return a function `call(token, method, path, …)` that sends a request."""
    with server.client(None) as client:
        yield lambda token, method, path, **more: client.request(
            method, path, headers={"Authorization": f"Bearer {token}"}, **more
        )
