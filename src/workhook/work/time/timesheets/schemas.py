"""Timesheets: their record, table and request parameters."""

from __future__ import annotations

from typing import Annotated

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, Meta, UnsetType

from workhook.core.clock import to_millis_text
from workhook.core.money import amount_text, to_amount
from workhook.core.records import NOT_STORED, EventSchema, Record, resource_id
from workhook.http.lists import ListQuery
from workhook.http.parameters import Converter, LongText, Moment
from workhook.http.wire_types import WIRE_TYPE, Time
from workhook.identity.schemas import Repository
from workhook.storage.metadata import GROWS, in_project, partial_index, plain_table
from workhook.storage.record_rows import table_columns
from workhook.work.kernel.day_bounds import Bound, TimeZone
from workhook.work.kernel.durations import decimal_hours, format_duration, format_duration_with_units
from workhook.work.kernel.people import PersonShape
from workhook.work.kernel.schemas import RATE_PATTERN, Rate, if_set, read_duration_up_to
from workhook.work.time.rates import RateSource, TimeTerms
from workhook.work.time.timesheets import rules
from workhook.work.time.timesheets.rules import GIVEN_DURATION_MAX_MS, RequestedTimes, Times

Duration = Annotated[
    int,
    Meta(
        extra_json_schema={WIRE_TYPE: ["integer", "string"], "minimum": 0, "maximum": GIVEN_DURATION_MAX_MS},
        description="Milliseconds, or text such as `1h 30m`, `90m`, `1.5h`, `1.5`, `1:30`, `:15`, `1:30:15` "
        "or `PT1H30M`, in whole seconds; at most 31 days.",
    ),
    Converter(read_duration_up_to(GIVEN_DURATION_MAX_MS), (int, str)),
]


class TimesheetCreate(msgspec.Struct):
    """With a duration or an end, the timesheet is finished.

    Otherwise a timer starts, and the caller's other one is paused.
    """

    task_id: str
    duration: Duration | UnsetType = UNSET
    start_time: Moment | UnsetType = UNSET
    end_time: Moment | UnsetType = UNSET
    notes: LongText | UnsetType | None = UNSET
    billable: bool | UnsetType = UNSET
    billable_rate: Rate | UnsetType | None = UNSET


class TimesheetEdit(msgspec.Struct):
    """Omitted fields are left unchanged. A duration or an end finishes a timer."""

    task_id: str | UnsetType = UNSET
    start_time: Moment | UnsetType = UNSET
    end_time: Moment | UnsetType | None = UNSET
    notes: LongText | UnsetType | None = UNSET
    billable: bool | UnsetType = UNSET
    billable_rate: Rate | UnsetType | None = UNSET
    duration: Duration | UnsetType = UNSET


def given_times(wanted: TimesheetCreate | TimesheetEdit) -> RequestedTimes:
    return RequestedTimes(if_set(wanted.start_time), if_set(wanted.end_time), if_set(wanted.duration))


_DATE = "a date begins in `timezone`."
From = Annotated[Bound, Meta(description=f"Only timesheets that started at this time or later; {_DATE}")]
To = Annotated[Bound, Meta(description=f"Only timesheets that started before this time; {_DATE}")]


_Zone = Annotated[TimeZone, Meta(description="Time zone (IANA name). Default: that of the project's organization.")]


class TimesheetsQuery(ListQuery):
    """Filters for timesheets. `from` is inclusive, `to` is exclusive. The days of a CSV table are in `timezone`."""

    user: Annotated[str, Meta(description="Username.")] | UnsetType = UNSET
    task_id: str | UnsetType = UNSET
    to: To | UnsetType = UNSET
    billable: bool | UnsetType = UNSET
    is_active: bool | UnsetType = UNSET
    finished: bool | UnsetType = UNSET
    invoiced: bool | UnsetType = UNSET
    timezone: _Zone | UnsetType = UNSET
    from_: From | UnsetType = msgspec.field(name="from", default=UNSET)


_MILLISECONDS = EventSchema({"description": "milliseconds"})


class TimesheetTaskShape(msgspec.Struct):
    """The task that the time was spent on."""

    id: Annotated[str, resource_id("tsk")]
    title: str


class TimesheetProjectShape(msgspec.Struct):
    """The project that the task belongs to."""

    id: Annotated[str, resource_id("prj")]
    title: str


class ShortDurationShape(msgspec.Struct):
    """A duration as hours and minutes (and seconds, unless zero), and as hours rounded to hundredths."""

    display: Annotated[str, Meta(examples=["1:30"])]
    decimal: Annotated[float, Meta(ge=0, examples=[1.5]), EventSchema({"type": "number", "minimum": 0})]


class TimesheetShape(msgspec.Struct):
    """A timesheet, which may be a running timer.

    `duration` and `elapsed_time` are the same number of milliseconds; a running timer counts up to the response. A
    running timer has `is_active`; a paused one has neither `is_active` nor `finished`.
    """

    id: Annotated[str, resource_id("tms")]
    task: Annotated[TimesheetTaskShape | None, Meta(description="Null if the task was purged.")]
    project: TimesheetProjectShape
    user: PersonShape
    is_active: bool
    finished: bool
    start_time: Time
    end_time: Time | None
    duration: Annotated[int, Meta(ge=0, description="Milliseconds."), _MILLISECONDS]
    elapsed_time: Annotated[int, Meta(ge=0, description="The same as `duration`."), _MILLISECONDS]
    formatted_duration: Annotated[str, Meta(examples=["1h 30m 5s"])]
    short_formatted_duration: ShortDurationShape
    notes: str | None
    billable: bool
    billable_rate: Annotated[float, Meta(ge=0, description="Hourly rate set on this timesheet, if any.")] | None
    hourly_rate: (
        Annotated[
            str,
            Meta(
                description="Effective hourly rate, with the decimal places of the project's currency; fixed when "
                "the timesheet finishes.",
                examples=["80.00"],
            ),
            EventSchema({"pattern": RATE_PATTERN}),
        ]
        | None
    )
    rate_source: Annotated[
        RateSource,
        Meta(
            description="Source of `hourly_rate`: the timesheet (`billable_rate`), its task, the person's rate "
            "in the project, the project, the person's rate in the organization, or the "
            "organization."
        ),
    ]
    created_at: str
    updated_at: str


