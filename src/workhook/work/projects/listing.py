"""The projects that somebody sees, and those that somebody could restore: found from the caller's places.

Those of an account are stretches of an index. Those in which somebody was placed by hand, as a collaborator or a
client, are a stretch of another. Of a token that is confined to chosen repositories these are looked at instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from workhook.identity.schemas import Actor
from workhook.identity.tables import collaborators, memberships, projects
from workhook.identity.tokens.lookup import reach_params
from workhook.storage import Reader, Row
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big
from workhook.storage.statements import PerDialect
from workhook.work.clients.tables import clients
from workhook.work.invoices.tables import invoices
from workhook.work.places import Columns, first_of, first_of_each, places, with_flag, written
from workhook.work.projects.queries import PROJECTS, project_of
from workhook.work.projects.schemas import Project

_CALLER = big("user_id")
_WHOLE, _CHOSEN = "reach_whole_accounts", "reach_repositories"


def _held(table: sa.Table, project: sa.FromClause, column: str) -> sa.ColumnElement[Any]:
    """What the caller has in the project, by the table."""
    held = table.alias(f"held_{table.name}")
    place = (
        held.c.organization_id == project.c.account_id
        if table is memberships
        else (held.c.repository_id == project.c.repository_id)
    )
    return sa.select(held.c[column]).where(place, held.c.user_id == _CALLER).correlate(project).scalar_subquery()


# --- what is there, as it was made ------------------------------------------------------------------------------------

# The cursor names a project, which can be gone.
_before = projects.alias("before")
_behind = sa.func.coalesce(
    sa.select(_before.c.repository_id)
    .where(_before.c.id <= sa.bindparam("after", type_=sa.Text))
    .order_by(_before.c.id.desc())
    .limit(1)
    .scalar_subquery(),
    sa.literal_column("0"),
)


def _as_made(found: sa.FromClause) -> Columns:
    return [found.c.repository_id]


def _further(found: sa.FromClause, continues: bool) -> list[sa.ColumnElement[bool]]:
    return [found.c.repository_id > _behind] if continues else []


def _sees_all(role: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    return sa.or_(role == "owner", role == "app")


def _in_places(dialect: str, *, confined: bool, continues: bool) -> sa.Select[Any]:
    """A member sees what is not private of an organization, its owners and apps everything."""
    place = places(within=_WHOLE if confined else None)
    each = with_flag(place, "private", both=_sees_all(place.c.role))

    def fits(row: sa.FromClause) -> Columns:
        here = [row.c.account_id == each.c.account_id, row.c.private == each.c.private, row.c.deleted_at.is_(None)]
        return [*here, *_further(row, continues)]

    return first_of_each(dialect, projects, "repository_id", each, fits, _as_made, ["repository_id"])


def _by_hand(table: sa.Table, *, confined: bool, continues: bool) -> sa.Select[Any]:
    hand, there = table.alias("hand"), projects.alias("there")
    exists = sa.select(there.c.repository_id).where(
        there.c.repository_id == hand.c.repository_id, there.c.deleted_at.is_(None)
    )
    if confined:
        exists = exists.where(any_of(there.c.account_id, _WHOLE))
    # Asked of each, by its key: EXISTS may become a join with all projects.
    mine = [hand.c.user_id == _CALLER, exists.correlate(hand).scalar_subquery().is_not(None)]
    found = sa.select(hand.c.repository_id).where(*mine, *_further(hand, continues))
    few = found.order_by(hand.c.repository_id).limit(big("limit")).subquery(f"few_{table.name}")
    return sa.select(few.c.repository_id)


def _each_chosen() -> sa.Subquery:
    """With OFFSET PostgreSQL asks nothing of all projects besides, which other indexes would have."""
    row = projects.alias("row")
    chosen = sa.select(row).where(any_of(row.c.repository_id, _CHOSEN))
    return chosen.offset(sa.literal_column("0")).subquery("one")


def _chosen(*, continues: bool) -> sa.Select[Any]:
    one = _each_chosen()
    role = _held(memberships, one, "role")
    seen = sa.or_(
        one.c.account_id == _CALLER,
        _sees_all(role),
        sa.and_(sa.not_(one.c.private), role.is_not(None)),
        _held(collaborators, one, "user_id").is_not(None),
        _held(clients, one, "user_id").is_not(None),
    )
    found = sa.select(one.c.repository_id).where(one.c.deleted_at.is_(None), seen, *_further(one, continues))
    few = found.order_by(one.c.repository_id).limit(big("limit")).subquery("few_chosen")
    return sa.select(few.c.repository_id)


def _visible(*, confined: bool, continues: bool) -> PerDialect:
    def make(dialect: str) -> sa.Select[Any]:
        ways = [
            _in_places(dialect, confined=confined, continues=continues),
            *(_by_hand(table, confined=confined, continues=continues) for table in (collaborators, clients)),
            *([_chosen(continues=continues)] if confined else []),
        ]
        first = first_of(ways, ["repository_id"], _as_made)
        return PROJECTS.where(projects.c.repository_id.in_(first)).order_by(projects.c.repository_id)

    return written(make)


_listed = {
    (confined, continues): _visible(confined=confined, continues=continues)
    for confined in (False, True)
    for continues in (False, True)
}


async def list_projects(reader: Reader, actor: Actor, *, after: str | None, limit: int) -> list[Project]:
    """What the caller sees, as it was made; `after` is the id behind which to start."""
    params = {"user_id": actor.user.id, "limit": limit, "after": after, **reach_params(actor)}
    rows = await reader.fetch_all(_listed[actor.grants is not None, after is not None], params)
    return [project for row in rows if (project := project_of(row, actor))]


# --- what was deleted, the last first ---------------------------------------------------------------------------------

_TRASH = ("id", "title", "deleted_at")


def _last_first(found: sa.FromClause) -> Columns:
    return [found.c.deleted_at.desc(), found.c.id.desc()]


def _restorable(project: sa.FromClause, continues: bool) -> Columns:
    """Of what has issued invoices nothing is removed, however old it is."""
    bill = invoices.alias("bill")
    issued = (
        sa.select(bill.c.id)
        .where(bill.c.repository_id == project.c.repository_id, bill.c.status != "draft")
        .limit(1)
        .correlate(project)
        .scalar_subquery()
    )
    fits = [project.c.deleted_at.is_not(None), sa.or_(project.c.deleted_at >= big("since"), issued.is_not(None))]
    if continues:
        behind = sa.tuple_(big("deleted_at"), sa.bindparam("after_id", type_=sa.Text))
        fits.append(sa.tuple_(project.c.deleted_at, project.c.id) < behind)
    return fits


def _of_owned(dialect: str, *, confined: bool, continues: bool) -> sa.Select[Any]:
    place = places(within=_WHOLE if confined else None)
    owned = sa.select(place.c.account_id).where(place.c.role == "owner").subquery("owned")

    def fits(row: sa.FromClause) -> Columns:
        return [row.c.account_id == owned.c.account_id, *_restorable(row, continues)]

    return first_of_each(dialect, projects, "repository_id", owned, fits, _last_first, _TRASH)


def _as_admin(*, confined: bool, continues: bool) -> sa.Select[Any]:
    """By hand: no index has both who and when, so all of somebody's are looked at."""
    hand, there = collaborators.alias("hand"), projects.alias("there")
    found = sa.select(*(there.c[name] for name in _TRASH)).join_from(
        hand, there, there.c.repository_id == hand.c.repository_id
    )
    found = found.where(hand.c.user_id == _CALLER, hand.c.role == "admin", *_restorable(there, continues))
    return found.where(any_of(there.c.account_id, _WHOLE)) if confined else found


