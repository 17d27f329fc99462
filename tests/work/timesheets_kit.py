"""Helpers for timesheet tests: tasks, a second project and an invoice with time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from tests.harness.world import must
from tests.work.studio import Caller, JsonObject, Studio
from workhook.core.clock import now_ms
from workhook.core.ids import new_id
from workhook.http.calls import Services
from workhook.identity.tables import memberships, projects
from workhook.storage.metadata import insert_into
from workhook.work.board.tasks.schemas import columns, tasks
from workhook.work.money.invoices.schemas import invoices
from workhook.work.time.timesheets.schemas import timesheets

HOUR = 3_600_000
MINUTE = 60_000

_project = (
    sa.select(projects.c.repository_id, projects.c.account_id, memberships.c.user_id)
    .join_from(projects, memberships, memberships.c.organization_id == projects.c.account_id)
    .where(projects.c.id == sa.bindparam("project_id"), memberships.c.role == "owner")
)
_claim = (
    sa.update(timesheets)
    .where(timesheets.c.id == sa.bindparam("timesheet_id"))
    .values(invoice_id=sa.bindparam("invoice_id"))
)
_bury_task = sa.update(tasks).where(tasks.c.id == sa.bindparam("task_id")).values(deleted_at=1)
_remove_task = sa.delete(tasks).where(tasks.c.id == sa.bindparam("task_id"))
_archive = sa.update(projects).where(projects.c.id == sa.bindparam("project_id")).values(archive=sa.true())
_since = (
    sa.update(timesheets)
    .where(timesheets.c.id == sa.bindparam("timesheet_id"))
    .values(start_time=sa.bindparam("at"), running_since=sa.bindparam("at"))
)


async def insert_row(services: Services, table: sa.Table, **values: object) -> None:
    """Insert a row with the given values. Other columns that must not be null are empty."""
    empty = {sa.Text: "", sa.BigInteger: 0, sa.Boolean: False}
    row = {
        column.name: empty[type(column.type)]
        for column in table.columns
        if not column.nullable and column.name not in values
    } | values
    async with services.database.transaction() as tx:
        await tx.execute(insert_into(table, *row), row)


def _run(studio: Studio, work: Callable[[Services], Any]) -> Any:
    return studio.server.run(work)


def make_task(studio: Studio, title: str = "Draw", project_id: str | None = None) -> str:
    """Create a task in a column of its own and return its ID."""

    async def make(services: Services) -> str:
        row = must(await services.database.fetch_one(_project, {"project_id": project_id or studio.project_id}))
        now = now_ms()
        column_id, task_id = new_id("col"), new_id("tsk")
        place = {"repository_id": row["repository_id"], "created_at": now, "updated_at": now}
        await insert_row(services, columns, id=column_id, title="To do", **place)
        texts = {"title": title, "fields": "{}", "sections": "{}", "labels": "[]"}
        await insert_row(services, tasks, id=task_id, column_id=column_id, user_id=row["user_id"], **texts, **place)
        return task_id

    made: str = _run(studio, make)
    return made


def make_project(studio: Studio, caller: Caller | None = None) -> str:
    body = {"title": "Other", "organization": studio.world.organization}
    made: str = (caller or studio.owner).post("/projects", json=body)["project"]["id"]
    studio.happened()
    return made


def bury(studio: Studio, task_id: str) -> None:
    """Move the task to the trash."""

    studio.server.execute(_bury_task, {"task_id": task_id})


def remove(studio: Studio, task_id: str) -> None:
    """Delete the task permanently."""

    studio.server.execute(_remove_task, {"task_id": task_id})


def archive(studio: Studio, project_id: str | None = None) -> None:
    studio.server.execute(_archive, {"project_id": project_id or studio.project_id})


def claim(studio: Studio, timesheet_id: str) -> None:
    """Put the time entry on an invoice."""

    async def work(services: Services) -> None:
        row = must(await services.database.fetch_one(_project, {"project_id": studio.project_id}))
        invoice_id = new_id("inv")
        place = {"repository_id": row["repository_id"], "account_id": row["account_id"]}
        texts = {"status": "draft", "currency": "EUR", "items": "[]", "recurring_items": "[]", "taxes": "[]"}
        await insert_row(services, invoices, id=invoice_id, **place, **texts)
        async with services.database.transaction() as tx:
            await tx.execute(_claim, {"timesheet_id": timesheet_id, "invoice_id": invoice_id})

    _run(studio, work)


def run_since(studio: Studio, timesheet_id: str, ago_ms: int) -> None:
    """Make a timer look as if it had been running for `ago_ms`."""

    studio.server.execute(_since, {"timesheet_id": timesheet_id, "at": now_ms() - ago_ms})


def fill(studio: Studio, task_id: str, count: int) -> list[str]:
    """Create finished timesheets of the owner, one hour apart and every second one billable, and return their IDs."""
    ids = sorted(new_id("tms") for _ in range(count))

    async def work(services: Services) -> None:
        row = must(await services.database.fetch_one(_project, {"project_id": studio.project_id}))
        now = now_ms()
        place = {"repository_id": row["repository_id"], "user_id": row["user_id"], "task_id": task_id}
        state = {"is_active": False, "finished": True, "duration_ms": MINUTE, "created_at": now, "updated_at": now}
        rows = [
            {"id": each, "start_time": at, "end_time": at + MINUTE, "billable": bool(number % 2), **place, **state}
            for number, each in enumerate(ids)
            for at in [1_700_000_000_000 + number * HOUR]
        ]
        async with services.database.transaction() as tx:
            await tx.execute_many(insert_into(timesheets, *rows[0]), rows)

    _run(studio, work)
    return ids


class Desk:
    """One caller's timesheets in one project."""

    def __init__(self, studio: Studio, caller: Caller, project_id: str | None = None) -> None:
        self.caller = caller
        self.path = f"/projects/{project_id or studio.project_id}/timesheets"

    def new(self, task_id: str, **more: Any) -> JsonObject:
        made: JsonObject = self.caller.post(self.path, json={"task_id": task_id, **more})["timesheet"]
        return made

    def get(self, timesheet: JsonObject) -> JsonObject:
        found: JsonObject = self.caller.get(f"/timesheets/{timesheet['id']}")["timesheet"]
        return found

    def edit(self, timesheet: JsonObject, **more: Any) -> JsonObject:
        edited: JsonObject = self.caller.patch(f"/timesheets/{timesheet['id']}", **more)["timesheet"]
        return edited

    def turn(self, timesheet: JsonObject, how: str) -> JsonObject:
        turned: JsonObject = self.caller.post(f"/timesheets/{timesheet['id']}/{how}")["timesheet"]
        return turned

    def all(self, **params: Any) -> list[str]:
        return [each["id"] for each in self.caller.get(self.path, params=params)["timesheets"]]
