"""What was spent before there were sums is summed up, also while others write, and after an interruption."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tests.harness.databases import Databases
from tests.migrations.upgrade_kit import migrate_to, on_database

_USER = {"kind": "user", "created_at": 1, "updated_at": 1}
_HOUR = 3_600_000
_TOTAL = sa.text(
    "SELECT grain, sum(timesheets), sum(duration_ms), sum(amount_minor) FROM timesheet_sums"
    " GROUP BY grain ORDER BY grain"
)
_NOTED = sa.text("SELECT sum(timesheets), sum(duration_ms), sum(amount_minor) FROM timesheet_changes")


def _fill(connection: Any) -> None:
    def insert(table: str, **values: object) -> None:
        connection.execute(sa.insert(sa.table(table, *map(sa.column, values))).values(values))

    for number in (1, 2):
        insert("accounts", id=number, login=f"user-{number}", login_key=f"user-{number}", **_USER)
        insert(
            "projects", repository_id=number, id=f"prj_{number}", account_id=number, name="x", name_key="x",
            title="X", private=False, archive=False, created_at=1, updated_at=1,
        )  # fmt: skip
    for number in range(6):
        insert(
            "timesheets", id=f"tms_{number}", repository_id=number % 2 + 1, user_id=number % 2 + 1,
            start_time=number * 50 * _HOUR, duration_ms=_HOUR, is_active=number == 5, finished=number != 5,
            running_since=1 if number == 5 else None, billable=number < 3, billable_rate_minor=8000, created_at=1,
            updated_at=1,
        )  # fmt: skip


def _upgraded(backend: Databases, folder: Path, *steps: Callable[[Any], Any]) -> Any:
    settings = {"data": str(folder), **backend.empty(folder)}
    found: list[Any] = []
    for step in steps:
        on_database(settings, lambda connection, step=step: found.append(step(connection)))  # type: ignore[misc]  # its own
    return found[-1]


def _before(connection: Any) -> None:
    migrate_to(connection, "0014")
    _fill(connection)


def _after(connection: Any) -> None:
    migrate_to(connection, "0015")


def _sums(connection: Any) -> list[tuple[int, ...]]:
    return [tuple(map(int, row)) for row in connection.execute(_TOTAL)]


WHOLE = [(grain, 5, 5 * _HOUR, 3 * 8000) for grain in range(1, 6)]
"""The sixth runs."""


def test_what_was_spent_is_summed_up(backend: Databases, tmp_path: Path) -> None:
    assert _upgraded(backend, tmp_path, _before, _after, _sums) == WHOLE


def test_what_changed_since_is_noted(backend: Databases, tmp_path: Path) -> None:
    def change(connection: Any) -> None:
        connection.execute(sa.text("UPDATE timesheets SET duration_ms = 1800000 WHERE id = 'tms_0'"))
        connection.execute(sa.text("DELETE FROM timesheets WHERE id = 'tms_1'"))
        connection.execute(sa.text("UPDATE timesheets SET is_active = false WHERE id = 'tms_5'"))

    def noted(connection: Any) -> tuple[int, ...]:
        assert _sums(connection) == WHOLE
        return tuple(map(int, connection.execute(_NOTED).one()))

    assert _upgraded(backend, tmp_path, _before, _after, change, noted) == (0, -_HOUR // 2, -4000 - 8000)


def test_what_was_interrupted_begins_again(backend: Databases, tmp_path: Path) -> None:
    """After half of it others have written: their notes and the sums are both made anew."""
    if backend.kind == "sqlite":
        return  # one transaction

    def halfway(connection: Any) -> None:
        connection.execute(sa.text("UPDATE timesheets SET duration_ms = 1800000 WHERE id = 'tms_0'"))
        connection.execute(sa.text("UPDATE timesheets SET duration_ms = 3600000 WHERE id = 'tms_0'"))
        connection.execute(sa.text("DELETE FROM timesheet_sums WHERE repository_id = 2"))
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '0014'"))

    assert _upgraded(backend, tmp_path, _before, _after, halfway, _after, _sums) == WHOLE
    assert _upgraded_notes(backend, tmp_path / "again", halfway) == 0


def test_what_went_while_it_was_summed_up_leaves_nothing(backend: Databases, tmp_path: Path) -> None:
    """Somebody deletes all that was spent in a project, between the triggers and the sums."""
    if backend.kind == "sqlite":
        return  # one transaction

    def halfway(connection: Any) -> None:
        connection.execute(sa.text("DELETE FROM timesheets WHERE repository_id = 2"))
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '0014'"))

    def of_it(connection: Any) -> int:
        asked = "SELECT count(*) FROM timesheet_sums WHERE repository_id = 2"
        return int(connection.execute(sa.text(asked)).scalar_one())

    assert _upgraded(backend, tmp_path / "sums", _before, _after, halfway, _after, of_it) == 0
    assert _upgraded_notes(backend, tmp_path / "notes", halfway) == 0


def _upgraded_notes(backend: Databases, folder: Path, halfway: Callable[[Any], None]) -> int:
    def noted(connection: Any) -> int:
        return int(connection.execute(sa.text("SELECT count(*) FROM timesheet_changes")).scalar_one())

    return int(_upgraded(backend, folder, _before, _after, halfway, _after, noted))
