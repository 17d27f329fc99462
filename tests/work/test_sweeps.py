"""What is swept now and then: a row that cannot be done holds up no other, and is tried again in the next run."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable

import asyncpg
import pytest
import sqlalchemy as sa
from prometheus_client import REGISTRY

from tests.harness.world import World, make_world
from workhook import asgi
from workhook.core.clock import DAY_MS, now_ms
from workhook.http.calls import Services
from workhook.http.idempotency import idempotency_keys
from workhook.identity import audit
from workhook.identity.context import Write
from workhook.identity.queries import find_account, find_repository
from workhook.identity.schemas import Actor
from workhook.identity.tables import audit_log, projects, tokens
from workhook.storage import sweeping
from workhook.storage.metadata import insert_into
from workhook.work.board import columns
from workhook.work.board.columns import ColumnCreate
from workhook.work.board.tasks import actions as task_actions
from workhook.work.board.tasks.inputs import TaskCreate
from workhook.work.board.tasks.schemas import tasks
from workhook.work.chores import CHORES, run_once
from workhook.work.money.credits import ledger

assert asgi  # every area's tables are on the metadata once it is imported

BASE = "http://work.example.com"


async def _refuse(services: Services, table: str, does: str, condition: str) -> Callable[[], Awaitable[None]]:
    """From now on the database refuses rows that fit; answers what ends that."""
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
    """A project with a task that was deleted, a grant that expires, an old key, an old entry of the audit log and a
    token that is over; the lower the number, the older."""
    world: World = await make_world(services)
    user = await find_account(services.database, world.owner)
    place = await find_repository(services.database, world.organization, world.repository)
    assert user is not None
    assert place is not None
    actor = Actor(user, token_id=0, token_kind="classic", scopes=frozenset())
    async with services.database.transaction() as tx:
        column = await columns.add_column(Write(tx, actor, BASE), world.project_id, ColumnCreate(title="To do"))
        task = await task_actions.create_task(Write(tx, actor, BASE), column.id, TaskCreate(title="Draw"))
        await tx.execute(sa.update(tasks).where(tasks.c.id == task.id).values(deleted_at=number, title=f"t{number}"))
        await tx.execute(sa.update(projects).where(projects.c.id == world.project_id).values(title=f"t{number}"))
        writer = await ledger.lock_ledger(Write(tx, None, BASE, moment=now_ms()), place)
        position, _ = await writer.expire_due()
        await writer.append_grant(position, ledger.EntryDetails(), number, now_ms() + number)
        ended = sa.update(tokens).where(tokens.c.user_id == user.id).values(revoked_at=number, note=f"t{number}")
        await tx.execute(ended)
        token = await tx.fetch_one(sa.select(tokens.c.id).where(tokens.c.user_id == user.id))
        assert token is not None
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
async def test_a_row_that_fails_holds_up_no_other(
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


async def test_where_nothing_can_be_done_it_ends(services: Services) -> None:
    tried: list[tuple[int, int]] = []

    async def fail(limit: int, offset: int) -> int:
        tried.append((limit, offset))
        raise LookupError

    with pytest.raises(LookupError):
        await sweeping.in_batches("nothing", 1000, fail)
    assert tried[:5] == [(1000, 0), (100, 0), (10, 0), (1, 0), (1, 1)]
    assert tried[-1] == (1, sweeping.SKIPPED_MAX)
