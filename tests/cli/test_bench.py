"""`workhook bench`: a database of its own is filled, and every list of the API is asked with each of its filters."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import sqlalchemy as sa

from tests.harness import forge
from tests.harness.databases import Databases
from workhook.asgi import described
from workhook.bootstrap import open_services
from workhook.cli import bench
from workhook.cli.asking import NOT_ASKED, Samples, lists, questions
from workhook.cli.error_messages import CliError
from workhook.cli.filling import rows
from workhook.cli.filling.fill import MORE_HOOKS, batches, fill
from workhook.cli.filling.plan import RowCounts
from workhook.core.config import load
from workhook.hooks.tables import deliveries, dispatches
from workhook.http.calls import Services
from workhook.http.operations import WEBHOOK_API, WORK_API
from workhook.storage.metadata import metadata
from workhook.work.board.tasks.schemas import task_buckets, tasks

ROWS = 1200


def _run(*words: str, **environment: str) -> tuple[int, str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WORKHOOK_")}
    done = forge.run(("bench", *words), {**kept, **environment})
    return done.returncode, done.stdout, done.stderr


class Done(NamedTuple):
    """A run of the command in an environment that names a studio. `kept`: what `--keep` was."""

    status: int
    said: str
    wrong: str
    kept: Path
    studio: dict[str, str]


@pytest.fixture(scope="module")
def done(backend: Databases, tmp_path_factory: pytest.TempPathFactory) -> Done:
    """With rows enough for every question to be answered by some."""
    folder = tmp_path_factory.mktemp("bench")
    studio = {"data": str(folder), **backend.new(folder)}
    variables = {f"WORKHOOK_{name.upper()}": value for name, value in studio.items()}
    empty = backend.empty(folder / "empty")
    url = ["--database-url", empty["database_url"]] if empty else []
    words = ("--rows", str(ROWS), "--times", "1", "--json", "--keep", str(folder / "kept"), *url)
    return Done(*_run(*words, **variables), folder / "kept", studio)


@pytest.mark.whole
def test_every_list_is_asked_with_each_of_its_filters(done: Done, backend: Databases) -> None:
    assert done.status == 0, done.said + done.wrong
    told = json.loads(done.said)
    assert (told["rows"], told["database"]) == (ROWS, backend.kind)
    answers: dict[tuple[str, str], Any] = {(each["operation"], each["query"]): each for each in told["answers"]}
    assert {each["status"] for each in told["answers"]} == {200}
    assert {each.name for each in lists()} == {operation for operation, _ in answers}
    for operation, query in (
        ("repository_deliveries_list", "per_page=100 status=failure"),
        ("organization_deliveries_list", f"per_page=100 event={rows.SELDOM_NAME}"),
        ("organization_audit_log_list", f"per_page=100 phrase=action:{rows.SELDOM_AUDITED}"),
        ("list_activity", "per_page=30 cursor=(the next page)"),
        ("list_project_tasks", "per_page=100 sort=title label=urgent"),
        ("search", "q=board per_page=100"),
    ):
        found = answers[operation, query]
        assert 0 < found["returned"] <= 100
        assert found.keys() == {"operation", "query", "status", "times", "p50_ms", "p99_ms", "returned", "slow"}


@pytest.mark.whole
def test_people_get_a_table() -> None:
    status, said, told = _run("--rows", "1000", "--times", "1")
    assert status == 0, told
    assert "operation" in said.splitlines()[0]
    assert "1,000 deliveries, sqlite, filled in" in said.splitlines()[-1]
    assert "workhook: deliveries: 1,000\n" in told


@pytest.mark.whole
@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_what_is_made_can_be_kept(done: Done) -> None:
    assert done.status == 0
    assert (done.kept / "workhook.db").is_file()
    status, _, told = _run("--keep", str(done.kept))
    assert status == 1
    assert "is there already" in told


@pytest.mark.whole
async def test_the_studio_is_left_alone(done: Done) -> None:
    """Its folder and its database are named by variables, which do not count."""
    assert done.status == 0
    async with open_services(load(done.studio, {})) as services:
        for name in ("accounts", "deliveries", "tokens"):
            row = await services.database.fetch_one(sa.select(sa.func.count()).select_from(metadata.tables[name]))
            assert row is not None
            assert row[0] == 0


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
def test_a_database_that_is_not_empty_is_refused(backend: Databases, tmp_path: Path) -> None:
    studio = backend.new(tmp_path)
    status, said, told = _run("--rows", "1000", "--database-url", studio["database_url"])
    assert (status, said) == (1, "")
    assert "the database is not empty" in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--rows", "10"], "--rows is 10."),
        (["--times", "0"], "--times is 0."),
        (["--database-url", "mysql://here/there"], "--database-url is not postgresql://USER@HOST/NAME"),
        (["--database-url", "postgresql://u:p4ss/w0rd@h/x"], "--database-url is not postgresql://USER@HOST/NAME"),
    ],
)
def test_what_cannot_be_is_refused(words: list[str], told: str) -> None:
    status, said, wrong = _run(*words)
    assert (status, said) == (2, "")
    assert told in wrong
    assert "p4ss" not in wrong


def test_a_server_that_is_not_there_is_named() -> None:
    status, said, wrong = _run("--database-url", "postgresql://me@127.0.0.1:9/bench")
    assert (status, said) == (1, "")
    assert "PostgreSQL at 127.0.0.1:9" in wrong


async def test_a_disk_that_is_too_small_is_known_before(tmp_path: Path) -> None:
    with pytest.raises(CliError, match="GiB are needed"):
        await bench._require_room(tmp_path, None, RowCounts.of(10**12))


def test_nothing_that_the_api_lists_is_forgotten() -> None:
    """A parameter without a value to ask it with is a `KeyError`."""
    listed = {each.operation for each in questions(Samples(RowCounts.of(ROWS), 1))}
    every = described()
    takes = {
        each.name for each in every if each.method == "GET" and each.query and each.area in (WORK_API, WEBHOOK_API)
    }
    assert listed | set(NOT_ASKED) == takes
    assert not listed & set(NOT_ASKED)


async def test_the_rows_are_as_the_server_would_have_made_them(services: Services) -> None:
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
