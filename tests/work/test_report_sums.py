"""Reports read stored sums, which always match the timesheets themselves."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa

from tests.harness.world import World, make_world, must
from tests.work.timesheets_kit import insert_row
from workhook import asgi
from workhook.core.clock import DAY_MS, HOUR_MS, now_ms
from workhook.http.calls import Services
from workhook.identity.context import Write
from workhook.identity.queries import find_account, find_repository
from workhook.identity.schemas import Account, Actor
from workhook.identity.tables import memberships, projects
from workhook.storage import Row, Transaction
from workhook.storage.metadata import insert_into
from workhook.work.board import columns
from workhook.work.board.columns import ColumnCreate
from workhook.work.board.tasks import actions as task_actions
from workhook.work.board.tasks.inputs import TaskCreate
from workhook.work.board.tasks.schemas import tasks
from workhook.work.history import time_reports as reports
from workhook.work.kernel.durations import amount_minor
from workhook.work.money.invoices.schemas import invoices
from workhook.work.time.timesheets import rules, sums
from workhook.work.time.timesheets.reports import GroupBy, ReportGroup, ReportQuery, Spent
from workhook.work.time.timesheets.schemas import timesheets
from workhook.work.time.timesheets.sums import timesheet_changes, timesheet_sums

assert asgi  # importing the app registers the tables of every area

BASE = "http://work.example.com"
START = 1_700_000_000_000
DAYS = 100
COLUMNS = [each.name for each in timesheets.columns]
_insert = insert_into(timesheets, *COLUMNS)


class Place:
    """A project with two tasks and an invoice."""

    def __init__(
        self, repository_id: int, project_id: str, task_ids: list[str], invoice_id: str, currency: str
    ) -> None:
        self.repository_id, self.project_id = repository_id, project_id
        self.task_ids, self.invoice_id, self.currency = task_ids, invoice_id, currency


class Scene:
    """Two organizations with different currencies. The owner of the second is also a member of the first."""

    def __init__(self, services: Services, people: list[Account], places: list[Place]) -> None:
        self.services, self.people, self.places = services, people, places
        self.number = 0

    def actor(self, person: int) -> Actor:
        return Actor(self.people[person], token_id=0, token_kind="classic", scopes=frozenset())

    def row(self, chance: random.Random, place: Place | None = None) -> dict[str, Any]:
        self.number += 1
        start, chosen = START + chance.randrange(DAYS * DAY_MS), place or chance.choice(self.places)
        if chance.random() < 0.2:  # at midnight
            start -= start % DAY_MS
        duration = chance.randrange(36_000) * 1000
        return {
            "id": f"tms_{self.number:06}",
            "repository_id": chosen.repository_id,
            "task_id": chance.choice([*chosen.task_ids, None]),
            "user_id": chance.choice(self.people).id,
            "start_time": start,
            "end_time": start + duration,
            "running_since": None,
            "duration_ms": duration,
            "is_active": False,
            "finished": True,
            "notes": None,
            "billable": chance.random() < 0.5,
            "billable_rate_minor": chance.choice([None, 0, 8000, 3333]),
            "rate_source": None,
            "invoice_id": chance.choice([None, None, chosen.invoice_id]),
            "created_at": start,
            "updated_at": start,
        }

    async def rows(self) -> Sequence[Row]:
        return await self.services.database.fetch_all(sa.select(timesheets).order_by(timesheets.c.id))


async def _place(services: Services, world: World, owner: Account, currency: str) -> Place:
    actor = Actor(owner, token_id=0, token_kind="classic", scopes=frozenset())
    found = must(await find_repository(services.database, world.organization, world.repository))
    async with services.database.transaction() as tx:
        column = await columns.add_column(Write(tx, actor, BASE), world.project_id, ColumnCreate(title="To do"))
        made = [
            await task_actions.create_task(Write(tx, actor, BASE), column.id, TaskCreate(title=title))
            for title in ("Draw", "Paint")
        ]
    invoice_id = f"inv_{found.id}"
    await insert_row(
        services, invoices, id=invoice_id, repository_id=found.id, account_id=found.owner.id, user_id=owner.id,
        invoice_number=invoice_id, currency="JPY",
    )  # fmt: skip
    async with services.database.transaction() as tx:
        await tx.execute(sa.update(projects).where(projects.c.repository_id == found.id).values(currency=currency))
    return Place(found.id, world.project_id, [each.id for each in made], invoice_id, currency)


@pytest.fixture
async def scene(services: Services) -> Scene:
    people, places, organizations = list[Account](), list[Place](), list[int]()
    for currency in ("EUR", "CHF"):
        world = await make_world(services)
        owner = must(await find_account(services.database, world.owner))
        organization = must(await find_account(services.database, world.organization))
        people.append(owner)
        organizations.append(organization.id)
        places.append(await _place(services, world, owner, currency))
    join = insert_into(memberships, "organization_id", "user_id", "role", "created_at")
    values = {"organization_id": organizations[0], "user_id": people[1].id, "role": "member", "created_at": 1}
    async with services.database.transaction() as tx:
        await tx.execute(join, values)
    return Scene(services, people, places)


# --- expected reports ------------------------------------------------------------------------------------------------


def _spent(row: Row, now: int, currency: str) -> Spent:
    times = rules.Times(
        row["start_time"], running_since=row["running_since"], counted_ms=row["duration_ms"], is_active=row["is_active"]
    )
    duration, rate, billable = rules.elapsed_ms(times, now), row["billable_rate_minor"], bool(row["billable"])
    amount = amount_minor(duration, rate) if billable and rate is not None else 0
    return Spent(1, duration, duration if billable else 0, ((currency, amount),))


def _fits(row: Row, scene: Scene, params: Mapping[str, Any]) -> bool:
    logins = {each.id: each.login for each in scene.people}
    projects = {each.repository_id: each.project_id for each in scene.places}
    return bool(
        params.get("from", 0) <= row["start_time"] < params.get("to", 1 << 60)
        and params.get("user", logins[row["user_id"]]) == logins[row["user_id"]]
        and params.get("project_id", projects[row["repository_id"]]) == projects[row["repository_id"]]
        and params.get("billable", bool(row["billable"])) == bool(row["billable"])
        and params.get("invoiced", row["invoice_id"] is not None) == (row["invoice_id"] is not None)
    )


def _expected(
    scene: Scene, rows: Sequence[Row], person: int, params: Mapping[str, Any], now: int, *, by_day: bool = False
) -> dict[Any, Spent]:
    seen = {each.repository_id for each in (scene.places[:1], scene.places)[person]}
    zone = ZoneInfo(params["timezone"]) if "timezone" in params else UTC
    logins = {each.id: each.login for each in scene.people}
    projects = {each.repository_id: each.project_id for each in scene.places}
    currencies = {each.repository_id: each.currency for each in scene.places}
    found: dict[Any, Spent] = {}
    for row in rows:
        if row["repository_id"] in seen and _fits(row, scene, params):
            day = datetime.fromtimestamp(row["start_time"] / 1000, zone).date()
            key: Any = {
                "user": logins[row["user_id"]],
                "project": projects[row["repository_id"]],
                "task": (projects[row["repository_id"]], row["task_id"]),
                "day": day,
            }[params["group_by"]]
            key = (key, day) if by_day else key
            found[key] = found.get(key, Spent()).plus(_spent(row, now, currencies[row["repository_id"]]))
    return found


def _key_of(group: ReportGroup, group_by: str) -> Any:
    if group_by == "task":
        assert group.project is not None
        return group.project.id, group.task.id if group.task else None
    told = {"user": group.user and group.user.username, "project": group.project and group.project.id}
    return told.get(group_by, group.day)


async def _check(scene: Scene, person: int, params: Mapping[str, Any]) -> None:
    now = now_ms()
    query = ReportQuery(**{"from_" if name == "from" else name: value for name, value in params.items()})
    told = await reports.sum_timesheets(scene.services.database, scene.actor(person), query, now=now, limit=10_000)
    found = {_key_of(each, params["group_by"]): each.spent for each in told}
    assert len(found) == len(told)
    rows = await scene.rows()
    assert found == _expected(scene, rows, person, params, now), params
    await _check_unbilled(scene, rows, person, params, now)
    told = await reports.sum_timesheets(
        scene.services.database, scene.actor(person), query, now=now, limit=10_000, by_day=True
    )
    by_day = {(_key_of(each, params["group_by"]), each.day): each.spent for each in told}
    assert by_day == _expected(scene, rows, person, params, now, by_day=True), params


async def _check_unbilled(scene: Scene, rows: Sequence[Row], person: int, params: Mapping[str, Any], now: int) -> None:
    """Check the time that can be put on an invoice."""
    free = [row for row in rows if row["finished"] and row["billable"] and row["invoice_id"] is None]
    others = {name: value for name, value in params.items() if name not in ("billable", "invoiced")}
    query = ReportQuery(**{"from_" if name == "from" else name: value for name, value in others.items()})
    told = await reports.sum_timesheets(
        scene.services.database, scene.actor(person), query, now=now, limit=10_000, unbilled=True
    )
    found = {_key_of(each, params["group_by"]): each.spent for each in told}
    assert found == _expected(scene, free, person, others, now), others


def _queries(scene: Scene, chance: random.Random) -> Iterator[dict[str, Any]]:
    """Yield every grouping with random filters."""
    for group_by in ("user", "task", "project", "day"):
        params: dict[str, Any] = {"group_by": group_by}
        yield params
        optional = {
            "user": chance.choice(scene.people).login,
            "project_id": chance.choice(scene.places).project_id,
            "billable": chance.random() < 0.5,
            "invoiced": chance.random() < 0.5,
            "from": START + chance.randrange(DAYS * DAY_MS),
            "to": START + chance.randrange(DAYS * DAY_MS),
            "timezone": chance.choice(["Europe/Vienna", "Asia/Kathmandu", "America/St_Johns"]),
        }
        for _ in range(4):
            chosen = {name: value for name, value in optional.items() if chance.random() < 0.4}
            yield params | chosen
        day = DAY_MS * (START // DAY_MS + chance.randrange(DAYS))
        yield params | {"from": day, "to": day + DAY_MS * chance.choice([1, 31, 70])}


async def _change(scene: Scene, tx: Transaction, chance: random.Random) -> None:
    listed = await tx.fetch_all(
        sa.select(timesheets.c.id, timesheets.c.user_id, timesheets.c.is_active).order_by(timesheets.c.id)
    )
    kind = chance.choice(["add", "add", "add", "run", "end", "edit", "edit", "bill", "away", "give", "orphan"])
    one = chance.choice(listed) if listed else None
    if kind == "add" or one is None:
        await tx.execute(_insert, scene.row(chance))
        return
    this = sa.update(timesheets).where(timesheets.c.id == one["id"])
    values = scene.row(chance)
    if kind == "run" and one["user_id"] not in {each["user_id"] for each in listed if each["is_active"]}:
        running = {"is_active": True, "finished": False, "end_time": None, "running_since": START}
        await tx.execute(this.values(running))
    elif kind == "end":
        ended = {"is_active": False, "running_since": None, "duration_ms": values["duration_ms"]}
        await tx.execute(this.values(ended))
    elif kind == "edit":
        names = chance.sample(["start_time", "duration_ms", "billable", "billable_rate_minor", "notes"], 2)
        await tx.execute(this.values({name: values[name] for name in names}))
    elif kind == "bill":
        await tx.execute(this.values(invoice_id=chance.choice([None, scene.places[0].invoice_id])))
    elif kind == "away":
        await tx.execute(sa.delete(timesheets).where(timesheets.c.id == one["id"]))
    elif kind == "give" and not one["is_active"]:
        await tx.execute(this.values(user_id=chance.choice(scene.people).id))
    elif kind == "orphan" and chance.random() < 0.1:
        for task_id in chance.choice(scene.places).task_ids[:1]:
            await tx.execute(sa.delete(tasks).where(tasks.c.id == task_id))
        for place in scene.places:
            rows = await tx.fetch_all(
                sa.select(tasks.c.id).where(tasks.c.repository_id == place.repository_id).order_by(tasks.c.id)
            )
            place.task_ids = [each["id"] for each in rows]


@pytest.mark.variants("seed")
@pytest.mark.parametrize("seed", range(3))
async def test_a_report_matches_the_timesheets(scene: Scene, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(sums, "BATCH", 7)
    for _ in range(6):
        for _ in range(25):
            async with scene.services.database.transaction() as tx:
                await _change(scene, tx, chance)
        for summed in (False, True):
            if summed:
                await sums.add_changes(scene.services, now_ms())
                assert await scene.services.database.fetch_one(sa.select(timesheet_changes.c.id)) is None
            for params in _queries(scene, chance):
                for person in (0, 1):
                    await _check(scene, person, params)


async def test_empty_sums_are_removed(scene: Scene) -> None:
    chance = random.Random(1)
    async with scene.services.database.transaction() as tx:
        for _ in range(30):
            await tx.execute(_insert, scene.row(chance))
    await sums.add_changes(scene.services, now_ms())
    assert await scene.services.database.fetch_one(sa.select(timesheet_sums.c.period)) is not None
    async with scene.services.database.transaction() as tx:
        await tx.execute(sa.delete(timesheets))
    await _check(scene, 1, {"group_by": "user"})
    await sums.add_changes(scene.services, now_ms())
    assert await scene.services.database.fetch_one(sa.select(timesheet_sums.c.period)) is None


async def test_reports_are_correct_during_concurrent_writes_and_summing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each writer moves time between timesheets within a transaction, so the total is constant at every moment."""
    monkeypatch.setattr(sums, "BATCH", 5)
    chance = random.Random(2)
    made = [scene.row(chance, scene.places[0]) | {"duration_ms": 10 * HOUR_MS} for _ in range(12)]
    async with scene.services.database.transaction() as tx:
        for each in made:
            await tx.execute(_insert, each)
    total = len(made) * 10 * HOUR_MS
    writing = True

    async def move(number: int) -> None:
        mine = random.Random(number)
        for _ in range(20):
            first, second = sorted(mine.sample([each["id"] for each in made], 2))
            spent = mine.randrange(900) * 1000

            async def change(tx: Transaction, pairs: Any = ((first, -spent), (second, spent))) -> None:
                for timesheet_id, more in pairs:
                    values = {"duration_ms": timesheets.c.duration_ms + more, "start_time": START + mine.randrange(9)}
                    await tx.execute(sa.update(timesheets).where(timesheets.c.id == timesheet_id).values(values))

            await scene.services.database.in_transaction(change)

    async def sum_up() -> None:
        while writing:
            await sums.add_changes(scene.services, now_ms())

    async def report(group_by: GroupBy) -> None:
        while writing:
            query = ReportQuery(group_by=group_by)
            groups = await reports.sum_timesheets(
                scene.services.database, scene.actor(0), query, now=now_ms(), limit=10_000
            )
            assert sum(each.spent.duration_ms for each in groups) == total
            assert sum(each.spent.timesheets for each in groups) == len(made)

    beside = [asyncio.create_task(each) for each in (sum_up(), sum_up(), report("user"), report("day"))]
    try:
        await asyncio.gather(*(move(number) for number in range(4)))
    finally:
        writing = False
    await asyncio.gather(*beside)
    await sums.add_changes(scene.services, now_ms())
    for group_by in ("user", "task", "project", "day"):
        await _check(scene, 0, {"group_by": group_by})
