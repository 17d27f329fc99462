"""Who had declined a kind of notifications before there was mail gets no mail of it, and nobody gets any of before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tests.harness.databases import Databases
from tests.harness.world import with_services
from tests.migrations.upgrade_kit import insert, migrate_to, on_database
from workhook.http.calls import Services
from workhook.work.history.notifications.settings import Choice, find_settings


def _fill(connection: Any) -> None:
    times = {"created_at": 1, "updated_at": 9}
    insert(connection, "accounts", id=1, kind="user", login="octo", login_key="octo", email="o@example.com", **times)
    insert(connection, "notification_settings", user_id=1, kind="mention", inbox=False)
    insert(connection, "notification_settings", user_id=1, kind="payment", inbox=True)
    insert(connection, "notifications", user_id=1, kind="invitation", account_id=1, created_at=1)


def test_what_was_declined_stays_declined(backend: Databases, tmp_path: Path) -> None:
    settings = {"data": str(tmp_path), **backend.empty(tmp_path)}

    def work(connection: Any) -> None:
        migrate_to(connection, "0033")
        _fill(connection)

    on_database(settings, work)
    on_database(settings, lambda connection: migrate_to(connection, "0036"))
    found: list[Any] = []

    def look(connection: Any) -> None:
        found.extend(connection.execute(sa.text("SELECT count(*) FROM mail_messages")).scalars())

    on_database(settings, look)
    assert found == [0]

    async def read(services: Services) -> Any:
        return await find_settings(services.database, 1)

    chosen = with_services(settings, read)
    assert chosen["mention"] == Choice(inbox=False, email=False)
    assert chosen["payment"] == chosen["assignment"] == Choice(inbox=True, email=True)
