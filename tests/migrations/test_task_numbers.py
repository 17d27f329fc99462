"""Tasks that are there before an upgrade are numbered as they were made, also while the version before makes others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.harness.databases import Databases
from tests.migrations.upgrade_kit import insert, migrate_to, on_database

COUNT = 1300  # more than two steps of one project
_TIMES = {"created_at": 1, "updated_at": 9}
_TASK = {"title": "Task", "fields": "{}", "sections": "{}", "labels": "[]", "user_id": 1, **_TIMES}
_REFUSED = 700
_REFUSE = (
    "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    f" IF to_jsonb(new)->>'number' = '{_REFUSED}' THEN RAISE EXCEPTION 'interrupted'; END IF; RETURN new; END $$",
    "CREATE TRIGGER refuse BEFORE UPDATE ON tasks FOR EACH ROW EXECUTE FUNCTION refuse()",
)


def _task(connection: Any, name: str, project: int, **more: object) -> None:
    insert(connection, "tasks", id=f"tsk_{name}", repository_id=project, **_TASK, **more)


def _fill(connection: Any) -> None:
    migrate_to(connection, "0033")
    insert(connection, "accounts", id=1, kind="user", login="octo", login_key="octo", **_TIMES)
    for project in (1, 2, 3):
        place = {"repository_id": project, "id": f"prj_{project}", "account_id": 1, "name": f"x{project}"}
        more = {"name_key": f"x{project}", "title": "X", "private": False, "archive": False}
        insert(connection, "projects", **place, **more, **_TIMES)
    # Not in the order in which rows are stored; the third project has none.
    for number in reversed(range(COUNT)):
        deleted = {"deleted_at": 5} if number % 7 == 3 else {}
        _task(connection, f"{number:05}", 1 if number % 13 else 2, **deleted)


def _refuse(connection: Any) -> None:
    for each in _REFUSE:
        connection.execute(sa.text(each))


def _numbers(connection: Any) -> dict[int, list[int]]:
    """By project, in the order of the tasks' ids."""
    found: dict[int, list[int]] = {}
    for row in connection.execute(sa.text("SELECT repository_id, number FROM tasks ORDER BY id")):
        found.setdefault(row[0], []).append(row[1])
    return found


def _last(connection: Any) -> dict[int, int]:
    return {row[0]: row[1] for row in connection.execute(sa.text("SELECT repository_id, last FROM task_numbers"))}


def test_tasks_are_numbered_in_the_order_of_their_creation(backend: Databases, tmp_path: Path) -> None:
    settings = {"data": str(tmp_path), **backend.empty(tmp_path)}
    on_database(settings, _fill)
    on_database(settings, lambda connection: migrate_to(connection, "0034"))

    def look(connection: Any) -> None:
        assert _numbers(connection) == {1: list(range(1, 1201)), 2: list(range(1, 101))}
        assert _last(connection) == {1: 1200, 2: 100}

    on_database(settings, look)


@pytest.mark.whole
def test_an_interruption_and_tasks_made_meanwhile_leave_no_gap(backend: Databases, tmp_path: Path) -> None:
    if backend.kind == "sqlite":
        pytest.skip("a file is migrated in one transaction, before a server starts")
    settings = {"data": str(tmp_path), **backend.empty(tmp_path)}
    on_database(settings, _fill)
    on_database(settings, _refuse)
    with pytest.raises(sa.exc.DBAPIError, match="interrupted"):
        on_database(settings, lambda connection: migrate_to(connection, "0034"))

    def meanwhile(connection: Any) -> None:
        assert 0 < sum(number > 0 for number in _numbers(connection)[1]) < _REFUSED
        for name, project in (("z1", 1), ("z2", 2), ("z3", 1), ("z4", 3)):
            _task(connection, name, project)
        connection.execute(sa.text("DROP TRIGGER refuse ON tasks"))

    on_database(settings, meanwhile)
    on_database(settings, lambda connection: migrate_to(connection, "0034"))

    def look(connection: Any) -> None:
        assert _numbers(connection) == {1: list(range(1, 1203)), 2: list(range(1, 102)), 3: [1]}
        assert _last(connection) == {1: 1202, 2: 101, 3: 1}
        _task(connection, "z5", 3)  # an old server that has not stopped yet
        assert _numbers(connection)[3] == [1, 2]

    on_database(settings, look)
