"""What the tests of Area A share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.server import Server
from tests.harness.waiting import until
from tests.harness.world import World
from tests.work.studio import Studio
from workhook.core.clock import DAY_MS, now_ms


def _the_day_goes_on() -> bool:
    """Links of files are others from midnight (UTC) on, and with them the records: no test begins just before it."""
    return now_ms() % DAY_MS < DAY_MS - 20_000


@pytest.fixture
def studio(server: Server, world: World) -> Iterator[Studio]:
    """A project of its own for each test, on the server of the module."""
    until(_the_day_goes_on)
    studio = Studio(server, world)
    yield studio
    studio.close()
