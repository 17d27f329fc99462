"""Moving tasks within a column, between columns, and concurrently."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
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
from tests.harness.world import World, make_world, must
from tests.work.studio import JsonObject, Studio
from workhook.bootstrap import open_services
from workhook.core.config import load
from workhook.http.calls import Services
from workhook.identity.context import Write
from workhook.identity.schemas import Actor
from workhook.identity.tokens.lookup import find_actor
from workhook.storage import Transaction
from workhook.work.board import columns
from workhook.work.board.columns import ColumnCreate
from workhook.work.board.tasks import actions, bulk, column_order, column_tasks, queries
from workhook.work.board.tasks.bulk import TaskOperation
from workhook.work.board.tasks.inputs import TaskCreate, TaskEdit
from workhook.work.board.tasks.schemas import task_buckets, tasks

AT_ONCE = 50


def filled(studio: Studio, column_id: str, count: int) -> list[str]:
    """Create tasks at the end of the column and return their IDs."""
    body = {"operations": [{"action": "create", "column_id": column_id, "title": str(each)} for each in range(count)]}
    return [each["id"] for each in studio.owner.post("/tasks/bulk", json=body)["tasks"]]


def order(studio: Studio, column_id: str) -> list[str]:
    """Return the IDs in order, checking that the positions match."""
    tasks = studio.owner.get(f"/columns/{column_id}/tasks")["tasks"]
    assert [each["position"] for each in tasks] == list(range(len(tasks)))
    return [each["id"] for each in tasks]


def move(studio: Studio, task_id: str, **to: Any) -> JsonObject:
    moved: JsonObject = studio.owner.patch(f"/tasks/{task_id}", json=to)["task"]
    return moved


@pytest.mark.parametrize(("which", "to"), [(0, 4), (4, 0), (1, 3), (3, 1), (2, 2), (0, 99)])
def test_a_task_can_be_moved_within_its_column(studio: Studio, which: int, to: int) -> None:
    column_id = studio.column()
    wanted = filled(studio, column_id, 5)
    studio.happened()
    task_id = wanted.pop(which)
    wanted.insert(to, task_id)
    moved = move(studio, task_id, position=to)
    assert moved["position"] == min(to, 4)
    assert order(studio, column_id) == wanted
    events = studio.happened()
    if which == to:
        assert events == []
    else:
        [event] = events
        assert (event.action, event.record) == ("moved", moved)
        assert event.changes == {"position": {"from": which, "to": min(to, 4)}}


def test_a_task_can_be_moved_to_another_column(studio: Studio) -> None:
    here, there = studio.column(), studio.column("Doing")
    going, waiting = filled(studio, here, 3), filled(studio, there, 3)
    studio.happened()
    last = move(studio, going[1], column_id=there)
    assert (last["column"], last["position"]) == ({"id": there, "title": "Doing"}, 3)
    middle = move(studio, going[0], column_id=there, position=1)
    assert order(studio, there) == [waiting[0], going[0], *waiting[1:], going[1]]
    assert order(studio, here) == [going[2]]
    first, second = studio.happened()
    assert (first.action, first.record) == ("moved", last)
    assert first.changes == {"column_id": {"from": here, "to": there}, "position": {"from": 1, "to": 3}}
    assert (second.action, second.record) == ("moved", middle)
    assert second.changes == {"column_id": {"from": here, "to": there}, "position": {"from": 0, "to": 1}}


def test_an_edit_with_a_move_is_one_event(studio: Studio) -> None:
    here, there = studio.column(), studio.column("Doing")
    [task_id] = filled(studio, here, 1)
    studio.happened()
    edit = {"column_id": there, "title": "New", "assignees": [studio.world.owner]}
    moved = studio.owner.patch(f"/tasks/{task_id}", json=edit)["task"]
    [event] = studio.happened()
    assert (event.action, event.record) == ("moved", moved)
    assert set(event.changes) == {"column_id", "title", "assignees"}


@pytest.mark.parametrize("flags", [{"stage": "done"}, {"finished": True}])
def test_a_task_entering_a_done_column_is_completed(studio: Studio, flags: JsonObject) -> None:
    todo, done, archive = studio.column(), studio.column("Done", **flags), studio.column("Old", stage="done")
    [task_id] = filled(studio, todo, 1)
    studio.happened()
    completed = studio.owner.patch(f"/tasks/{task_id}", json={"column_id": done, "title": "New"})["task"]
    assert completed["completed_at"] is not None
    kept = move(studio, task_id, column_id=archive)
    assert kept["completed_at"] == completed["completed_at"]
    reopened = move(studio, task_id, column_id=todo)
    assert reopened["completed_at"] is None
    events = studio.happened()
    assert [each.action for each in events] == ["completed", "moved", "reopened"]
    assert [each.record for each in events] == [completed, kept, reopened]
    assert events[0].changes["completed_at"] == {"from": None, "to": completed["completed_at"]}
    assert set(events[0].changes) == {"title", "column_id", "completed_at"}


def test_a_task_created_in_a_done_column_is_completed(studio: Studio) -> None:
    done = studio.column("Done", stage="done")
    studio.happened()
    made = studio.owner.post(f"/columns/{done}/tasks", json={"title": "x"})["task"]
    assert made["completed_at"] is not None
    [event] = studio.happened()
    assert (event.action, event.record) == ("created", made)


def test_making_a_column_done_leaves_its_tasks_alone(studio: Studio) -> None:
    column_id = studio.column()
    task_id, other = filled(studio, column_id, 2)
    studio.owner.patch(f"/columns/{column_id}", json={"stage": "done"})
    assert studio.owner.get(f"/tasks/{task_id}")["task"]["completed_at"] is None
    assert move(studio, task_id, position=1)["completed_at"] is None
    done = studio.column("Done", stage="done")
    completed = move(studio, other, column_id=done)["completed_at"]
    studio.owner.patch(f"/columns/{done}", json={"stage": None})
    assert studio.owner.get(f"/tasks/{other}")["task"]["completed_at"] == completed


def test_columns_start_and_finish_timers(studio: Studio) -> None:
    todo = studio.column()
    doing, done = studio.column("Doing", start_timer=True), studio.column("Done", stage="done")
    task_id, other = filled(studio, todo, 2)
    paused, elsewhere, theirs = (
        caller.post(f"{studio.project}/timesheets", json={"task_id": each})["timesheet"]["id"]
        for caller, each in ((studio.owner, task_id), (studio.owner, other), (studio.member, task_id))
    )
    studio.happened()

    def told() -> list[str]:
        return [f"{each.name} {each.action}" for each in studio.happened()]

    move(studio, task_id, column_id=doing)
    move(studio, task_id, position=5)
    assert told() == ["task moved", "timesheet paused", "timesheet started"], "the owner's other timer is paused"
    move(studio, task_id, column_id=done)
    assert told() == ["task completed", "timesheet finished", "timesheet finished"], "those of everybody finish"
    found = {each["id"]: each for each in studio.owner.get(f"{studio.project}/timesheets")["timesheets"]}
    [started] = found.keys() - {paused, elsewhere, theirs}
    assert [found[each]["finished"] for each in (paused, elsewhere, theirs, started)] == [False, False, True, True]
    assert found[started]["task"]["id"] == task_id


def test_concurrent_moves_leave_at_most_one_running_timer_per_user(studio: Studio) -> None:
    doing, done = studio.column("Doing", start_timer=True), studio.column("Done", stage="done")
    tasks, callers = filled(studio, doing, 4), (studio.owner, studio.member, studio.add(member="member"))

    def work(number: int) -> None:
        body = {"column_id": (doing, done)[number // 4 % 2]}
        callers[number % 3].patch(f"/tasks/{tasks[number % 4]}", json=body)

    run_concurrently(work, range(36))
    running = studio.owner.get(f"{studio.project}/timesheets", params={"is_active": "true"})["timesheets"]
    users = [each["user"]["id"] for each in running]
    assert len(users) == len(set(users))


def test_moving_a_task_starts_no_timer_for_a_client(studio: Studio) -> None:
    todo, doing = studio.column(), studio.column("Doing", start_timer=True)
    made = studio.client.post(f"/columns/{todo}/tasks", json={"title": "Wish"})["task"]
    studio.happened()
    studio.client.patch(f"/tasks/{made['id']}", json={"column_id": doing})
    assert [each.name for each in studio.happened()] == ["task"]


def test_many_inserts_at_one_position_keep_the_order(studio: Studio) -> None:
    """There are more inserts than free ranks between two tasks, so the ranks of the bucket are respaced."""
    column_id = studio.column()
    wanted = filled(studio, column_id, 10)
    for number in range(40):
        made = studio.owner.post(f"/columns/{column_id}/tasks", json={"title": str(number), "position": 5})["task"]
        assert made["position"] == 5
        wanted.insert(5, made["id"])
    assert order(studio, column_id) == wanted


def test_a_running_timer_keeps_running(studio: Studio) -> None:
    doing, task_id = studio.column("Doing", start_timer=True), studio.task()
    studio.owner.post(f"{studio.project}/timesheets", json={"task_id": task_id})
    studio.happened()
    move(studio, task_id, column_id=doing)
    assert [event.name for event in studio.happened()] == ["task"]


def test_completing_a_task_leaves_other_timers_alone(studio: Studio) -> None:
    done, task_id, other = studio.column("Done", stage="done"), studio.task(), studio.task()
    timer = studio.member.post(f"{studio.project}/timesheets", json={"task_id": other})["timesheet"]["id"]
    move(studio, task_id, column_id=done)
    found = {each["id"]: each for each in studio.owner.get(f"{studio.project}/timesheets")["timesheets"]}
    assert (found[timer]["is_active"], found[timer]["finished"]) == (True, False)


# --- paging -----------------------------------------------------------------------------------------------------------


def pages(studio: Studio, path: str, per_page: int, between: Callable[[], object] = lambda: None) -> Iterator[Any]:
    """Yield the pages of tasks, calling `between` after each."""
    target = f"{path}?per_page={per_page}"
    while True:
        response = studio.owner.call("GET", target)
        assert response.status_code == 200, response.text
        yield response.json()["tasks"]
        if "next" not in response.links:
            return
        target = response.links["next"]["url"].split("/api/v1", 1)[1]
        between()


def test_tasks_added_meanwhile_neither_hide_nor_repeat_others(studio: Studio) -> None:
    column_id = studio.column()
    wanted = filled(studio, column_id, 6)
    in_front = {"title": "in front", "position": 0}
    found = [
        each["id"]
        for page in pages(
            studio,
            f"/columns/{column_id}/tasks",
            2,
            lambda: studio.owner.post(f"/columns/{column_id}/tasks", json=in_front),
        )
        for each in page
    ]
    assert found == wanted


def test_a_list_without_paging_is_limited(studio: Studio) -> None:
    column_id = studio.column()
    wanted = filled(studio, column_id, 1000) + filled(studio, column_id, 5)
    response = studio.owner.call("GET", f"/columns/{column_id}/tasks")
    assert [each["id"] for each in response.json()["tasks"]] == wanted[:1000]
    rest = studio.owner.call("GET", response.links["next"]["url"].split("/api/v1", 1)[1]).json()["tasks"]
    assert [(each["id"], each["position"]) for each in rest] == list(zip(wanted[1000:], range(1000, 1005), strict=True))


def test_an_invalid_cursor_is_refused(studio: Studio) -> None:
    cases: list[str] = ["v1_", "v1_W10", "v1_WzFd", "nonsense", "v1_WzEwMDAwMDAwMDAwMDAwMDAwMDAwMDAsMV0"]
    column_id = studio.column()
    for cursor in cases:
        assert studio.owner.faults("GET", f"/columns/{column_id}/tasks", params={"cursor": cursor}) == {
            "cursor": "invalid"
        }


# --- concurrency ------------------------------------------------------------------------------------------------------


def run_concurrently(work: Callable[[Any], Any], each: Sequence[Any]) -> list[Any]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(work, each))


def test_concurrent_moves_keep_the_order_of_the_others(studio: Studio) -> None:
    column_id = studio.column()
    before = filled(studio, column_id, 200)
    shuffle = random.Random(2)
    moved = shuffle.sample(before, AT_ONCE)
    run_concurrently(lambda task_id: move(studio, task_id, position=shuffle.randrange(200)), moved)
    after = order(studio, column_id)
    assert sorted(after) == sorted(before)
    assert [each for each in after if each not in moved] == [each for each in before if each not in moved]


def test_concurrent_moves_between_two_columns(studio: Studio) -> None:
    """Moves go in both directions, so they compete for the locks of both columns."""
    here, there = studio.column(), studio.column("There")
    mine, theirs = filled(studio, here, 60), filled(studio, there, 60)
    ways = [(task_id, there) for task_id in mine[:25]] + [(task_id, here) for task_id in theirs[:25]]
    random.Random(3).shuffle(ways)
    run_concurrently(lambda way: move(studio, way[0], column_id=way[1], position=10), ways)
    left, right = order(studio, here), order(studio, there)
    assert sorted(left) == sorted(mine[25:] + theirs[:25])
    assert sorted(right) == sorted(theirs[25:] + mine[:25])
    assert [each for each in left if each in mine] == mine[25:]
    assert [each for each in right if each in theirs] == theirs[25:]


def test_concurrent_moves_of_one_task(studio: Studio) -> None:
    columns = [studio.column(title) for title in "ABC"]
    others = [filled(studio, each, 5) for each in columns]
    [task_id] = filled(studio, columns[0], 1)
    studio.happened()
    run_concurrently(lambda number: move(studio, task_id, column_id=columns[number % 3], position=2), range(24))
    found = [order(studio, each) for each in columns]
    assert [[each for each in listed if each != task_id] for listed in found] == others
    assert sum(listed.count(task_id) for listed in found) == 1
    where = columns[0]
    for event in studio.happened():  # each starts where the previous one ended
        assert event.action == "moved"
        column_id = event.changes.get("column_id", {"from": where, "to": where})
        assert column_id["from"] == where
        where = column_id["to"]
    assert studio.owner.get(f"/tasks/{task_id}")["task"]["column"]["id"] == where


def test_concurrent_insertions_and_deletions(studio: Studio) -> None:
    column_id = studio.column()
    before = filled(studio, column_id, 100)
    gone = before[10:30]

    def work(number: int) -> str | None:
        if number < len(gone):
            studio.owner.delete(f"/tasks/{gone[number]}")
            return None
        made = studio.owner.post(f"/columns/{column_id}/tasks", json={"title": "new", "position": number})
        return str(made["task"]["id"])

    new = [each for each in run_concurrently(work, range(AT_ONCE)) if each is not None]
    after = order(studio, column_id)
    assert sorted(after) == sorted([each for each in before if each not in gone] + new)
    assert [each for each in after if each not in new] == [each for each in before if each not in gone]


def test_concurrent_edits_and_moves_are_all_applied(studio: Studio) -> None:
    column_id, other = studio.column(), studio.column("Other")
    task_ids = filled(studio, column_id, 10)
    edits: list[tuple[str, JsonObject]] = [(each, {"title": f"new {each}"}) for each in task_ids]
    edits += [(each, {"column_id": other}) for each in task_ids]
    edits += [(each, {"labels": ["x"]}) for each in task_ids]
    run_concurrently(lambda edit: studio.owner.patch(f"/tasks/{edit[0]}", json=edit[1]), edits)
    for each in studio.owner.get(f"/columns/{other}/tasks")["tasks"]:
        assert (each["title"], each["labels"]) == (f"new {each['id']}", ["x"])
    assert sorted(order(studio, other)) == sorted(task_ids)


# --- positions stateful ----------------------------------------------------------------------------------------------
# Model test: two columns in the database against two plain lists, with random operations.
# Buckets hold only four tasks here, so that a few steps fill, split, empty and drop them.


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
    """Return the task IDs in order. The columns named by `selected` follow the two sort key columns of each row."""
    return [row[2] for row in read.rows]


class Runner:
    """An open database on its own event loop."""

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
        return must(await find_actor(self.services.database, self.world.token))

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
    """The model. `lists` contains the expected tasks of each column."""

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


def test_a_board_matches_two_lists(runner: Runner) -> None:
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


def test_inserts_at_one_position_until_no_rank_is_left_between_buckets(runner: Runner) -> None:
    """Buckets are inserted between the same two more often than there are ranks."""
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
