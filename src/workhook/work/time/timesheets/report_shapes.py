"""What a report of timesheets takes, and how it is answered."""

from __future__ import annotations

from datetime import tzinfo
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.core.money import DEFAULT_CURRENCY, to_amount
from workhook.work.kernel.day_bounds import Bound, TimeZone, start_ms, zone_named
from workhook.work.kernel.durations import formatted
from workhook.work.kernel.people import PersonShape
from workhook.work.time.timesheets.report_groups import GroupBy, ReportGroup, Spent
from workhook.work.time.timesheets.schemas import (
    ShortDurationShape,
    TimesheetProjectShape,
    TimesheetTaskShape,
    short_duration,
)

_TIME = "RFC 3339, or a date, which means its midnight in `timezone`."
From = Annotated[Bound, Meta(description=f"Only timesheets that started at this time or later: {_TIME}")]
To = Annotated[Bound, Meta(description=f"Only timesheets that started before this time: {_TIME}")]


class ReportQuery(msgspec.Struct):
    """What a report takes. `from` is inclusive, `to` is not."""

    group_by: Annotated[GroupBy, Meta(description="Default: `user`.")] | UnsetType = UNSET
    project_id: str | UnsetType = UNSET
    user: Annotated[str, Meta(description="Username.")] | UnsetType = UNSET
    to: To | UnsetType = UNSET
    billable: bool | UnsetType = UNSET
    invoiced: bool | UnsetType = UNSET
    timezone: (
        Annotated[TimeZone, Meta(description="IANA name. Default: that of `project_id`, or `UTC` without one.")]
        | UnsetType
    ) = UNSET
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


_OF_AMOUNT = "Of `amount`: that of the billing settings of the project, or else of its organization."
_EACH_CURRENCY = "What is to be paid in each currency, by its code."


class AmountShape(msgspec.Struct):
    """An amount of money in a currency."""

    currency: str
    amount: Annotated[float, Meta(ge=0)]


class ReportRowShape(msgspec.Struct):
    """A row of the report. Fields by which the report is not grouped are null. A task comes with its project."""

    user: PersonShape | None
    task: TimesheetTaskShape | None
    project: TimesheetProjectShape | None
    day: Annotated[str, Meta(extra_json_schema={"format": "date"})] | None
    timesheets: Annotated[int, Meta(ge=0, description="How many there are.")]
    duration: Annotated[int, Meta(ge=0, description="Milliseconds; a running timer counts until now.")]
    formatted_duration: str
    short_formatted_duration: ShortDurationShape
    billable_duration: Annotated[int, Meta(ge=0, description="Billable milliseconds.")]
    amount: Annotated[
        float | None,
        Meta(
            description="Amount of the billable timesheets that have a rate, each rounded by itself. Null where there "
            "are several currencies."
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
    amount: Annotated[float | None, Meta(description="Null where there are several currencies.")]
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
        "formatted_duration": formatted(spent.duration_ms),
        "short_formatted_duration": short_duration(spent.duration_ms),
        "billable_duration": spent.billable_ms,
        "amount": None if minor is None else to_amount(minor, spent.currency or DEFAULT_CURRENCY),
        "currency": spent.currency,
        "amounts": [AmountShape(currency, to_amount(each, currency)) for currency, each in spent.amounts],
    }
