"""Chores: run at startup and at their intervals, never twice at a time, and regardless of failures."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import pkgutil
import sqlite3
from collections.abc import Awaitable, Callable
from itertools import chain

import asyncpg
import pytest
import sqlalchemy as sa
from prometheus_client import REGISTRY

from tests.harness.server import Server
from tests.harness.waiting import WAIT_S, until
from tests.harness.world import World, make_world, must
from workhook import asgi, delivery, hooks, work
from workhook.chores import CHORES, Chore, Chores, run_once
from workhook.core.clock import DAY_MS, now_ms
from workhook.http.calls import Services
from workhook.http.idempotency import idempotency_keys
from workhook.identity import audit
from workhook.identity.context import Write
from workhook.identity.queries import find_account, find_repository
from workhook.identity.schemas import Actor
from workhook.identity.tables import audit_log, projects, tokens
from workhook.storage import sweeping
from workhook.storage.metadata import insert_into, probe
from workhook.work.board import columns
from workhook.work.board.columns import ColumnCreate
from workhook.work.board.tasks import actions as task_actions
from workhook.work.board.tasks.inputs import TaskCreate
from workhook.work.board.tasks.schemas import tasks
from workhook.work.money.credits import actions as task_credits

_write = insert_into(probe, "id", "written_at")


def _runs(name: str, outcome: str) -> float:
    return REGISTRY.get_sample_value("workhook_chore_runs_total", {"chore": name, "outcome": outcome}) or 0


class Counted:
    """A chore whose runs are counted and can be awaited."""

    def __init__(self, *, fails: bool = False, blocks: bool = False) -> None:
        self.began: list[int] = []
        self.at_once = 0
        self.most_at_once = 0
        self._fails, self._blocks = fails, blocks
        self._changed = asyncio.Condition()

    async def run(self, services: Services, now: int) -> int:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            async with self._changed:
                self.began.append(now)
                self._changed.notify_all()
            if self._fails:
                raise ValueError("it does not work today")
            if self._blocks:
                await asyncio.Event().wait()
            return 1
        finally:
            self.at_once -= 1

    async def until_begun(self, times: int) -> None:
        async with asyncio.timeout(WAIT_S), self._changed:
            await self._changed.wait_for(lambda: len(self.began) >= times)


async def test_a_chore_runs_at_startup_and_again_at_its_interval(services: Services) -> None:
    counted, seldom, before = Counted(), Counted(), now_ms()
    chores = Chores(services, [Chore("again", 1, counted.run), Chore("seldom", 3600, seldom.run)])
    chores.start()
    await counted.until_begun(3)
    await chores.stop()
    first, second = counted.began[:2]
    assert before <= first < second <= now_ms()
    assert len(seldom.began) == 1, "each in its turn"
    assert _runs("again", "success") >= 2


async def test_a_failing_chore_is_counted_and_retried(services: Services) -> None:
    failing, other = Counted(fails=True), Counted()
    chores = Chores(services, [Chore("failing", 1, failing.run), Chore("other", 1, other.run)])
    chores.start()
    await failing.until_begun(2)
    await other.until_begun(2)
    await chores.stop()
    assert _runs("failing", "failure") >= 2
    assert _runs("failing", "success") == 0


async def test_a_long_chore_neither_overlaps_itself_nor_delays_others(
    services: Services,
) -> None:
    endless, other = Counted(blocks=True), Counted()
    chores = Chores(services, [Chore("endless", 1, endless.run), Chore("beside", 1, other.run)])
    chores.start()
    await other.until_begun(3)
    assert (len(endless.began), endless.most_at_once) == (1, 1)
    await chores.stop()
    assert endless.at_once == 0  # canceled, not abandoned


async def test_stopping_rolls_back_an_unfinished_chore(services: Services) -> None:
    begun = asyncio.Event()

    async def half(services: Services, now: int) -> int:
        async with services.database.transaction() as tx:
            await tx.execute(_write, {"id": 77, "written_at": now})
            begun.set()
            await asyncio.Event().wait()
        return 1

    chores = Chores(services, [Chore("half", 1, half)])
    chores.start()
    async with asyncio.timeout(WAIT_S):
        await begun.wait()
    await chores.stop()
    rows = await services.database.fetch_all(probe.select())
    assert 77 not in [row["id"] for row in rows]
    async with services.database.transaction() as tx:  # the write lock is free
        await tx.execute(_write, {"id": 77, "written_at": 1})


async def test_a_single_run_returns_the_result_of_the_chore(services: Services) -> None:
    async def three(services: Services, now: int) -> int:
        return now

    assert await run_once(services, Chore("three", 1, three), 3) == 3
    assert await run_once(services, Chore("broken", 1, Counted(fails=True).run), 3) == 0


def test_an_interval_below_one_second_is_refused() -> None:
    with pytest.raises(ValueError, match="too_often"):
        Chore("too_often", 0.5, Counted().run)


def test_a_server_runs_its_chores(server: Server) -> None:
    wanted = 'workhook_chore_runs_total{chore="idempotency_keys",outcome="success"}'
    with server.client(None) as http:
        until(lambda: wanted in http.get("/metrics").text)


def test_every_function_with_the_signature_of_a_chore_is_registered() -> None:
    written = set()
    packages = (pkgutil.walk_packages(each.__path__, f"{each.__name__}.") for each in (work, hooks, delivery))
    for found in chain.from_iterable(packages):
        module = importlib.import_module(found.name)
        for name, function in inspect.getmembers(module, inspect.iscoroutinefunction):
            takes = {key: str(kind) for key, kind in inspect.get_annotations(function).items()}
            if takes == {"services": "Services", "now": "int", "return": "int"} and not name.startswith("_"):
                written.add(function)
    assert len(written) >= 5
    assert written <= {chore.run for chore in CHORES}


# --- sweeps ----------------------------------------------------------------------------------------------------------
# Periodic sweeps: a row that cannot be processed does not delay others, and is retried in the next run.


assert asgi  # importing the app registers the tables of every area

BASE = "http://work.example.com"


async def _refuse(services: Services, table: str, does: str, condition: str) -> Callable[[], Awaitable[None]]:
    """Make the database refuse matching rows, and return a function that ends this."""
    row = "OLD" if does == "DELETE" else "NEW"
    begin = f"CREATE TRIGGER no BEFORE {does} ON {table} FOR EACH ROW WHEN ({row}.{condition})"
    if (url := services.settings.database_url) is None:
        statements = f"{begin} BEGIN SELECT RAISE(ABORT, 'not this one'); END"
        ending = "DROP TRIGGER no"
    else:
        function = "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''not this one''; END'"
        statements, ending = f"{function}; {begin} EXECUTE FUNCTION no()", f"DROP TRIGGER no ON {table}"

    async def run(script: str) -> None:
        if url is None:
            connection = sqlite3.connect(services.settings.data / "workhook.db")
            connection.executescript(script)
            connection.close()
        else:
            other = await asyncpg.connect(url)
            await other.execute(script)
            await other.close()

    await run(statements)
    return lambda: run(ending)


async def _fill(services: Services, number: int) -> None:
    """Create a project and one old row for every sweep.

    The rows are a deleted task, an expiring grant, an idempotency key, an audit entry and a revoked token. Lower
    numbers are older.
    """
    world: World = await make_world(services)
    user = must(await find_account(services.database, world.owner))
    place = must(await find_repository(services.database, world.organization, world.repository))
    actor = Actor(user, token_id=0, token_kind="classic", scopes=frozenset())
    async with services.database.transaction() as tx:
        column = await columns.add_column(Write(tx, actor, BASE), world.project_id, ColumnCreate(title="To do"))
        task = await task_actions.create_task(Write(tx, actor, BASE), column.id, TaskCreate(title="Draw"))
        await tx.execute(sa.update(tasks).where(tasks.c.id == task.id).values(deleted_at=number, title=f"t{number}"))
        await tx.execute(sa.update(projects).where(projects.c.id == world.project_id).values(title=f"t{number}"))
        writer = await task_credits.lock_ledger(Write(tx, None, BASE, moment=now_ms()), place)
        position, _ = await writer.expire_due()
        await writer.append_grant(position, task_credits.EntryDetails(), number, now_ms() + number)
        ended = sa.update(tokens).where(tokens.c.user_id == user.id).values(revoked_at=number, note=f"t{number}")
        await tx.execute(ended)
        token = must(await tx.fetch_one(sa.select(tokens.c.id).where(tokens.c.user_id == user.id)))
        key = {"token_id": token["id"], "key": f"t{number}", "fingerprint": b"", "body": b"", "created_at": number}
        await tx.execute(insert_into(idempotency_keys, *key), key)
        await audit.record(tx, None, "task.create", f"t{number}", account_id=user.id)
        await tx.execute(sa.update(audit_log).where(audit_log.c.target == f"t{number}").values(at=number))


SWEEPS = [
    ("deleted_tasks", "tasks", "DELETE", "title = 't1'"),
    ("idempotency_keys", "idempotency_keys", "DELETE", "key = 't1'"),
    ("tokens_and_sessions", "tokens", "DELETE", "note = 't1'"),
    ("audit_log", "audit_log", "DELETE", "target = 't1'"),
    ("expired_task_credits", "task_credits", "INSERT", "amount_minor = -1"),
    ("deleted_projects", "projects", "DELETE", "title = 't1'"),
]


@pytest.mark.parametrize(("name", "table", "does", "condition"), SWEEPS, ids=[each[0] for each in SWEEPS])
async def test_a_failing_row_does_not_delay_other_rows(
    services: Services, name: str, table: str, does: str, condition: str
) -> None:
    [chore] = [each for each in CHORES if each.name == name]
    for number in range(1, 6):
        await _fill(services, number)
    if table == "projects":
        async with services.database.transaction() as tx:
            await tx.execute(sa.update(projects).values(deleted_at=projects.c.repository_id))
    labels = {"kind": table if name == "tokens_and_sessions" else name}
    before = REGISTRY.get_sample_value("workhook_sweep_skipped_total", labels) or 0
    allow = await _refuse(services, table, does, condition)
    assert await run_once(services, chore, now_ms() + 100 * DAY_MS) == 4
    assert REGISTRY.get_sample_value("workhook_sweep_skipped_total", labels) == before + 1
    await allow()
    assert await run_once(services, chore, now_ms() + 100 * DAY_MS) == 1
    assert await run_once(services, chore, now_ms() + 100 * DAY_MS) == 0


async def test_a_sweep_gives_up_if_no_row_can_be_processed(services: Services) -> None:
    tried: list[tuple[int, int]] = []

    async def fail(limit: int, offset: int) -> int:
        tried.append((limit, offset))
        raise LookupError

    with pytest.raises(LookupError):
        await sweeping.in_batches("nothing", 1000, fail)
    assert tried[:5] == [(1000, 0), (100, 0), (10, 0), (1, 0), (1, 1)]
    assert tried[-1] == (1, sweeping.SKIPPED_MAX)
