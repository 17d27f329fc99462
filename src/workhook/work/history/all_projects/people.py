"""People in all projects that the caller can see, as choices for filters by person."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from workhook.identity.schemas import Actor
from workhook.identity.tables import accounts, collaborators, memberships, projects
from workhook.storage import Reader
from workhook.storage.metadata import bigint_param
from workhook.work.kernel.people import ADDRESS_HIDDEN, PersonShape, person_columns, person_of_row
from workhook.work.kernel.scopes import CALLER, Scope, source_across_projects, visible_projects
from workhook.work.kernel.tables import clients


@lru_cache(maxsize=16)
def _statement(scope: Scope) -> sa.Select[Any]:
    """Select the team of each project, and its clients if the caller is on the team."""
    place = visible_projects(scope).each
    owned = (
        sa.select(projects.c.account_id, projects.c.private)
        .join(place, place.c.repository_id == projects.c.repository_id)
        .distinct()
        .cte("owned")
    )
    seen_by = sa.or_(memberships.c.role == "owner", owned.c.private.is_(sa.false()))
    ids = sa.union(
        sa.select(CALLER.label("id")),
        sa.select(owned.c.account_id),
        sa.select(memberships.c.user_id)
        .join(owned, owned.c.account_id == memberships.c.organization_id)
        .where(seen_by),
        sa.select(collaborators.c.user_id).join(place, place.c.repository_id == collaborators.c.repository_id),
        sa.select(clients.c.user_id)
        .join(place, place.c.repository_id == clients.c.repository_id)
        .where(place.c.insider == 1),
    ).subquery("ids")
    return (
        sa.select(*person_columns(ADDRESS_HIDDEN))
        .where(accounts.c.id.in_(sa.select(ids.c.id)), accounts.c.kind == "user")
        .order_by(accounts.c.id)
        .limit(bigint_param("limit"))
    )


async def list_all_people(reader: Reader, actor: Actor, query: Any, *, archived: bool, limit: int) -> list[PersonShape]:
    """Return up to `limit` people to whom the tasks matching `query` can be assigned, oldest accounts first."""
    source = source_across_projects(actor, query, archived=archived)
    rows = await reader.fetch_all(_statement(source.scope), {**source.params, "limit": limit})
    return [person_of_row(row) for row in rows]
