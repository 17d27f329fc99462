"""One filled studio for all tests of the copy. Each test has its own copy of the folder and its own database."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.copy.filled import Filled, fill
from tests.harness.databases import PostgresDatabases, databases


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    return fill(tmp_path_factory.mktemp("filled"))


@pytest.fixture
def file(filled: Filled, tmp_path: Path) -> Path:
    return filled.copied(tmp_path / "data")


@pytest.fixture(scope="session")
def postgres(_shared_folder: Path) -> PostgresDatabases:
    made = databases("postgresql", _shared_folder)
    assert isinstance(made, PostgresDatabases)
    return made


@pytest.fixture
def url(postgres: PostgresDatabases, tmp_path: Path) -> str:
    """Return the URL of an empty database."""
    return postgres.empty(tmp_path / "unused")["database_url"]
