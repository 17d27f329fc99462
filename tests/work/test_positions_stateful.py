"""Two columns against two plain lists, through the database: whatever is done in whatever order.

Buckets hold four tasks here, so that few steps fill, split, empty and drop them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tests.harness.databases import Databases
from tests.harness.depth import deep
from tests.harness.world import World, make_world
from workhook.bootstrap import open_services
from workhook.core.config import load
from workhook.http.calls import Services
from workhook.identity.context import Write
from workhook.identity.schemas import Actor
from workhook.identity.tokens.lookup import find_actor
from workhook.storage import Transaction
from workhook.work.board import columns
from workhook.work.board.columns import ColumnCreate
from workhook.work.board.tasks import actions, bulk, column_tasks, queries
from workhook.work.board.tasks.bulk import TaskOperation
from workhook.work.board.tasks.inputs import TaskCreate, TaskEdit
from workhook.work.board.tasks.ordering import column_order
from workhook.work.board.tasks.schemas import task_buckets, tasks

T = TypeVar("T")

BASE = "http://127.0.0.1"
BUCKET = 4

_counted = sa.select(
    task_buckets.c.id,
    task_buckets.c.column_id,
    task_buckets.c.size,
    sa.select(sa.func.count())
    .select_from(tasks)
    .where(tasks.c.bucket_id == task_buckets.c.id)
    .scalar_subquery()
    .label("held"),
)
_crowded = sa.select(tasks.c.id).where(tasks.c.rank % 2 != 0)

which, where = st.integers(0, 10**6), st.integers(0, 30)


def _ids(read: column_tasks.ColumnTasks) -> list[str]:
    """Of the tasks, in their order: behind the sort key a row has what `selected` names first."""
    return [row[2] for row in read.rows]


class Runner:
    """An open database on a loop of its own."""

    def __init__(self, backend: Databases, folder: Path) -> None:
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self.services = self.run(self._open(backend, folder))
        self.world: World = self.run(make_world(self.services))
        self.actor = self.run(self._actor())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    async def _open(self, backend: Databases, folder: Path) -> Services:
        values = {"data": str(folder), **backend.new(folder)}
        return await self._stack.enter_async_context(open_services(load(values, {})))

    async def _actor(self) -> Actor:
        actor = await find_actor(self.services.database, self.world.token)
        assert actor is not None
        return actor

    def close(self) -> None:
        self.run(self._stack.aclose())
        self._runner.close()


@pytest.fixture
def runner(backend: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(column_order, "BUCKET_MAX", BUCKET)
    monkeypatch.setattr(column_order, "BUCKET_FILL", BUCKET - 1)
    runner = Runner(backend, tmp_path)
    yield runner
    runner.close()


class Board(RuleBasedStateMachine):
    """`lists`: what each column should hold."""

    runner: Runner

    @initialize()
    def make(self) -> None:
        async def two_columns(tx: Transaction) -> list[str]:
            return [
                (
                    await columns.add_column(
                        Write(tx, self.runner.actor, BASE), self.runner.world.project_id, ColumnCreate(title="x")
                    )
                ).id
                for _ in range(2)
            ]

        self.columns = self.change(two_columns)
        self.lists: list[list[str]] = [[], []]
        self.trash: list[tuple[int, str]] = []

    def change(self, work: Any) -> Any:
        async def run() -> Any:
            async with self.runner.services.database.transaction() as tx:
                return await work(tx)

        return self.runner.run(run())

    def pick(self, number: int) -> tuple[int, str] | None:
        there = [(side, task_id) for side in (0, 1) for task_id in self.lists[side]]
        return there[number % len(there)] if there else None

    @rule(side=st.sampled_from([0, 1]), position=st.one_of(st.none(), where))
    def create(self, side: int, position: int | None) -> None:
        wanted = TaskCreate(title="x") if position is None else TaskCreate(title="x", position=position)
        task = self.change(
            lambda tx: actions.create_task(Write(tx, self.runner.actor, BASE), self.columns[side], wanted)
        )
        listed = self.lists[side]
        listed.insert(len(listed) if position is None else position, task.id)
        assert task.position == listed.index(task.id)

    @rule(side=st.sampled_from([0, 1]), count=st.integers(1, 12))
    def append_many(self, side: int, count: int) -> None:
        operations = [TaskOperation(action="create", column_id=self.columns[side], title="x") for _ in range(count)]
        made = self.change(lambda tx: bulk.change_tasks(Write(tx, self.runner.actor, BASE), operations))
        self.lists[side] += [task.id for task in made]

    @rule(number=which, side=st.sampled_from([0, 1]), position=st.one_of(st.none(), where))
    def move(self, number: int, side: int, position: int | None) -> None:
        if (found := self.pick(number)) is None:
            return
        source, task_id = found
        edit = TaskEdit(column_id=self.columns[side])
        if position is not None:
            edit.position = position

        async def work(tx: Transaction) -> int:
            taken = await actions.lock_task(tx, self.runner.actor, task_id, edit)
            return (await actions.edit_task(Write(tx, self.runner.actor, BASE), taken, edit)).position

        shown = self.change(work)
        if source != side or position is not None:
            self.lists[source].remove(task_id)
            listed = self.lists[side]
            listed.insert(len(listed) if position is None else position, task_id)
        assert shown == self.lists[side].index(task_id)

    @rule(moves=st.lists(st.tuples(which, st.sampled_from([0, 1]), where), min_size=1, max_size=6))
    def move_many(self, moves: list[tuple[int, int, int]]) -> None:
        operations, expected = [], [list(each) for each in self.lists]
        for number, side, position in moves:
            if (found := self.pick(number)) is None:
                return
            _, task_id = found
            operations.append(TaskOperation(action="move", id=task_id, column_id=self.columns[side], position=position))
            next(each for each in expected if task_id in each).remove(task_id)
            expected[side].insert(position, task_id)
        self.change(lambda tx: bulk.change_tasks(Write(tx, self.runner.actor, BASE), operations))
        self.lists = expected

    @rule(number=which)
    def delete(self, number: int) -> None:
        if (found := self.pick(number)) is None:
            return
        side, task_id = found

        async def work(tx: Transaction) -> None:
            taken = await queries.lock_to_move(tx, self.runner.actor, task_id, None)
            await actions.delete_task(Write(tx, self.runner.actor, BASE), taken)

        self.change(work)
        self.lists[side].remove(task_id)
        self.trash.append((side, task_id))

    @rule(number=which)
    def restore(self, number: int) -> None:
        if not self.trash:
            return
        side, task_id = self.trash.pop(number % len(self.trash))
        self.change(
            lambda tx: actions.restore_task(
                Write(tx, self.runner.actor, BASE), task_id, project_id=self.runner.world.project_id
            )
        )
        self.lists[side].append(task_id)

    @rule(number=which)
    def look(self, number: int) -> None:
        if (found := self.pick(number)) is not None:
            side, task_id = found
            task = self.runner.run(queries.find_task(self.runner.services.database, self.runner.actor, task_id)).task
            assert task.position == self.lists[side].index(task_id)

    @invariant()
    def the_columns_are_the_lists(self) -> None:
        if not hasattr(self, "lists"):
            return
        database, actor = self.runner.services.database, self.runner.actor
        for column_id, wanted in zip(self.columns, self.lists, strict=True):
            read = self.runner.run(column_tasks.read_column(database, actor, column_id, after=None, limit=1000))
            assert _ids(read) == wanted
            assert len(set(map(column_tasks.sort_key, read.rows))) == len(wanted)
        buckets = [row for row in self.runner.run(database.fetch_all(_counted)) if row["column_id"] in self.columns]
        assert all(row["size"] == row["held"] <= BUCKET for row in buckets)
        for column_id, wanted in zip(self.columns, self.lists, strict=True):
            filled = [row["size"] > 0 for row in buckets if row["column_id"] == column_id]
            assert all(filled) or (not wanted and len(filled) == 1)
        assert self.runner.run(database.fetch_all(_crowded)) == []


def test_a_board_is_two_lists(runner: Runner) -> None:
    board = type("RunningBoard", (Board,), {"runner": runner})
    run_state_machine_as_test(
        board,
        settings=settings(
            max_examples=deep(6, 60),
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )


def test_inserts_at_one_place_until_there_is_no_room_between_buckets(runner: Runner) -> None:
    """A bucket comes between the same two more often than there are ranks."""
    database, actor = runner.services.database, runner.actor

    async def work() -> tuple[list[str], list[str], list[int]]:
        async with database.transaction() as tx:
            made = await columns.add_column(Write(tx, actor, BASE), runner.world.project_id, ColumnCreate(title="x"))
            wanted: list[str] = []
            for number in range(200):
                create = TaskCreate(title="x", position=min(number, 9))
                task = await actions.create_task(Write(tx, actor, BASE), made.id, create)
                wanted.insert(9, task.id)
        read = await column_tasks.read_column(database, actor, made.id, after=None, limit=1000)
        rows = await database.fetch_all(_counted)
        return wanted, _ids(read), [row["size"] for row in rows if row["column_id"] == made.id]

    wanted, found, sizes = runner.run(work())
    assert found == wanted
    assert len(sizes) > 40
    assert sum(sizes) == len(wanted)
