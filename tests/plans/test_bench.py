"""`python -m bench lists` fills a database and measures every list of the API with each of its filters."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from bench.databases import Place
from bench.filling import rows
from bench.filling.fill import MORE_HOOKS, batches, fill
from bench.filling.plan import RowCounts
from bench.lists import NOT_ASKED, Samples, list_operations, measure_all, questions
from tests.harness.databases import Databases
from workhook.asgi import described
from workhook.hooks.tables import deliveries, dispatches
from workhook.http.calls import Services
from workhook.http.operations import WEBHOOK_API, WORK_API
from workhook.work.board.tasks.schemas import task_buckets, tasks

ROWS = 1200  # enough that some rows match every query


@pytest.mark.whole
def test_every_list_is_measured_with_each_of_its_filters(backend: Databases, tmp_path: Path) -> None:
    database = backend.empty(tmp_path / "empty")
    place = Place(tmp_path / "lists", database["database_url"] if database else None)
    found = measure_all(place, min(os.sched_getaffinity(0)), RowCounts.of(ROWS), 1, lambda text: None)
    answers: dict[tuple[str, str], Any] = {(each.question.operation, each.question.asked): each for each in found}
    assert {each.status for each in found} == {200}
    assert {each.name for each in list_operations()} == {operation for operation, _ in answers}
    for operation, query in (
        ("repository_deliveries_list", "per_page=100 status=failure"),
        ("organization_deliveries_list", f"per_page=100 event={rows.SELDOM_NAME}"),
        ("organization_audit_log_list", f"per_page=100 phrase=action:{rows.SELDOM_AUDITED}"),
        ("list_activity", "per_page=30 cursor=(the next page)"),
        ("list_project_tasks", "per_page=100 sort=title label=urgent"),
        ("search", "q=board per_page=100"),
    ):
        assert 0 < answers[operation, query].returned <= 100


def test_every_list_of_the_api_is_measured() -> None:
    """A parameter without a sample value is a `KeyError`."""
    listed = {each.operation for each in questions(Samples(RowCounts.of(ROWS), 1))}
    every = described()
    takes = {
        each.name for each in every if each.method == "GET" and each.query and each.area in (WORK_API, WEBHOOK_API)
    }
    assert listed | set(NOT_ASKED) == takes
    assert not listed & set(NOT_ASKED)


async def test_the_inserted_rows_are_consistent(services: Services) -> None:
    plan = RowCounts.of(20_000)
    made = await fill(services.database, plan)
    database = services.database
    for step in batches(plan):
        table = step.statement.table
        row = await database.fetch_one(sa.select(sa.func.count()).select_from(table))
        assert row is not None
        assert row[0] >= step.rows or table.name in ("task_assignees", "task_blockers"), table.name
    lost = sa.select(deliveries.c.id).where(
        ~sa.exists().where(
            dispatches.c.id == deliveries.c.dispatch_id,
            dispatches.c.guid == deliveries.c.guid,
            dispatches.c.hook_id == deliveries.c.hook_id,
            dispatches.c.event_id == deliveries.c.event_id,
        )
    )
    assert await database.fetch_all(lost) == []
    inside = sa.select(sa.func.count()).where(tasks.c.bucket_id == task_buckets.c.id).scalar_subquery()
    assert await database.fetch_all(sa.select(task_buckets.c.id).where(task_buckets.c.size != inside)) == []
    astray = sa.select(tasks.c.id).join(task_buckets, task_buckets.c.id == tasks.c.bucket_id)
    assert await database.fetch_all(astray.where(task_buckets.c.column_id != tasks.c.column_id)) == []
    for number, expected in ((1, plan.task_id(1)), (plan.tasks, plan.task_id(plan.tasks))):
        assert await database.fetch_one(sa.select(tasks.c.id).where(tasks.c.id == expected)) is not None, number
    guid = await database.fetch_one(sa.select(dispatches.c.hook_id).where(dispatches.c.guid == plan.guid(3)))
    assert guid is not None
    assert guid[0] == made.params["first_hook"]
    assert MORE_HOOKS > 100  # more than one page
