"""Servers that are killed and restarted with the same data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.delivery.site import Site
from tests.harness.server import Server


class Life:
    """A site whose server ends and is restarted. Each start has the settings of the first."""

    def __init__(self, new_server: Callable[..., Server], settings: dict[str, Any]) -> None:
        self._new_server, self._settings = new_server, settings
        self._site = Site(new_server(**settings))
        self.site = self._site

    def again(self, **settings: Any) -> Site:
        """Start the server again after it has ended."""
        self.site = self._site.at(self._new_server(**{**self._settings, **settings}))
        return self.site

    def kill(self) -> None:
        self.site.server.kill()

    def close(self) -> None:
        self._site.close()


@pytest.fixture
def new_life(new_server: Callable[..., Server]) -> Iterator[Callable[..., Life]]:
    lives: list[Life] = []

    def make(**settings: Any) -> Life:
        lives.append(Life(new_server, settings))
        return lives[-1]

    yield make
    for life in lives:
        life.close()
