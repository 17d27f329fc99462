"""Time that was there before keeps the rate that it had, or none; settings that were there say nothing of rates."""

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
    insert(connection, "project_billing", repository_id=1, currency="EUR")
    for name, rate in (("tms_own", 8000), ("tms_without", None)):
        times = {"start_time": 1, "end_time": 3_600_001, "duration_ms": 3_600_000, "is_active": False, "finished": True}
        owner = {"id": name, "repository_id": 1, "user_id": 1, "billable": True, "billable_rate_minor": rate}
        insert(connection, "timesheets", **owner, **times, **_TIMES)


def test_time_that_was_there_keeps_its_rate(backend: Databases, tmp_path: Path) -> None:
    settings = {"data": str(tmp_path), **backend.empty(tmp_path)}

    def work(connection: Any) -> None:
        migrate_to(connection, "0032")
        _fill(connection)

    on_database(settings, work)
    on_database(settings, lambda connection: migrate_to(connection, "0033"))
    found: list[Any] = []

    def look(connection: Any) -> None:
        questions = (
            "SELECT id, billable_rate_minor, rate_source FROM timesheets ORDER BY id",
            "SELECT currency, hourly_rate_minor, billable, round_minutes, budget_ms FROM project_billing",
            "SELECT count(*) FROM member_rates",
            "SELECT count(*) FROM project_rates",
        )
        found.extend([tuple(row) for row in connection.execute(sa.text(text))] for text in questions)

    on_database(settings, look)
    assert found == [
        [("tms_own", 8000, None), ("tms_without", None, None)],
        [("EUR", None, None, None, None)],
        [(0,)],
        [(0,)],
    ]
