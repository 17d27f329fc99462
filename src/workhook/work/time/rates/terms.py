"""What counts for somebody's time in a project: the rate of an hour, whether it is billable, and how it is rounded.

The nearest rate wins: the task's, the person's in the project, the project's, the person's in the organization, the
organization's. Decision 46 tells when a rate is looked up, and when it is fixed.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec
import sqlalchemy as sa

from workhook.core.clock import MINUTE_MS, SECOND_MS
from workhook.core.money import DEFAULT_CURRENCY
from workhook.identity.tables import projects
from workhook.storage import Reader, Row
from workhook.storage.metadata import big
from workhook.work.kernel.settings import RoundMode, account_billing, project_billing
from workhook.work.time.rates.people import member_rates, project_rates

RateSource = Literal["timesheet", "task", "project_member", "project", "member", "organization", "none"]
"""Where the rate of an hour is from: the nearest that says one."""


BudgetMark = Literal[0, 80, 100]
"""The percentage of a budget that was told last."""


class TimeTerms(msgspec.Struct, frozen=True):
    """`rate_minor`: of an hour, None if nobody says one; `source`: who says it. `has_budget`: the project's budget is
    not used up yet, as far as was told."""

    rate_minor: int | None = None
    source: RateSource = "none"
    billable: bool = False
    has_budget: bool = False


class Rounding(msgspec.Struct, frozen=True):
    """What the time of an entry is rounded to on an invoice. `minutes` 0: it is not.

    A fraction of a second never counts: it does not begin another step.
    """

    minutes: int = 0
    mode: RoundMode = "up"

    def of(self, duration_ms: int) -> int:
        counted_ms, unit = duration_ms // SECOND_MS * SECOND_MS, self.minutes * MINUTE_MS
        if not unit:
            return counted_ms
        more = unit - 1 if self.mode == "up" else unit // 2
        return (counted_ms + more) // unit * unit


NO_RATE: RateSource = "none"
_OF_TASK: RateSource = "task"
_TASK_RATE = "task_rate"


class _Place(NamedTuple):
    """Whose rate a column of `with_terms` is."""

    source: RateSource
    column: sa.ColumnElement[Any]
    name: str


# An organization's rates are in its own currency.
_same_currency = sa.or_(
    project_billing.c.currency.is_(None),
    project_billing.c.currency
    == sa.func.coalesce(account_billing.c.currency, sa.literal_column(f"'{DEFAULT_CURRENCY}'", sa.Text)),
)


def _where_same(rate: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    return sa.case((_same_currency, rate))


# The nearest first; only that of the task is nearer.
_PLACES = (
    _Place("project_member", project_rates.c.hourly_rate_minor, "project_member_rate"),
    _Place("project", project_billing.c.hourly_rate_minor, "project_rate"),
    _Place("member", _where_same(member_rates.c.hourly_rate_minor), "member_rate"),
    _Place("organization", _where_same(account_billing.c.hourly_rate_minor), "account_rate"),
)
_has_budget = sa.and_(
    sa.or_(project_billing.c.budget_ms.is_not(None), project_billing.c.budget_minor.is_not(None)),
    sa.func.coalesce(project_billing.c.budget_mark, sa.literal_column("0")) < sa.literal_column("100"),
)


def _with_settings(statement: sa.Select[Any]) -> sa.Select[Any]:
    return statement.outerjoin(project_billing, project_billing.c.repository_id == projects.c.repository_id).outerjoin(
        account_billing, account_billing.c.account_id == projects.c.account_id
    )


def _either(name: str) -> sa.ColumnElement[Any]:
    return sa.func.coalesce(project_billing.c[name], account_billing.c[name])


_rounding = _with_settings(
    sa.select(_either("round_minutes").label("minutes"), _either("round_mode").label("mode")).select_from(projects)
).where(projects.c.repository_id == big("repository_id"))


async def find_rounding(reader: Reader, repository_id: int) -> Rounding:
    """Of the project, or else of its organization."""
    row = await reader.fetch_one(_rounding, {"repository_id": repository_id})
    assert row is not None, "the project is there"
    return Rounding(row["minutes"] or 0, row["mode"] or "up")


class TaskTerms(NamedTuple):
    """What a task says of its time: the rate of an hour in minor units, and whether it is billable; null: nothing."""

    rate: sa.ColumnElement[Any]
    billable: sa.ColumnElement[Any]

    @classmethod
    def of(cls, tasks: sa.FromClause) -> TaskTerms:
        """Of a statement that has this table of tasks, or an alias of it."""
        return cls(tasks.c.hourly_rate_minor, tasks.c.billable)


_NO_TASK = TaskTerms(sa.cast(sa.null(), sa.BigInteger), sa.cast(sa.null(), sa.Boolean))


def with_terms(statement: sa.Select[Any], user_id: sa.ColumnElement[Any], task: TaskTerms = _NO_TASK) -> sa.Select[Any]:
    """With what `terms_of` reads. The statement has `projects`; `user_id`: whose time it is; `task`: on what."""
    joined = (
        _with_settings(statement)
        .outerjoin(
            project_rates,
            sa.and_(project_rates.c.repository_id == projects.c.repository_id, project_rates.c.user_id == user_id),
        )
        .outerjoin(
            member_rates,
            sa.and_(member_rates.c.account_id == projects.c.account_id, member_rates.c.user_id == user_id),
        )
    )
    return joined.add_columns(
        task.rate.label(_TASK_RATE),
        *(each.column.label(each.name) for each in _PLACES),
        sa.func.coalesce(task.billable, _either("billable")).label("billable_there"),
        _has_budget.label("has_budget"),
    )


def terms_of(row: Row) -> TimeTerms:
    rate, source = row[_TASK_RATE], NO_RATE if row[_TASK_RATE] is None else _OF_TASK
    for each in _PLACES if rate is None else ():
        if (rate := row[each.name]) is not None:
            source = each.source
            break
    return TimeTerms(rate, source, bool(row["billable_there"]), bool(row["has_budget"]))
