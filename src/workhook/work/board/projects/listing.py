"""List the projects that the caller can see or restore, starting from the caller's accounts.

The projects of an account are ranges of an index (`kernel.list_statements`). Those the caller was added to as a
collaborator or client are ranges of another index. For a token that is limited to selected repositories, the selected
repositories are read instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import product
from typing import Any

import sqlalchemy as sa

from workhook.identity.schemas import Actor
from workhook.identity.tables import collaborators, memberships, projects
from workhook.identity.tokens.lookup import reach_params
from workhook.storage import Reader
from workhook.storage.dialects import any_of
from workhook.storage.metadata import bigint_param
from workhook.storage.statements import PerDialect
from workhook.work.board.projects.schemas import PROJECTS, Project, project_of
from workhook.work.board.tasks.matching import PART_MIN, fold_text, words_of
from workhook.work.kernel.access import role_in
from workhook.work.kernel.list_statements import (
    Columns,
    caller_accounts,
    select_first,
    select_first_per_group,
    with_flag,
)
from workhook.work.kernel.scopes import CALLER, CHOSEN, WHOLE
from workhook.work.kernel.tables import clients

FLAGS = tuple(product((False, True), repeat=2))  # confined, continues


# --- projects, in order of creation ----------------------------------------------------------------------------------

# The cursor names a project, which may have been deleted since.
_before = projects.alias("before")
_behind = sa.func.coalesce(
    sa.select(_before.c.repository_id)
    .where(_before.c.id <= sa.bindparam("after", type_=sa.Text))
    .order_by(_before.c.id.desc())
    .limit(1)
    .scalar_subquery(),
    sa.literal_column("0"),
)


def _further(found: sa.FromClause, continues: bool) -> list[sa.ColumnElement[bool]]:
    return [found.c.repository_id > _behind] if continues else []


_Order = Callable[[sa.FromClause], Columns]


def _in_accounts(dialect: str, *, confined: bool, continues: bool, order: _Order) -> sa.Select[Any]:
    """Select the projects of accounts: members see those that are not private, owners and apps see all."""
    place = caller_accounts(within=WHOLE if confined else None)
    each = with_flag(place, "private", both=sa.or_(place.c.role == "owner", place.c.role == "app"))

    def fits(row: sa.FromClause) -> Columns:
        in_place = [row.c.account_id == each.c.account_id, row.c.private == each.c.private]
        return [*in_place, row.c.deleted_at.is_(None), *_further(row, continues)]

    return select_first_per_group(dialect, projects, "repository_id", each, fits, order, ["repository_id"])


def _added_to(table: sa.Table, *, confined: bool, continues: bool, order: _Order) -> sa.Select[Any]:
    hand, there = table.alias("hand"), projects.alias("there")
    exists = sa.select(there.c.repository_id).where(
        there.c.repository_id == hand.c.repository_id, there.c.deleted_at.is_(None)
    )
    if confined:
        exists = exists.where(any_of(there.c.account_id, WHOLE))
    # A scalar subquery is evaluated per row by key; EXISTS may become a join with all projects.
    mine = [hand.c.user_id == CALLER, exists.correlate(hand).scalar_subquery().is_not(None)]
    found = sa.select(hand.c.repository_id).where(*mine, *_further(hand, continues))
    few = found.order_by(*order(hand)).limit(bigint_param("limit")).subquery(f"few_{table.name}")
    return sa.select(few.c.repository_id)


def each_chosen() -> sa.Subquery:
    """Select the repositories that a token is limited to.

    OFFSET keeps PostgreSQL from scanning other indexes for all projects as well.
    """
    row = projects.alias("row")
    chosen = sa.select(row).where(any_of(row.c.repository_id, CHOSEN))
    return chosen.offset(sa.literal_column("0")).subquery("one")


def _select_projects(*, continues: bool) -> sa.Select[Any]:
    one = each_chosen()
    role = role_in(memberships, one, CALLER)
    seen = sa.or_(
        one.c.account_id == CALLER,
        role == "owner",
        role == "app",
        sa.and_(sa.not_(one.c.private), role.is_not(None)),
        role_in(collaborators, one, CALLER, "user_id").is_not(None),
        role_in(clients, one, CALLER, "user_id").is_not(None),
    )
    found = sa.select(one.c.repository_id).where(one.c.deleted_at.is_(None), seen, *_further(one, continues))
    few = found.order_by(one.c.repository_id).limit(bigint_param("limit")).subquery("few_chosen")
    return sa.select(few.c.repository_id)


def _visible(confined: bool, continues: bool = False, *, newest: bool = False) -> PerDialect:
    """Select the first projects that the caller can see.

    `confined` limits them to the accounts of a parameter. Repositories that a token selects are included only in the
    oldest-first order.
    """

    def order(found: sa.FromClause) -> Columns:
        return [found.c.repository_id.desc() if newest else found.c.repository_id]

    def make(dialect: str) -> sa.Select[Any]:
        ways = [
            _in_accounts(dialect, confined=confined, continues=continues, order=order),
            _added_to(collaborators, confined=confined, continues=continues, order=order),
            _added_to(clients, confined=confined, continues=continues, order=order),
            *([_select_projects(continues=continues)] if confined and not newest else []),
        ]
        first = select_first(ways, ["repository_id"], order)
        return PROJECTS.where(projects.c.repository_id.in_(first)).order_by(*order(projects))

    return PerDialect.made_by(make)


_listed = {flags: _visible(*flags) for flags in FLAGS}
_listed_newest = {confined: _visible(confined, newest=True) for confined in (False, True)}


async def list_visible(reader: Reader, actor: Actor, *, after: str | None, limit: int) -> list[Project]:
    """List the projects that the caller can see, oldest first, after the ID `after`."""
    params = {"user_id": actor.user.id, "limit": limit, "after": after, **reach_params(actor)}
    rows = await reader.fetch_all(_listed[actor.grants is not None, after is not None], params)
    return [project for row in rows if (project := project_of(row, actor))]


_projects_by_ids = PROJECTS.where(any_of(projects.c.id, "project_ids"))


async def find_visible(reader: Reader, actor: Actor, project_ids: Collection[str]) -> dict[str, Project]:
    """Return those of the given projects that the caller can see, by ID. Not for confined tokens."""
    if not project_ids:
        return {}
    rows = await reader.fetch_all(_projects_by_ids, {"user_id": actor.user.id, "project_ids": sorted(project_ids)})
    return {project.id: project for row in rows if (project := project_of(row, actor))}


NAMED_AMONG = 1000


async def search_by_title(reader: Reader, actor: Actor, words: str) -> list[Project]:
    """Find the projects whose titles contain all of `words` (see `tasks.matching.words_of`).

    The last word may be the beginning of a word in the title, and words of at least `PART_MIN` characters may occur
    inside one. Searches the first thousand projects that the caller can see: too few for an index to pay off.
    """
    *whole, beginning = fold_text(words).split() or [""]
    if not beginning:
        return []
    found = []
    for project in await list_visible(reader, actor, after=None, limit=NAMED_AMONG):
        has = words_of(fold_text(project.title)).split()
        fits = (part in has or _is_inside(part, has) for part in whole)
        if all(fits) and (any(each.startswith(beginning) for each in has) or _is_inside(beginning, has)):
            found.append(project)
    return found


def _is_inside(part: str, words: Sequence[str]) -> bool:
    return len(part) >= PART_MIN and any(part in word for word in words)


async def list_newest(reader: Reader, actor: Actor, *, limit: int, account_id: int | None = None) -> list[Project]:
    """List the projects that a signed-in user can see, newest first, optionally those of one account.

    Use `list_visible` for confined tokens.
    """
    assert actor.grants is None, "only sessions ask"
    params: dict[str, object] = {"user_id": actor.user.id, "limit": limit}
    if account_id is not None:
        params[WHOLE] = [account_id]
    rows = await reader.fetch_all(_listed_newest[account_id is not None], params)
    return [project for row in rows if (project := project_of(row, actor))]
