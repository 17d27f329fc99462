"""Writes all rows, some thousands at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import sqlalchemy as sa

from workhook.cli.filling import history, others, tasks
from workhook.cli.filling.places import Places
from workhook.cli.filling.plan import IN_BUCKET, Plan
from workhook.events.tables import events
from workhook.hooks.tables import dispatches
from workhook.storage import Database
from workhook.work.comments.tables import file_comments

CHUNK = 10_000

Progress = Callable[[str, int, int], None]

_offsets = {
    "event_offset": sa.select(sa.func.coalesce(sa.func.min(events.c.id), 1)),
    "dispatch_offset": sa.select(sa.func.coalesce(sa.func.min(dispatches.c.id), 1)),
    "comment_offset": sa.select(sa.func.coalesce(sa.func.min(file_comments.c.id), 1)),
}


class Step(NamedTuple):
    """Rows with the numbers from `first` on. `offset`: the name of what is one less than the first id they got."""

    what: str
    statement: sa.Insert
    rows: int
    first: int = 1
    offset: str | None = None


def steps(plan: Plan) -> list[Step]:
    """In the order in which rows name one another."""
    return [
        Step("invoices", others.insert_invoices, plan.some),
        Step("credits", others.insert_credits, plan.some),
        Step("checkouts", others.insert_checkouts, plan.some),
        Step("files", others.insert_files, plan.some),
        Step("comments on files", others.insert_file_comments, plan.some, offset="comment_offset"),
        Step("replies", others.insert_replies, plan.some),
        Step("buckets", tasks.insert_buckets, plan.tasks // IN_BUCKET, first=0),
        Step("tasks", tasks.insert_tasks, plan.tasks),
        Step("assignees", tasks.insert_assignees, plan.tasks),
        Step("comments on tasks", tasks.insert_comments, plan.tasks // 2),
        Step("timesheets", tasks.insert_timesheets, plan.tasks),
        Step("events", history.insert_events, plan.events, offset="event_offset"),
        Step("dispatches", history.insert_dispatches, plan.dispatches, offset="dispatch_offset"),
        Step("deliveries", history.insert_deliveries, plan.deliveries),
        Step("audit log", history.insert_audit, plan.audit),
    ]


async def fill(database: Database, plan: Plan, progress: Progress = lambda what, done, total: None) -> Places:
    """All that `plan` says, in a database without any rows; its schema may be an older one that has these columns."""
    places = Places(database, plan)
    await places.make()
    params: dict[str, Any] = {**plan.params(), **places.params}
    for step in steps(plan):
        done = 0
        while done < step.rows:
            size = min(CHUNK, step.rows - done)
            first = step.first + done
            await database.write([(step.statement, [{**params, "first": first, "last": first + size - 1}])])
            done += size
            progress(step.what, done, step.rows)
        if step.offset is not None:
            params[step.offset] = await _before_first(database, step.offset)
    return places


async def _before_first(database: Database, name: str) -> int:
    row = await database.fetch_one(_offsets[name])
    assert row is not None
    return int(row[0]) - 1
