"""What the tests of Area A share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.server import Server
from tests.harness.world import World
from tests.work.studio import Studio


@pytest.fixture
def studio(server: Server, world: World) -> Iterator[Studio]:
    """A project of its own for each test, on the server of the module."""
    studio = Studio(server, world)
    yield studio
    studio.close()
