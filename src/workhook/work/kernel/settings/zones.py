"""The time zone of a project: that of the billing settings of its account."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import tzinfo

import sqlalchemy as sa

from workhook.core.zones import stored_zone
from workhook.identity.tables import projects
from workhook.storage import Reader
from workhook.storage.dialects import any_of
from workhook.work.kernel.settings.schemas import account_billing

_zones = (
    sa.select(projects.c.repository_id, account_billing.c.timezone)
    .select_from(projects)
    .outerjoin(account_billing, account_billing.c.account_id == projects.c.account_id)
    .where(any_of(projects.c.repository_id, "ids"))
)


async def find_zone(reader: Reader, repository_id: int) -> tzinfo:
    """The zone in which the project's days begin and end; UTC until its account chooses one."""
    return (await find_zones(reader, [repository_id]))[repository_id]


async def find_zones(reader: Reader, repository_ids: Iterable[int]) -> Mapping[int, tzinfo]:
    """The zones of several projects that exist."""
    rows = await reader.fetch_all(_zones, {"ids": sorted(set(repository_ids))})
    return {row["repository_id"]: stored_zone(row["timezone"]) for row in rows}
