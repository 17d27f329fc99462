"""What a report adds up, and its groups as a table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from itertools import chain
from typing import Literal

import msgspec

from workhook.core.money import DEFAULT_CURRENCY, amount_of, amount_text
from workhook.work.kernel import csv_tables
from workhook.work.kernel.durations import hours_text
from workhook.work.kernel.people import PersonShape
from workhook.work.time.timesheets.schemas import TimesheetProjectShape, TimesheetTaskShape

GroupBy = Literal["user", "task", "project", "day"]


class Spent(msgspec.Struct, frozen=True):
    """Sums over timesheets. Each one's amount is rounded by itself, as on an invoice.

    `amounts`: minor units of each currency, by its code. What is 0 stands there only if nothing else does.
    """

    timesheets: int = 0
    duration_ms: int = 0
    billable_ms: int = 0
    amounts: tuple[tuple[str, int], ...] = ()

    @property
    def currency(self) -> str | None:
        """None where there are several, or none."""
        return self.amounts[0][0] if len(self.amounts) == 1 else None

    @property
    def amount_minor(self) -> int | None:
        """None where there are several currencies: they have no sum."""
        return None if len(self.amounts) > 1 else sum(minor for _, minor in self.amounts)

    def plus(self, other: Spent) -> Spent:
        summed: dict[str, int] = {}
        for currency, minor in (*self.amounts, *other.amounts):
            summed[currency] = summed.get(currency, 0) + minor
        known = sorted(summed.items())
        amounts = tuple(each for each in known if each[1]) or tuple(known[:1])
        return Spent(
            self.timesheets + other.timesheets,
            self.duration_ms + other.duration_ms,
            self.billable_ms + other.billable_ms,
            amounts,
        )


class ReportGroup(msgspec.Struct, frozen=True):
    """Sums, and whose they are: what the report is not grouped by is None."""

    spent: Spent
    user: PersonShape | None = None
    task: TimesheetTaskShape | None = None
    project: TimesheetProjectShape | None = None
    day: date | None = None


_KEYS: dict[GroupBy, tuple[str, ...]] = {
    "user": ("user",),
    "task": ("project_id", "project", "task_id", "task"),
    "project": ("project_id", "project"),
    "day": ("day",),
}
SUM_COLUMNS = (
    "timesheets",
    "duration_ms",
    "hours",
    "billable_duration_ms",
    "billable_hours",
    "amount",
    "currency",
    "amounts",
)


async def table(groups: Sequence[ReportGroup], group_by: GroupBy) -> bytes:
    """The groups as lines of CSV, below the line of the columns' names."""
    head = (*_KEYS[group_by], *SUM_COLUMNS)
    return await csv_tables.write_rows(chain([head], (_cells(each, group_by) for each in groups)))


def _cells(group: ReportGroup, group_by: GroupBy) -> list[csv_tables.Cell]:
    known: dict[str, csv_tables.Cell] = {
        "user": group.user.username if group.user else None,
        "project_id": group.project.id if group.project else None,
        "project": group.project.title if group.project else None,
        "task_id": group.task.id if group.task else None,
        "task": group.task.title if group.task else None,
        "day": group.day.isoformat() if group.day else None,
    }
    return [*(known[name] for name in _KEYS[group_by]), *sum_cells(group.spent)]


def _amount_cell(spent: Spent) -> csv_tables.Cell:
    minor = spent.amount_minor
    return None if minor is None else amount_of(minor, spent.currency or DEFAULT_CURRENCY)


def sum_cells(spent: Spent) -> list[csv_tables.Cell]:
    """The cells of `SUM_COLUMNS`."""
    return [
        spent.timesheets,
        spent.duration_ms,
        Decimal(hours_text(spent.duration_ms)),
        spent.billable_ms,
        Decimal(hours_text(spent.billable_ms)),
        _amount_cell(spent),
        spent.currency,
        "; ".join(f"{amount_text(minor, currency)} {currency}" for currency, minor in spent.amounts),
    ]
