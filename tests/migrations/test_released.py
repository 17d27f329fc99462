"""Every released schema is upgraded to the newest without losing rows, and each release's schema is recorded."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from scripts import release_schema
from tests.harness.databases import Databases
from tests.harness.waiting import finish
from tests.migrations.filled import fill, sums, tables
from tests.migrations.shape import shape_of
from tests.migrations.upgrade_kit import UNRELEASED, VERSIONS, add_next_release, make_database, on_database
from workhook.bootstrap import import_tables
from workhook.core.config import load
from workhook.storage import migrate

pytestmark = pytest.mark.filterwarnings("ignore:Skipped unsupported reflection of expression-based index")
CHANGELOG = Path(__file__).parent.parent.parent / "CHANGELOG.md"


def _migrate(settings: dict[str, Any]) -> bool:
    known = load(settings, {})
    return finish(lambda: migrate.migrate(known.sqlite_path, known.database_url, import_tables))


class Filled:
    """A database of a released schema with rows in every table."""

    def __init__(self, backend: Databases, folder: Path, version: str) -> None:
        self.settings = make_database(backend, folder, version)
        self.columns: dict[str, list[str]] = {}
        self.sizes: dict[str, int] = {}
        on_database(self.settings, self._fill)
        self.before = self.sums()

    def _fill(self, connection: sa.Connection) -> None:
        self.columns = {each.name: [column.name for column in each.columns] for each in tables(connection)}
        self.sizes = fill(connection)

    def sums(self) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        on_database(self.settings, lambda connection: found.update(sums(connection, self.columns, self.sizes)))
        return found


@pytest.mark.parametrize("version", VERSIONS)
def test_a_released_schema_is_upgraded_to_the_newest(backend: Databases, tmp_path: Path, version: str) -> None:
    old = Filled(backend, tmp_path / "old", version)
    _migrate(old.settings)
    new = {"data": str(tmp_path / "new"), **backend.empty(tmp_path / "new")}
    assert _migrate(new)
    assert finish(lambda: shape_of(old.settings)) == finish(lambda: shape_of(new))
    assert old.sums() == old.before
    assert not _migrate(old.settings), "it is upgraded once"


def test_the_next_release_can_upgrade_this_one(
    backend: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MIGRATIONS", "HEAD"):
        monkeypatch.setattr(migrate, name, getattr(migrate, name))  # restored after the test
    old = Filled(backend, tmp_path / "old", UNRELEASED)
    before = finish(lambda: shape_of(old.settings))
    add_next_release(tmp_path)
    assert _migrate(old.settings)
    after = finish(lambda: shape_of(old.settings))
    assert after["revision"] == {"revision": "9999"}
    added = {name for name in after["columns"] if name not in before["columns"]}
    assert added == {
        "accounts.motto", "workers.rank", "files.column_id", "stars.task_id", "stars.user_id", "deliveries.note",
    }  # fmt: skip
    assert set(before["columns"]) <= set(after["columns"])
    assert old.sums() == old.before
    assert not _migrate(old.settings)


def test_every_release_has_a_recorded_schema() -> None:
    """`python -m scripts.release_schema VERSION` writes the schemas, `python -m tests.migrations.record` the rows."""
    named = set(re.findall(r"^## \[(\d[^\]]*)\]", CHANGELOG.read_text(encoding="utf-8"), re.MULTILINE))
    kept = {path.name for path in release_schema.RELEASED.iterdir()}
    endings = ("sqlite.sql", "postgresql.sql", "rows.json.xz")
    assert kept == {f"{version}.{ending}" for version in named for ending in endings}


def test_a_recorded_schema_is_never_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release_schema, "RELEASED", tmp_path)
    release_schema.main("1.0.0")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.0.0.postgresql.sql", "1.0.0.sqlite.sql"]
    with pytest.raises(FileExistsError):
        release_schema.main("1.0.0")
