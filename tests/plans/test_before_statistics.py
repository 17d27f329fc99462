"""What is looked at while the database's statistics are behind: they are collected some time after rows came."""

from __future__ import annotations

from pathlib import Path

import asyncpg
import pytest
import sqlalchemy as sa

from tests.harness.databases import Databases
from tests.harness.waiting import finish
from tests.harness.world import with_services
from tests.plans.captured import Asked, Captured
from tests.plans.judges import Judge, PostgresJudge, SqliteJudge
from workhook.cli.filling.fill import fill
from workhook.cli.filling.plan import LEAST, PROJECTS, Plan
from workhook.hooks import history
from workhook.hooks.tables import deliveries
from workhook.http.calls import Services
from workhook.storage import dialects
from workhook.storage.moments import Bounds

DOUBLED, SHOWN, LOOKS = 5, 30, 600

_columns = [each for each in deliveries.c if each.name not in ("id", "hook_id")]
_of_another = sa.insert(deliveries).from_select(
    ["hook_id", *(each.name for each in _columns)], sa.select(sa.bindparam("hook", type_=sa.BigInteger), *_columns)
)


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


@pytest.mark.parametrize("newest_first", [True, False])
def test_a_webhook_that_went_quiet_is_not_looked_for_among_the_newest(
    backend: Databases, tmp_path: Path, newest_first: bool
) -> None:
    """It had a third of all deliveries. Those of another have come since."""
    settings = {"data": str(tmp_path), **backend.new(tmp_path)}
    url = settings.get("database_url")
    judge: Judge = PostgresJudge(url) if url else SqliteJudge(tmp_path / "workhook.db")

    async def quiet(services: Services) -> int:
        places = await fill(services.database, Plan.of(LEAST))
        return int(places.params["first_hook"]) + 2 * PROJECTS

    hook = with_services(settings, quiet)
    _analyze(judge, url)

    async def ask(services: Services) -> list[Asked]:
        for _ in range(DOUBLED):
            await services.database.write([(_of_another, [{"hook": hook - 1}])])
        reader = Captured(services.database)
        found = await history.page(reader, hook, history.Filters(), Bounds(), limit=SHOWN, newest_first=newest_first)
        assert len(found) == SHOWN
        return reader.asked

    for asked in with_services(settings, ask):
        for verdict in judge.judge(*asked):
            assert verdict.work <= LOOKS, verdict.plan
    judge.close()
