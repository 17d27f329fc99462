"""Files that were there before are on no task. Tasks are no subtasks, wait for nothing and do not repeat."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tests.harness.databases import Databases
from tests.migrations.upgrade_kit import insert, migrate_to, on_database

_TIMES = {"created_at": 1, "updated_at": 9}


def _fill(connection: Any) -> None:
    insert(connection, "accounts", id=1, kind="user", login="octo", login_key="octo", **_TIMES)
    place = {"repository_id": 1, "id": "prj_1", "account_id": 1, "name": "x", "name_key": "x", "title": "X"}
    insert(connection, "projects", **place, private=False, archive=False, **_TIMES)
    texts = {"title": "A", "fields": "{}", "sections": "{}", "labels": "[]"}
    insert(connection, "tasks", id="tsk_1", repository_id=1, user_id=1, **texts, **_TIMES)
    content = {"name": "a.txt", "size": 1, "content_type": "text/plain", "sha256": "00", "blob": "b", "private": False}
    insert(connection, "files", id="fil_1", repository_id=1, user_id=1, title="A", **content, **_TIMES)


def test_what_was_there_hangs_on_nothing(backend: Databases, tmp_path: Path) -> None:
    settings = {"data": str(tmp_path), **backend.empty(tmp_path)}

    def work(connection: Any) -> None:
        migrate_to(connection, "0033")
        _fill(connection)

    on_database(settings, work)
    on_database(settings, lambda connection: migrate_to(connection, "0035"))
    found: list[Any] = []

    def look(connection: Any) -> None:
        questions = (
            "SELECT id, task_id FROM files",
            "SELECT id, parent_id, repeat, next_id FROM tasks",
            "SELECT count(*) FROM task_blockers",
        )
        found.extend([tuple(row) for row in connection.execute(sa.text(text))] for text in questions)

    on_database(settings, look)
    assert found == [[("fil_1", None)], [("tsk_1", None, None, None)], [(0,)]]