def _chosen_as_admin(*, continues: bool) -> sa.Select[Any]:
    one = _each_chosen()
    is_admin = sa.or_(
        one.c.account_id == _CALLER,
        _held(memberships, one, "role") == "owner",
        _held(collaborators, one, "role") == "admin",
    )
    return sa.select(*(one.c[name] for name in _TRASH)).where(is_admin, *_restorable(one, continues))


def _trash(*, confined: bool, continues: bool) -> PerDialect:
    def make(dialect: str) -> sa.Select[Any]:
        ways = [
            _of_owned(dialect, confined=confined, continues=continues),
            _as_admin(confined=confined, continues=continues),
            *([_chosen_as_admin(continues=continues)] if confined else []),
        ]
        return first_of(ways, _TRASH, _last_first)

    return written(make)


_deleted = {
    (confined, continues): _trash(confined=confined, continues=continues)
    for confined in (False, True)
    for continues in (False, True)
}


async def list_deleted(
    reader: Reader, actor: Actor, *, since: int, after: tuple[int, str] | None, limit: int
) -> Sequence[Row]:
    """What the caller could restore: id, title, deleted_at; the last deleted first. `after`: deleted_at and id."""
    params: dict[str, object] = {"user_id": actor.user.id, "since": since, "limit": limit, **reach_params(actor)}
    if after is not None:
        params["deleted_at"], params["after_id"] = after
    return await reader.fetch_all(_deleted[actor.grants is not None, after is not None], params)
