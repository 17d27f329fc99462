"""Shared fixtures of the work API tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.server import Server
from tests.work.paper import LINE, Draw, Upload
from tests.work.scene import Scene
from tests.work.shop import Shop
from tests.work.studio import Studio
from tests.work.timesheets_kit import Desk, make_task
from tests.work.trello_importer import Importer


@pytest.fixture
def elsewhere(server: Server) -> Iterator[Studio]:
    """Return another organization on the same server."""
    elsewhere = Studio(server, server.world())
    yield elsewhere
    elsewhere.close()


@pytest.fixture
def scene(studio: Studio) -> Scene:
    return Scene(studio.owner, studio.project_id, studio.world.organization)


@pytest.fixture
def draw(studio: Studio) -> Draw:
    """Return a function that creates a one-line invoice, applies `steps` (`send`, `void`) and returns its ID."""

    return lambda *steps, **body: studio.invoice(*steps, **{"invoice_items": [LINE], **body})["id"]


@pytest.fixture
def upload(studio: Studio) -> Upload:
    """Return a function that uploads a file as the project's avatar and returns its link.

    The avatar is also the logo on the project's invoices.
    """

    def make(content: bytes, name: str, media_type: str, **more: str) -> str:
        answer = studio.owner.post(f"{studio.project}/files", files={"file": (name, content, media_type)}, data=more)
        link: str = answer["file"]["file_link"]
        studio.owner.patch(studio.project, json={"avatar": link})
        return link

    return make


@pytest.fixture
def shop(studio: Studio) -> Iterator[Shop]:
    shop = Shop(studio)
    yield shop
    shop.close()


@pytest.fixture
def desk(studio: Studio) -> Desk:
    return Desk(studio, studio.owner)


@pytest.fixture
def task_id(studio: Studio) -> str:
    return make_task(studio)


@pytest.fixture
def importer(studio: Studio, tmp_path: Path) -> Importer:
    return Importer(studio, tmp_path)
