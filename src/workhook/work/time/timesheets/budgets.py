"""The used part of a project's budget, and the event that announces when most or all of it is used.

A budget is in hours or money. All finished billable time counts, whether invoiced or not; decision 33 describes what
counts when.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any

import msgspec
import sqlalchemy as sa
from msgspec import Meta

from workhook.core.money import to_amount
from workhook.core.records import to_response
from workhook.identity.context import Write
from workhook.identity.schemas import Repository
from workhook.identity.tables import projects
from workhook.storage import Reader
from workhook.storage.metadata import bigint_param
from workhook.work.board.projects.schemas import Project, project_from
from workhook.work.kernel.billing_settings import project_billing
from workhook.work.kernel.durations import decimal_hours
from workhook.work.kernel.record_events import RecordEvent, publish_events
from workhook.work.time.rates import BudgetMark
from workhook.work.time.timesheets.schemas import IS_PAUSED, timesheets
from workhook.work.time.timesheets.sums import Granularity, timesheet_changes, timesheet_sums, worth_of

MARKS: tuple[BudgetMark, ...] = (80, 100)
"""The percentages that events announce."""


class HoursOrMoney(msgspec.Struct, frozen=True):
    """A budget, in hours or in money. With neither, there is no budget."""

    time_ms: int | None = None
    minor: int | None = None

    def used_by(self, spent: TimeAndMoney) -> int:
        return spent.time_ms if self.minor is None else spent.minor

    @property
    def whole(self) -> int | None:
        return self.time_ms if self.minor is None else self.minor

    def percent(self, spent: TimeAndMoney) -> int | None:
        """Return the used percentage, rounded down so that 100 means that nothing is left."""
        return self.used_by(spent) * 100 // self.whole if self.whole else None


class TimeAndMoney(msgspec.Struct, frozen=True):
    time_ms: int = 0
    minor: int = 0


NEGATED = (
    -timesheets.c.duration_ms,
    -sa.func.coalesce(worth_of(timesheets.c.duration_ms), sa.literal_column("0")),
)
"""The negated time and money of a timesheet."""


def summed(
    name: str,
    *conditions: Callable[[sa.Table], sa.ColumnElement[bool]],
    less: sa.Select[Any] | None = None,
    billable: bool = True,
) -> sa.Select[Any]:
    """Select `NAME_ms` and `NAME_minor`: the project's time in the sums, plus the rows of `less`.

    The project is the parameter `repository_id`. `less` selects `NEGATED`, which is negative. `billable` selects
    either the billable time or the rest.
    """
    here: list[sa.Select[Any]] = []
    for table in (timesheet_sums, timesheet_changes):
        part = sa.select(table.c.duration_ms, table.c.amount_minor).where(
            table.c.repository_id == bigint_param("repository_id"),
            table.c.billable if billable else sa.not_(table.c.billable),
            *(each(table) for each in conditions),
        )
        if table is timesheet_sums:
            part = part.where(table.c.grain == sa.literal_column(f"{Granularity.USER_BLOCKS:d}"))
        here.append(part)
    every = sa.union_all(*here, *([] if less is None else [less])).subquery(name)
    return sa.select(
        sa.func.sum(every.c.duration_ms).label(f"{name}_ms"), sa.func.sum(every.c.amount_minor).label(f"{name}_minor")
    )


not_finished = sa.select(*NEGATED).where(
    timesheets.c.repository_id == bigint_param("repository_id"), sa.text(IS_PAUSED)
)
"""The time of paused timers, which the sums contain, as the argument `less` of `summed`."""
used = summed("used", less=not_finished)
_locked = (
    sa.select(
        project_billing.c.budget_ms,
        project_billing.c.budget_minor,
        project_billing.c.budget_mark,
        projects.c.avatar,
        projects.c.label_colors,
    )
    .join(projects, projects.c.repository_id == project_billing.c.repository_id)
    .where(project_billing.c.repository_id == bigint_param("repository_id"))
    .with_for_update(of=project_billing)
)
_mark = (
    sa.update(project_billing)
    .where(project_billing.c.repository_id == bigint_param("repository_id"))
    .values(budget_mark=bigint_param("mark"))
)


async def find_used(reader: Reader, repository_id: int) -> TimeAndMoney:
    row = await reader.fetch_row(used, {"repository_id": repository_id})
    return TimeAndMoney(int(row["used_ms"] or 0), int(row["used_minor"] or 0))


class BudgetReachedShape(msgspec.Struct):
    """The additional data of a `budget_reached` event. Either `hours` or `amount` is set."""

    percent: Annotated[int, Meta(description="Percentage reached: 80 or 100.")]
    hours: Annotated[float, Meta(description="The whole budget.")] | None = None
    amount: Annotated[float, Meta(description="The whole budget.")] | None = None


async def publish_budget_events(write: Write, places: Iterable[Repository]) -> None:
    """Publish an event for each mark that a budget has reached, after time was finished in these projects.

    The budget is locked before the time is summed, so that the second of two concurrent changes sees both.
    """
    for repository in sorted({each.id: each for each in places}.values(), key=lambda each: each.id):
        row = await write.tx.fetch_one(_locked, {"repository_id": repository.id})
        if row is None or (row["budget_mark"] or 0) >= MARKS[-1]:
            continue
        budget = HoursOrMoney(row["budget_ms"], row["budget_minor"])
        percent = budget.percent(await find_used(write.tx, repository.id))
        reached = [each for each in MARKS if percent is not None and (row["budget_mark"] or 0) < each <= percent]
        if reached:
            await write.tx.execute(_mark, {"repository_id": repository.id, "mark": reached[-1]})
            record = project_from(repository, row["avatar"], row["label_colors"])
            await publish_events(write, [_event(record, budget, each) for each in reached])


def _event(project: Project, budget: HoursOrMoney, mark: BudgetMark) -> RecordEvent:
    response = BudgetReachedShape(
        mark,
        hours=None if budget.time_ms is None else decimal_hours(budget.time_ms),
        amount=None if budget.minor is None else to_amount(budget.minor, project.repository.currency),
    )
    return RecordEvent(
        project.repository, "project", "budget_reached", to_response(project), extra_records={"budget": response}
    )
