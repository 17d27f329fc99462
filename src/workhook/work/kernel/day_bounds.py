"""Filters that take a day or a moment. A bare day is interpreted in one time zone, which the query names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, timedelta, tzinfo
from typing import Annotated

import sqlalchemy as sa
from msgspec import Meta

from workhook.core.zones import NAME_MAX_CHARS, midnight_of, start_of, zone_fault, zone_of, zone_or_utc
from workhook.http.parameters import DAY_OR_MOMENT, Converter, Rule
from workhook.http.wire_types import read_day_or_moment, with_plus
from workhook.identity.tables import projects
from workhook.storage import Reader
from workhook.storage.dialects import any_of
from workhook.work.kernel.billing_settings import account_billing


def _read_bound(raw: object) -> int | date:
    """Parse a bound. A bare day stays a `date`, because its start depends on the time zone."""
    moment = read_day_or_moment(raw)
    try:
        return date.fromisoformat(str(raw).strip())
    except ValueError:
        return moment


Bound = Annotated[int, Meta(extra_json_schema=DAY_OR_MOMENT), Converter(_read_bound, mend=with_plus)]
"""Milliseconds since the epoch, or a `date`; the functions below distinguish them."""
TimeZone = Annotated[str, Meta(max_length=NAME_MAX_CHARS), Rule(zone_fault)]
"""An IANA name known to the server."""


def is_bare(bound: object) -> bool:
    return isinstance(bound, date)


def zone_named(timezone: object) -> tzinfo:
    """Return the zone of a `TimeZone` parameter, or UTC if it is absent."""
    return zone_of(timezone) if isinstance(timezone, str) else UTC


def start_ms(bound: object, zone: tzinfo) -> int | None:
    """Return the bound in milliseconds, or None if it is absent. A day starts at its midnight in `zone`."""
    if isinstance(bound, date):
        return start_of(bound, zone)
    return bound if isinstance(bound, int) else None


def deadline_params(*, before: object, after: object, zone: tzinfo) -> dict[str, int]:
    """Return the parameters for conditions on deadlines, which are days or moments.

    A bare bound excludes its whole day in `zone` when the deadline is a moment.
    """
    found: dict[str, int | None] = {
        "deadline_before_day": midnight_of(before) if isinstance(before, date) else start_ms(before, zone),
        "deadline_before_moment": start_ms(before, zone),
        "deadline_after_day": midnight_of(after) if isinstance(after, date) else start_ms(after, zone),
        "deadline_after_moment": start_of(after + timedelta(days=1), zone) - 1
        if isinstance(after, date)
        else start_ms(after, zone),
    }
    return {name: value for name, value in found.items() if value is not None}


_every_zone = (
    sa.select(projects.c.repository_id, account_billing.c.timezone)
    .select_from(projects)
    .outerjoin(account_billing, account_billing.c.account_id == projects.c.account_id)
)
_zones = _every_zone.where(any_of(projects.c.repository_id, "ids"))
_zone = _every_zone.where(projects.c.id == sa.bindparam("project_id"))


async def find_zone(reader: Reader, repository_id: int) -> tzinfo:
    """Return the time zone of the project's account; UTC until one is chosen."""
    return (await find_zones(reader, [repository_id]))[repository_id]


async def find_zone_by_project(reader: Reader, project_id: str) -> tzinfo:
    """Return the zone of the project with a public ID, or UTC if it does not exist."""
    row = await reader.fetch_one(_zone, {"project_id": project_id})
    return zone_or_utc(row["timezone"] if row else None)


async def find_zones(reader: Reader, repository_ids: Iterable[int]) -> Mapping[int, tzinfo]:
    rows = await reader.fetch_all(_zones, {"ids": sorted(set(repository_ids))})
    return {row["repository_id"]: zone_or_utc(row["timezone"]) for row in rows}
