"""What counts for somebody's time in a project: the rate of an hour, and whether it is billable.

The nearest rate wins: the person's in the project, the project's, the person's in the organization, the organization's.
Decision 46 tells when a rate is looked up, and when it is fixed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from workhook.identity.tables import projects
from workhook.storage import Reader, Row
from workhook.storage.metadata import big
from workhook.work.rates.schemas import (
    RateSource,
    RoundMode,
    account_terms,
    member_rates,
    project_rates,
    project_terms,
)


class _Place(NamedTuple):
    """Whose rate a column of `with_terms` is."""

    source: RateSource
    column: sa.ColumnElement[Any]
    name: str


# The nearest first.
_PLACES = (
    _Place("project_member", project_rates.c.hourly_rate_minor, "project_member_rate"),
    _Place("project", project_terms.c.hourly_rate_minor, "project_rate"),
    _Place("member", member_rates.c.hourly_rate_minor, "member_rate"),
    _Place("organization", account_terms.c.hourly_rate_minor, "account_rate"),
)
_has_budget = sa.and_(
    sa.or_(project_terms.c.budget_ms.is_not(None), project_terms.c.budget_minor.is_not(None)),
    project_terms.c.budget_mark < sa.literal_column("100"),
)


_rounding = (
    sa.select(
        sa.func.coalesce(project_terms.c.round_minutes, account_terms.c.round_minutes).label("minutes"),
        sa.func.coalesce(project_terms.c.round_mode, account_terms.c.round_mode).label("mode"),
    )
    .select_from(projects)
    .outerjoin(project_terms, project_terms.c.repository_id == projects.c.repository_id)
    .outerjoin(account_terms, account_terms.c.account_id == projects.c.account_id)
    .where(projects.c.repository_id == big("repository_id"))
)


async def find_rounding(reader: Reader, repository_id: int) -> Rounding:
    """Of the project, or else of its organization."""
    row = await reader.fetch_one(_rounding, {"repository_id": repository_id})
    assert row is not None, "the project is there"
    return Rounding(row["minutes"] or 0, row["mode"] or "up")


def with_terms(statement: sa.Select[Any], user_id: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """With what `terms_of` reads. The statement has `projects`; `user_id`: whose time it is."""
    joined = (
        statement.outerjoin(project_terms, project_terms.c.repository_id == projects.c.repository_id)
        .outerjoin(account_terms, account_terms.c.account_id == projects.c.account_id)
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
        *(each.column.label(each.name) for each in _PLACES),
        sa.func.coalesce(project_terms.c.billable, account_terms.c.billable).label("billable_there"),
        _has_budget.label("has_budget"),
    )


def terms_of(row: Row) -> Terms:
    source, rate = next(((each.source, row[each.name]) for each in _PLACES if row[each.name] is not None), (None, None))
    return Terms(rate, source or "none", bool(row["billable_there"]), bool(row["has_budget"]))
