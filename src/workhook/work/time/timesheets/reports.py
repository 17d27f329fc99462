"""The parameters, groups and response of a timesheet report, and its groups as CSV."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, tzinfo
from decimal import Decimal
from itertools import chain
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.core.money import DEFAULT_CURRENCY, amount_of, amount_text, to_amount
from workhook.work.kernel import csv_tables
from workhook.work.kernel.day_bounds import Bound, TimeZone, start_ms, zone_named
from workhook.work.kernel.durations import format_duration_with_units, hours_text
from workhook.work.kernel.people import PersonShape
from workhook.work.time.timesheets.schemas import (
    ShortDurationShape,
    TimesheetProjectShape,
    TimesheetTaskShape,
    short_duration,
)

GroupBy = Literal["user", "task", "project", "day"]


class Spent(msgspec.Struct, frozen=True):
    """Sums over timesheets. Each timesheet's amount is rounded individually, as on an invoice.

    `amounts` are minor units by currency code. An amount of 0 is listed only if there is no other.
    """

    timesheets: int = 0
    duration_ms: int = 0
    billable_ms: int = 0
    amounts: tuple[tuple[str, int], ...] = ()

    @property
    def currency(self) -> str | None:
        return self.amounts[0][0] if len(self.amounts) == 1 else None

    @property
    def amount_minor(self) -> int | None:
        """The total amount, or None for several currencies, which cannot be added up."""
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
    """A group of a report with its sums. Fields that the report is not grouped by are None."""

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


def sum_cells(spent: Spent) -> list[csv_tables.Cell]:
    minor = spent.amount_minor
    return [
        spent.timesheets,
        spent.duration_ms,
        Decimal(hours_text(spent.duration_ms)),
        spent.billable_ms,
        Decimal(hours_text(spent.billable_ms)),
        None if minor is None else amount_of(minor, spent.currency or DEFAULT_CURRENCY),
        spent.currency,
        "; ".join(f"{amount_text(minor, currency)} {currency}" for currency, minor in spent.amounts),
    ]


_TIME = "RFC 3339, or a date, which means its midnight in `timezone`."
From = Annotated[Bound, Meta(description=f"Only timesheets that started at this time or later: {_TIME}")]
To = Annotated[Bound, Meta(description=f"Only timesheets that started before this time: {_TIME}")]


_Zone = Annotated[TimeZone, Meta(description="Time zone (IANA name). Default: that of `project_id`, or `UTC`.")]


class ReportQuery(msgspec.Struct):
    """Parameters of a report. `from` is inclusive, `to` is exclusive."""

    group_by: Annotated[GroupBy, Meta(description="Default: `user`.")] | UnsetType = UNSET
    project_id: str | UnsetType = UNSET
    user: Annotated[str, Meta(description="Username.")] | UnsetType = UNSET
    to: To | UnsetType = UNSET
    billable: bool | UnsetType = UNSET
    invoiced: bool | UnsetType = UNSET
    timezone: _Zone | UnsetType = UNSET
    from_: From | UnsetType = msgspec.field(name="from", default=UNSET)

    @property
    def zone(self) -> tzinfo:
        return zone_named(self.timezone)

    @property
    def since_ms(self) -> int | None:
        return start_ms(self.from_, self.zone)

    @property
    def to_ms(self) -> int | None:
        return start_ms(self.to, self.zone)


_OF_AMOUNT = "Currency of `amount`, from the billing settings of the project, or else of its organization."
_EACH_CURRENCY = "Amounts by currency code."


class AmountShape(msgspec.Struct):
    """An amount of money in a currency."""

    currency: str
    amount: Annotated[float, Meta(ge=0)]


class ReportRowShape(msgspec.Struct):
    """A row of the report. Fields that the report is not grouped by are null. A task includes its project."""

    user: PersonShape | None
    task: TimesheetTaskShape | None
    project: TimesheetProjectShape | None
    day: Annotated[str, Meta(extra_json_schema={"format": "date"})] | None
    timesheets: Annotated[int, Meta(ge=0, description="Total number.")]
    duration: Annotated[int, Meta(ge=0, description="Milliseconds; a running timer counts until now.")]
    formatted_duration: str
    short_formatted_duration: ShortDurationShape
    billable_duration: Annotated[int, Meta(ge=0, description="Billable milliseconds.")]
    amount: Annotated[
        float | None,
        Meta(
            description="Amount of billable timesheets with a rate, each rounded separately. Null if there are "
            "several currencies."
        ),
    ]
    currency: Annotated[str | None, Meta(description=_OF_AMOUNT)]
    amounts: Annotated[list[AmountShape], Meta(description=_EACH_CURRENCY)]


class ReportTotalsShape(msgspec.Struct):
    """The sums of all rows."""

    timesheets: int
    duration: Annotated[int, Meta(ge=0, description="Milliseconds.")]
    formatted_duration: str
    short_formatted_duration: ShortDurationShape
    billable_duration: Annotated[int, Meta(ge=0, description="Milliseconds.")]
    amount: Annotated[float | None, Meta(description="Null if there are several currencies.")]
    currency: Annotated[str | None, Meta(description=_OF_AMOUNT)]
    amounts: Annotated[list[AmountShape], Meta(description=_EACH_CURRENCY)]


class ReportAnswer(msgspec.Struct):
    report: list[ReportRowShape]
    totals: ReportTotalsShape
    success: bool = True


def row_to_response(group: ReportGroup) -> ReportRowShape:
    day = group.day.isoformat() if group.day else None
    return ReportRowShape(user=group.user, task=group.task, project=group.project, day=day, **_sum_fields(group.spent))


def totals_to_response(spent: Spent) -> ReportTotalsShape:
    return ReportTotalsShape(**_sum_fields(spent))


def _sum_fields(spent: Spent) -> dict[str, Any]:
    minor = spent.amount_minor
    return {
        "timesheets": spent.timesheets,
        "duration": spent.duration_ms,
        "formatted_duration": format_duration_with_units(spent.duration_ms),
        "short_formatted_duration": short_duration(spent.duration_ms),
        "billable_duration": spent.billable_ms,
        "amount": None if minor is None else to_amount(minor, spent.currency or DEFAULT_CURRENCY),
        "currency": spent.currency,
        "amounts": [AmountShape(currency, to_amount(each, currency)) for currency, each in spent.amounts],
    }
