"""Databases of one kind alone, for what only that one does: on SQLite nobody works beside a migration."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.databases import Databases, databases


@pytest.fixture
def postgresql(_shared_folder: Path) -> Databases:  # it is the folder of all tests
    return databases("postgresql", _shared_folder)


@pytest.fixture
def sqlite(_shared_folder: Path) -> Databases:
    return databases("sqlite", _shared_folder)