class TimesheetAnswer(msgspec.Struct):
    timesheet: TimesheetShape
    success: bool = True


class TimesheetsAnswer(msgspec.Struct):
    timesheets: list[TimesheetShape]
    success: bool = True


class Timesheet(Record, frozen=True):
    """A timesheet with its project, as a caller sees it.

    `repository_gone` is true if the project was deleted. `billable_rate_minor` is the hourly rate, and `rate_source`
    where it comes from; None means the timesheet's own rate.
    """

    id: str
    repository: Repository
    task: TimesheetTaskShape | None
    user: PersonShape
    times: Times
    notes: str | None
    billable: bool
    billable_rate_minor: int | None
    rate_source: RateSource | None
    invoice_id: str | None
    created_at: int
    updated_at: int
    repository_gone: Annotated[bool, NOT_STORED] = False

    @property
    def own_rate_minor(self) -> int | None:
        """The timesheet's own rate, or None if the inherited rate applies."""
        return self.billable_rate_minor if self.rate_source in (None, "timesheet") else None

    def at_rate(self, own_minor: int | None, terms: TimeTerms) -> Timesheet:
        """Return the timesheet with its own rate or, without one, with the inherited rate."""
        rate, source = (own_minor, None) if own_minor is not None else (terms.rate_minor, terms.source)
        return msgspec.structs.replace(self, billable_rate_minor=rate, rate_source=None if rate is None else source)


IS_PAUSED = "NOT finished AND NOT is_active AND billable"
"""Paused billable time. The condition of a partial index; statements must repeat it verbatim to use the index."""

# A timesheet is kept when its task is purged. While a timer runs, `duration_ms` is the time before `running_since`.
timesheets = plain_table(
    "timesheets",
    in_project(),
    sa.Column("task_id", sa.Text, sa.ForeignKey("tasks.id", ondelete="SET NULL")),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id"), nullable=False),
    *table_columns(Times),
    *table_columns(Timesheet, invoice_id=sa.ForeignKey("invoices.id", ondelete="SET NULL")),
    sa.Index("ix_timesheets_repository_id", "repository_id", "id"),
    sa.Index("ix_timesheets_task", "task_id", "id"),
    sa.Index("ix_timesheets_user", "repository_id", "user_id", "id"),
    sa.Index("ix_timesheets_invoice_id", "invoice_id"),
    sa.Index("ix_timesheets_started", "repository_id", "start_time"),
    partial_index("uq_timesheets_running", "user_id", where=sa.text("is_active"), unique=True),
    partial_index("ix_timesheets_active", "repository_id", "start_time", where=sa.text("is_active")),
    # For one person's time across projects. All times satisfy the condition, but only a statement that repeats it uses
    # this index, because a report on one person in one project must not read all of that person's time through it.
    # SQLite would accept a bound for the condition if operator and value were equal, but no bound is -1.
    partial_index("ix_timesheets_own", "user_id", "start_time", where=sa.text("start_time > -1")),
    partial_index("ix_timesheets_paused", "repository_id", where=sa.text(IS_PAUSED)),
    info={GROWS: True},
)


def timesheet_to_response(timesheet: Timesheet, now: int) -> TimesheetShape:
    times, rate, own = timesheet.times, timesheet.billable_rate_minor, timesheet.own_rate_minor
    currency = timesheet.repository.currency
    duration = rules.elapsed_ms(times, now)
    return TimesheetShape(
        id=timesheet.id,
        task=timesheet.task,
        project=TimesheetProjectShape(timesheet.repository.project_id, timesheet.repository.title),
        user=timesheet.user,
        is_active=times.is_active,
        finished=times.finished,
        start_time=to_millis_text(times.start),
        end_time=None if times.end is None else to_millis_text(times.end),
        duration=duration,
        elapsed_time=duration,
        formatted_duration=format_duration_with_units(duration),
        short_formatted_duration=short_duration(duration),
        notes=timesheet.notes,
        billable=timesheet.billable,
        billable_rate=None if own is None else to_amount(own, currency),
        hourly_rate=None if rate is None else amount_text(rate, currency),
        rate_source="none" if rate is None else timesheet.rate_source or "timesheet",
        created_at=to_millis_text(timesheet.created_at),
        updated_at=to_millis_text(timesheet.updated_at),
    )


def short_duration(duration_ms: int) -> ShortDurationShape:
    return ShortDurationShape(format_duration(duration_ms), decimal_hours(duration_ms))


def changed(timesheet: Timesheet, times: Times, now: int) -> Timesheet:
    """Return the timesheet with other times and an increased `updated_at`."""
    return msgspec.structs.replace(timesheet, times=times, updated_at=max(now, timesheet.updated_at + 1))
