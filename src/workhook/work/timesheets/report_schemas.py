"""A report on timesheets: what a caller asks for, and the answer."""

from __future__ import annotations

import operator
import zoneinfo
from datetime import UTC, date, datetime, tzinfo
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.http.parameters import DAY_OR_MOMENT, Checked, Read
from workhook.http.wire_types import read_day_or_moment, to_amount
from workhook.work.people import PersonShape
from workhook.work.schemas import if_set
from workhook.work.timesheets import rules
from workhook.work.timesheets.schemas import (
    ShortDurationShape,
    TimesheetProjectShape,
    TimesheetTaskShape,
    short_duration,
)

GroupBy = Literal["user", "task", "project", "day"]


def zone_of(name: str) -> tzinfo:
    """The zone of an IANA name. Raises `ValueError`."""
    if name == "UTC":  # also where no data of zones is installed
        return UTC
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, OSError) as error:
        raise ValueError(name) from error


def _not_a_zone(name: str) -> str | None:
    try:
        zone_of(name)
    except ValueError:
        return "the name of a time zone, such as Europe/Vienna"
    return None


def _read_bound(raw: object) -> int | date:
    """A bare date stays one: which moment it is depends on the time zone."""
    moment = read_day_or_moment(raw)
    try:
        return date.fromisoformat(str(raw).strip())
    except ValueError:
        return moment


Bound = Annotated[int, Meta(extra_json_schema=DAY_OR_MOMENT), Read(_read_bound)]
_FROM = "Timesheets that started then or later: RFC 3339, or a date, which is its midnight in `timezone`."
From = Annotated[Bound, Meta(description=_FROM)]
To = Annotated[Bound, Meta(description="Timesheets that started before; likewise.")]


class ReportQuery(msgspec.Struct):
    """What a report takes. `from` is inclusive, `to` is not."""

    group_by: Annotated[GroupBy, Meta(description="`user` if absent.")] | UnsetType = UNSET
    project_id: str | UnsetType = UNSET
    user: Annotated[str, Meta(description="Username.")] | UnsetType = UNSET
    to: To | UnsetType = UNSET
    billable: bool | UnsetType = UNSET
    invoiced: bool | UnsetType = UNSET
    timezone: (
        Annotated[str, Meta(max_length=64, description="IANA name; `UTC` if absent."), Checked(_not_a_zone)] | UnsetType
    ) = UNSET
    from_: From | UnsetType = msgspec.field(name="from", default=UNSET)

    @property
    def zone(self) -> tzinfo:
        return zone_of(if_set(self.timezone) or "UTC")

    @property
    def since_ms(self) -> int | None:
        return self._moment(self.from_)

    @property
    def to_ms(self) -> int | None:
        return self._moment(self.to)

    def _moment(self, bound: object) -> int | None:
        if isinstance(bound, date):
            midnight = datetime(bound.year, bound.month, bound.day, tzinfo=self.zone)
            return round(midnight.timestamp()) * 1000
        return None if bound is UNSET else cast("int", bound)


class Spent(msgspec.Struct, frozen=True):
    """Sums over timesheets. Each one's amount is rounded by itself, as on an invoice."""

    timesheets: int = 0
    duration_ms: int = 0
    billable_ms: int = 0
    amount_minor: int = 0

    def plus(self, other: Spent) -> Spent:
        return Spent(*map(operator.add, msgspec.structs.astuple(self), msgspec.structs.astuple(other)))


class ReportGroup(msgspec.Struct, frozen=True):
    """Sums, and whose they are: what the report is not grouped by is None."""

    spent: Spent
    user: PersonShape | None = None
    task: TimesheetTaskShape | None = None
    project: TimesheetProjectShape | None = None
    day: date | None = None


class ReportRowShape(msgspec.Struct):
    """What the report is not grouped by is null; a task comes with its project."""

    user: PersonShape | None
    task: TimesheetTaskShape | None
    project: TimesheetProjectShape | None
    day: Annotated[str, Meta(extra_json_schema={"format": "date"})] | None
    timesheets: Annotated[int, Meta(ge=0, description="How many there are.")]
    duration: Annotated[int, Meta(ge=0, description="Milliseconds; of running timers, what was counted until now.")]
    formatted_duration: str
    short_formatted_duration: ShortDurationShape
    billable_duration: Annotated[int, Meta(ge=0, description="Milliseconds of what is billable.")]
    amount: Annotated[
        float, Meta(ge=0, description="Of what is billable and has a rate; each timesheet's is rounded by itself.")
    ]


class ReportTotalsShape(msgspec.Struct):
    """The sums of all rows."""

    timesheets: int
    duration: Annotated[int, Meta(ge=0, description="Milliseconds.")]
    formatted_duration: str
    short_formatted_duration: ShortDurationShape
    billable_duration: Annotated[int, Meta(ge=0, description="Milliseconds.")]
    amount: Annotated[float, Meta(ge=0)]


class ReportAnswer(msgspec.Struct):
    report: list[ReportRowShape]
    totals: ReportTotalsShape
    success: bool = True


def row_to_response(group: ReportGroup) -> ReportRowShape:
    day = group.day.isoformat() if group.day else None
    return ReportRowShape(user=group.user, task=group.task, project=group.project, day=day, **_sums(group.spent))


def totals_to_response(spent: Spent) -> ReportTotalsShape:
    return ReportTotalsShape(**_sums(spent))


def _sums(spent: Spent) -> dict[str, Any]:
    return {
        "timesheets": spent.timesheets,
        "duration": spent.duration_ms,
        "formatted_duration": rules.formatted(spent.duration_ms),
        "short_formatted_duration": short_duration(spent.duration_ms),
        "billable_duration": spent.billable_ms,
        "amount": to_amount(spent.amount_minor),
    }
