"""The chore that tells people of the deadlines of the next day.

A task keeps which deadline people were told of, so that each is told of once, and again when it was moved. Tasks of
which nobody was told are in an index of their own: what was told is not looked at again.
"""

from __future__ import annotations

import sqlalchemy as sa

from workhook.core.clock import DAY_MS
from workhook.http.calls import Services
from workhook.identity.notifications import telling
from workhook.identity.tables import accounts, projects
from workhook.storage import Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big
from workhook.storage.sweeping import in_batches
from workhook.work.board.tasks.assignees import is_client_there, on_team
from workhook.work.board.tasks.schemas import is_untold, task_assignees, tasks

BATCH = 200

_DAY = sa.literal_column(str(DAY_MS), sa.BigInteger)
# A deadline that is a day is over when the day is. Whoever holds a task tells of it; another process takes the next.
_due = (
    sa.select(tasks.c.id)
    .where(
        is_untold,
        tasks.c.deadline > big("day_ago"),
        tasks.c.deadline <= big("until"),
        sa.or_(tasks.c.deadline > big("now"), tasks.c.deadline % _DAY == sa.literal_column("0")),
    )
    .order_by(tasks.c.deadline)
    .limit(big("limit"))
    .with_for_update(skip_locked=True)
)
_these = any_of(tasks.c.id, "ids")
_assigned = (
    sa.select(accounts)
    .select_from(
        tasks.join(task_assignees, task_assignees.c.task_id == tasks.c.id)
        .join(accounts, accounts.c.id == task_assignees.c.user_id)
        .join(projects, projects.c.repository_id == tasks.c.repository_id)
    )
    .where(
        _these,
        projects.c.deleted_at.is_(None),
        projects.c.archive.is_(sa.false()),
        sa.or_(on_team, is_client_there),
    )
)
_tell = telling(
    "deadline",
    _assigned,
    {
        "task_id": tasks.c.id,
        "repository_id": tasks.c.repository_id,
        "account_id": projects.c.account_id,
        "detail": sa.cast(tasks.c.deadline, sa.Text),
    },
)
_note = sa.update(tasks).where(_these).values(deadline_told=tasks.c.deadline)


async def tell_of_deadlines(services: Services, now: int) -> int:
    """Tell who is assigned, and still sees the task, of each deadline until a day after `now` (milliseconds). Nobody is
    told of one in an archived project. Answers how many tasks were looked at. Raises `Unavailable`."""

    span = {"now": now, "day_ago": now - DAY_MS, "until": now + DAY_MS}

    async def some(limit: int, _: int) -> int:
        async def tell(tx: Transaction) -> int:
            rows = await tx.fetch_all(_due, {**span, "limit": limit})
            if rows:
                ids = {"ids": [row["id"] for row in rows]}
                await _tell.execute(tx, {**ids, "actor_id": None, "now": now})
                await tx.execute(_note, ids)
            return len(rows)

        return await services.database.in_transaction(tell)

    return await in_batches("deadlines", BATCH, some)
