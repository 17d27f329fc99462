"""Billing settings that exist already say no tax number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tests.harness.databases import Databases
from tests.migrations.upgrade_kit import insert, migrate_to, on_database


def _fill(connection: Any) -> None:
    insert(connection, "accounts", id=1, kind="user", login="octo", login_key="octo", created_at=1, updated_at=9)
    insert(connection, "account_billing", account_id=1, vat_id="DE123456789", timezone="Europe/Berlin")


def _look(connection: Any) -> None:
    found = connection.execute(sa.text("SELECT vat_id, timezone, tax_number FROM account_billing")).all()
    assert [tuple(each) for each in found] == [("DE123456789", "Europe/Berlin", None)]


def test_settings_that_are_there_say_no_tax_number(backend: Databases, tmp_path: Path) -> None:
    settings = {"data": str(tmp_path), **backend.empty(tmp_path)}

    def work(connection: Any) -> None:
        migrate_to(connection, "0044")
        _fill(connection)

    on_database(settings, work)
    on_database(settings, lambda connection: migrate_to(connection, "0045"))
    on_database(settings, _look)
