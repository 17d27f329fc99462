"""The cost of lists while statistics are out of date: databases collect them some time after inserts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
import pytest
import sqlalchemy as sa

from bench.filling.fill import fill
from bench.filling.plan import LEAST, RowCounts
from bench.filling.rows import NAMES
from tests.harness.databases import Databases
from tests.harness.waiting import finish
from tests.harness.world import with_services
from tests.plans.captured import Asked, Captured
from tests.plans.judges import Judge, PostgresJudge, SqliteJudge
from workhook.events.tables import events
from workhook.hooks import history
from workhook.hooks.tables import deliveries
from workhook.http.calls import Services
from workhook.identity import audit_queries
from workhook.identity.audit_queries import Selection
from workhook.identity.tables import audit_log
from workhook.storage import Reader, Row, dialects
from workhook.storage.index_ranges import HIGHEST, IdRange
from workhook.storage.metadata import bigint_param
from workhook.work.history.activity import queries as activity

DOUBLED, SHOWN, LOOKS = 5, 30, 4_000


class Case(NamedTuple):
    """A table whose rows have an owner, and a function that lists an owner's newest rows."""

    table: sa.Table
    owner: str
    ask: Callable[[Reader, int], Awaitable[Sequence[Row]]]


def _deliveries(**filters: Any) -> Callable[[Reader, int], Awaitable[Sequence[Row]]]:
    wanted = history.Filters(**filters)
    return lambda reader, hook: history.page(reader, hook, wanted, IdRange(), limit=SHOWN, newest_first=True)


def _activity(**filters: Any) -> Callable[[Reader, int], Awaitable[Sequence[Row]]]:
    given = {"event": None, "actor": None, "since": None, **filters}
    return lambda reader, place: activity.find_activity(reader, place, before=HIGHEST, limit=SHOWN, **given)


def _audit(reader: Reader, account: int) -> Awaitable[Sequence[Row]]:
    return audit_queries.read(reader, Selection(account_id=account), limit=SHOWN)


CASES = {
    "deliveries": Case(deliveries, "hook_id", _deliveries()),
    "deliveries-event": Case(deliveries, "hook_id", _deliveries(event=NAMES[0])),
    "deliveries-status": Case(deliveries, "hook_id", _deliveries(status="success")),
    "activity": Case(events, "repository_id", _activity()),
    "activity-event": Case(events, "repository_id", _activity(event=NAMES[0])),
    "activity-actor": Case(events, "repository_id", _activity(actor="person2")),
    "audit": Case(audit_log, "account_id", _audit),
}


def _analyze(judge: Judge, url: str | None) -> None:
    if url is None:
        judge.after_filling()
        return

    async def analyze() -> None:
        connection = await asyncpg.connect(**dialects.connect_options(url))
        try:
            await connection.execute("ANALYZE")
        finally:
            await connection.close()

    finish(analyze)


class Filled(NamedTuple):
    """A database of which each test uses a copy."""

    settings: dict[str, str]
    folder: Path


@pytest.fixture(scope="module")
def filled(backend: Databases, tmp_path_factory: pytest.TempPathFactory) -> Filled:
    folder = tmp_path_factory.mktemp("filled")
    made = Filled(backend.new(folder), folder)
    with_services(
        {"data": str(folder), **made.settings}, lambda services: fill(services.database, RowCounts.of(3 * LEAST))
    )
    return made


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_owners_rows_are_found_without_scanning_newer_rows_of_others(
    backend: Databases, filled: Filled, tmp_path: Path, case: Case
) -> None:
    """One owner had most of the rows. Everything added since belongs to another."""
    settings = {"data": str(tmp_path), **backend.copy(*filled, tmp_path)}
    url = settings.get("database_url")
    judge: Judge = PostgresJudge(url) if url else SqliteJudge(tmp_path / "workhook.db")
    _analyze(judge, url)

    async def ask(services: Services) -> list[Asked]:
        owner = case.table.c[case.owner]
        by_rows = sa.select(owner).where(owner.is_not(None)).group_by(owner).order_by(sa.func.count().desc())
        most, another = [row[0] for row in await services.database.fetch_all(by_rows.limit(2))]
        kept = [each for each in case.table.c if each.name not in ("id", case.owner)]
        names = [case.owner, *(each.name for each in kept)]
        copy = sa.insert(case.table).from_select(names, sa.select(bigint_param("another"), *kept))
        for _ in range(DOUBLED):
            await services.database.write(copy, [{"another": another}])
        reader = Captured(services.database)
        assert 0 < len(await case.ask(reader, most)) <= SHOWN
        return reader.asked

    for asked in with_services(settings, ask):
        for verdict in judge.judge(*asked):
            assert verdict.work <= LOOKS, verdict.plan
    judge.close()
