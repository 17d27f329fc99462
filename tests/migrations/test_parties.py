"""Invoices that were there before have no parties, and go on with their numbers."""

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
    insert(connection, "invoice_numbers", account_id=1, last=7)
    for status in ("draft", "sent"):
        values = {"amount_minor": 0, "total_minor": 0, "items": "[]", "recurring_items": "[]", "currency": "EUR"}
        ids = {"id": f"inv_{status}", "repository_id": 1, "account_id": 1}
        insert(connection, "invoices", **ids, status=status, **values, **_TIMES)


def test_invoices_that_were_there_have_no_parties(backend: Databases, tmp_path: Path) -> None:
    settings = {"data": str(tmp_path), **backend.empty(tmp_path)}

    def work(connection: Any) -> None:
        migrate_to(connection, "0029")
        _fill(connection)

    on_database(settings, work)
    on_database(settings, lambda connection: migrate_to(connection, "0030"))
    found: list[Any] = []

    def look(connection: Any) -> None:
        questions = (
            "SELECT id, buyer, seller, language FROM invoices ORDER BY id",
            "SELECT last FROM invoice_numbers",
            "SELECT count(*) FROM account_billing",
            "SELECT count(*) FROM invoice_year_numbers",
        )
        found.extend([tuple(row) for row in connection.execute(sa.text(text))] for text in questions)

    on_database(settings, look)
    assert found == [[("inv_draft", None, None, None), ("inv_sent", None, None, None)], [(7,)], [(0,)], [(0,)]]
