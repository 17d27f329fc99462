"""Lists that span organizations: what a caller has is found from the caller's places, however much others have.

A place is an account: the caller's own, or an organization that the caller is in. What belongs to it is a stretch of an
index, in order. The first few of each place are taken, and of these together the first few, so what is looked at is
bounded by the places, times the page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa

from workhook.identity.tables import accounts, memberships
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big
from workhook.storage.statements import PerDialect

_CALLER = big("user_id")
_MOST: sa.ColumnElement[int] = sa.literal_column("1024")

Columns = Sequence[sa.ColumnElement[Any]]


def places(*, within: str | None) -> sa.Subquery:
    """The accounts in which the caller is, `account_id`, and as what, `role`: owner, member or app. `within`: only of
    those that this parameter lists; see `reach_params`."""
    joined = memberships.alias("joined")
    if within is None:
        return sa.union_all(
            sa.select(joined.c.organization_id.label("account_id"), joined.c.role).where(joined.c.user_id == _CALLER),
            sa.select(_CALLER.label("account_id"), sa.literal_column("'owner'", sa.Text).label("role")),
        ).subquery("place")
    reached = accounts.alias("reached")
    as_member = (
        sa.select(joined.c.role)
        .where(joined.c.organization_id == reached.c.id, joined.c.user_id == _CALLER)
        .correlate(reached)
        .scalar_subquery()
    )
    role = sa.case((reached.c.id == _CALLER, sa.literal_column("'owner'")), else_=as_member).label("role")
    of_all = sa.select(reached.c.id.label("account_id"), role).where(any_of(reached.c.id, within)).subquery("of_all")
    return sa.select(of_all.c.account_id, of_all.c.role).where(of_all.c.role.is_not(None)).subquery("place")


def with_flag(place: sa.Subquery, name: str, *, both: sa.ColumnElement[bool] | None = None) -> sa.Subquery:
    """Each place twice: a stretch for each value of a flag. With `both` only where that holds for the value true."""
    kinds = sa.union_all(sa.select(sa.false().label(name)), sa.select(sa.true().label(name)))
    # With OFFSET PostgreSQL does not take the rows apart again.
    kind = kinds.offset(sa.literal_column("0")).subquery("kind")
    found = sa.select(place.c.account_id, kind.c[name]).select_from(place.join(kind, sa.true()))
    return (found if both is None else found.where(sa.or_(sa.not_(kind.c[name]), both))).subquery("each_place")


def first_of_each(
    dialect: str,
    table: sa.Table,
    key: str,
    each: sa.Subquery,
    conditions: Callable[[sa.FromClause], Columns],
    order: Callable[[sa.FromClause], Columns],
    answered: Sequence[str],
) -> sa.Select[Any]:
    """The columns `answered` of the first `limit` rows of the table for each row of `each`. `key`: its primary key."""
    row = table.alias("stretch")
    top = sa.select(*(row.c[name] for name in {key: None, **dict.fromkeys(answered)}))
    top = top.where(*conditions(row)).order_by(*order(row)).limit(big("limit")).correlate(each)
    if dialect == "postgresql":
        few = top.lateral("few")
        return sa.select(*(few.c[name] for name in answered)).select_from(each.join(few, sa.true()))
    found = table.alias("few")
    mine = found.c[key].in_(top.with_only_columns(row.c[key]))
    return sa.select(*(found.c[name] for name in answered)).select_from(each.join(found, mine))


def first_of(
    ways: Sequence[sa.Select[Any]], answered: Sequence[str], order: Callable[[sa.FromClause], Columns]
) -> sa.Select[Any]:
    """The first `limit` of all that the ways find, each once."""
    found = (sa.union(*ways) if len(ways) > 1 else ways[0]).subquery("found")
    page = sa.select(*(found.c[name] for name in answered)).order_by(*order(found)).limit(big("limit")).subquery("page")
    # A plan for all values would take a limit that it does not know for a tenth of the rows; no page has so many.
    return sa.select(*(page.c[name] for name in answered)).order_by(*order(page)).limit(_MOST)


class _LazyStatement(PerDialect):
    def __init__(self, make: Callable[[str], sa.Select[Any]]) -> None:
        self._make = cache(make)

    def of(self, dialect: str) -> sa.Select[Any]:
        return self._make(dialect)


def written(make: Callable[[str], sa.Select[Any]]) -> PerDialect:
    """A statement that `make` makes for a dialect, by its name, when it is first asked for: a process uses one."""
    return _LazyStatement(make)
