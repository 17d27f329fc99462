"""Databases of a single kind, for behavior that only one has. On SQLite, no process runs during a migration."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.databases import Databases, databases


@pytest.fixture
def postgresql(_shared_folder: Path) -> Databases:  # the folder is shared by all tests
    return databases("postgresql", _shared_folder)


@pytest.fixture
def sqlite(_shared_folder: Path) -> Databases:
    return databases("sqlite", _shared_folder)
