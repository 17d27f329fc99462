"""A repository that receives pushes, and the server that is notified of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.git_push.kit import Receiver, Site, eventually, use_git_environment


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_git_environment(monkeypatch, tmp_path)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture
def site(tmp_path: Path, receiver: Receiver) -> Iterator[Site]:
    site = Site(tmp_path)
    site.install(receiver.url)
    yield site
    site.close()


@pytest.fixture
def ready(site: Site, receiver: Receiver) -> Site:
    """Return a site whose first push has been sent and whose sender is idle."""
    site.commit("one")
    site.push("main")
    receiver.payloads(1)
    eventually(lambda: not site.waiting() and site.sender_is_idle())
    receiver.requests.clear()
    return site
