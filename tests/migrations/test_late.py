"""Deliveries that were recorded late before there was a mark for it get theirs, and are found by time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tests.harness.databases import Databases
from tests.harness.waiting import finish
from tests.migrations.upgrade_kit import migrate_to, on_database
from workhook.bootstrap import open_services
from workhook.core.config import load
from workhook.hooks import history
from workhook.http.calls import Services
from workhook.storage import migrate
from workhook.storage.index_ranges import IdRange

HOOK = 1
NUMBER = 12_000
START = 1_700_000_000_000
STEP_MS, LATE_MS = 100, 600_000

LATE = [*range(4_000, 4_051), 4_999, 5_000, 5_001, 7_000, *range(9_990, 10_011), NUMBER]
"""In the middle and at the ends of the batches; what was delivered during an outage, and one alone."""

BARELY = {8_000: 4_000, 8_001: 5_000}
"""Later by so many milliseconds: as slow as others may be."""


def _fill(connection: Any) -> None:
    numbers = f"SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < {NUMBER}"
    late = ", ".join(map(str, LATE))
    barely = " ".join(f"WHEN i = {i} THEN {ms}" for i, ms in BARELY.items())
    kind = "BYTEA" if connection.dialect.name == "postgresql" else "BLOB"
    connection.execute(
        sa.text(
            "INSERT INTO deliveries (id, dispatch_id, hook_id, event_id, guid, event, delivered_at, duration_ms,"
            " redelivery, status, status_code, url, request_headers, response_headers, response_body)"
            f" WITH RECURSIVE numbers (i) AS ({numbers}) SELECT i, i, {HOOK}, i, 'guid-' || i, 'push',"
            f" CAST({START} AS BIGINT) + i * {STEP_MS} - CASE WHEN i IN ({late}) THEN {LATE_MS} {barely} ELSE 0 END,"
            f" 1, false, 'OK', 200, 'x', CAST('' AS {kind}), CAST('' AS {kind}), CAST('' AS {kind}) FROM numbers"
        )
    )


def _upgraded(backend: Databases, folder: Path, revision: str) -> dict[str, Any]:
    """A database of that schema, filled and then migrated."""
    settings = {"data": str(folder), **backend.empty(folder)}

    def work(connection: Any) -> None:
        migrate_to(connection, revision)
        _fill(connection)

    on_database(settings, work)
    known = load(settings, {})
    assert finish(lambda: migrate.migrate(known.sqlite_path, known.database_url))
    return settings


def _asked(settings: dict[str, Any], work: Any) -> Any:
    async def run() -> Any:
        async with open_services(load(settings, {})) as services:
            return await work(services)

    return finish(run)


def test_deliveries_that_were_recorded_late_are_marked(backend: Databases, tmp_path: Path) -> None:
    settings = _upgraded(backend, tmp_path, "0010")

    async def work(services: Services) -> list[tuple[int, int, int]]:
        sql = "SELECT id, delivered_at, recorded_at FROM deliveries WHERE recorded_at IS NOT NULL ORDER BY id"
        rows = await services.database.fetch_all(sa.text(sql))
        return [(row["id"], row["delivered_at"], row["recorded_at"]) for row in rows]

    marked = _asked(settings, work)
    assert [number for number, _, _ in marked] == LATE
    assert all(recorded - delivered > history.LATE_MS for _, delivered, recorded in marked)


def test_they_are_found_by_time(backend: Databases, tmp_path: Path) -> None:
    settings = _upgraded(backend, tmp_path, "0010")
    times = {i: START + i * STEP_MS - (LATE_MS if i in LATE else BARELY.get(i, 0)) for i in range(1, NUMBER + 1)}
    # Before the first that was in time; among them; and from the last minute on.
    asked = [(None, START), (START, START + 100_000), (START + 350_000, START + 400_500), (START + 1_190_000, None)]

    async def work(services: Services) -> list[list[int]]:
        pages = []
        for since, until in asked:
            filters = history.Filters(since=since, until=until)
            rows = await history.page(services.database, HOOK, filters, IdRange(), limit=NUMBER, newest_first=False)
            pages.append([row["id"] for row in rows])
        return pages

    for (since, until), found in zip(asked, _asked(settings, work), strict=True):
        fits = [i for i, at in times.items() if (since is None or at >= since) and (until is None or at <= until)]
        assert found == fits, (since, until)
        assert fits


def test_it_is_done_once(backend: Databases, tmp_path: Path) -> None:
    """What is marked already keeps its mark, and its time."""
    settings = {"data": str(tmp_path), **backend.empty(tmp_path)}

    def work(connection: Any) -> None:
        migrate_to(connection, "0014")
        _fill(connection)
        connection.execute(sa.text("UPDATE deliveries SET recorded_at = 77 WHERE id < 4010 AND id >= 4000"))

    on_database(settings, work)
    known = load(settings, {})
    assert finish(lambda: migrate.migrate(known.sqlite_path, known.database_url))

    async def count(services: Services) -> list[int]:
        row = await services.database.fetch_one(
            sa.text(
                "SELECT count(*) AS every, count(CASE WHEN recorded_at = 77 THEN 1 END) AS kept FROM deliveries"
                " WHERE recorded_at IS NOT NULL"
            )
        )
        assert row is not None
        return [row["every"], row["kept"]]

    assert _asked(settings, count) == [len(LATE), 10]
