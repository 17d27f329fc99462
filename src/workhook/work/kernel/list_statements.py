"""Statements that read one page of a list at a cost independent of other users' data.

A list across organizations starts from the caller's accounts (`caller_accounts`). The rows of each account form a range
of an index, already in order. `select_first_per_group` reads the first rows of every account and `select_first` merges
them, so at most accounts times page size rows are read.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import sqlalchemy as sa

from workhook.identity.tables import accounts, memberships
from workhook.storage.dialects import any_of, join_few
from workhook.storage.metadata import bigint_param

Columns = Sequence[sa.ColumnElement[Any]]

PAGE_CHARS = 8 * 1024 * 1024
"""Maximum total length of the texts in one response, in characters."""

PAGE_CHARS_LITERAL = sa.literal_column(str(PAGE_CHARS), sa.BigInteger)
ROWS_LIMIT: sa.ColumnElement[int] = sa.literal_column("1024")
"""A second limit, above any page size. In a generic plan, PostgreSQL estimates an unknown limit as a tenth of the rows.
"""
_CALLER = bigint_param("user_id")


def length(*texts: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
    """Return the total number of characters of the texts, counting null as empty."""
    return reduce(operator.add, (sa.func.coalesce(sa.func.length(each), 0) for each in texts))


def caller_accounts(*, within: str | None) -> sa.Subquery:
    """Select `account_id` and `role` (owner, member or app) of the caller's own account and organizations.

    If `within` is given, only accounts listed in the parameter of that name are selected; see `reach_params`.
    """
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
    """Select each account once per value of a flag, because each value is a separate range of the index.

    `both` is the condition for including the value true; by default it is always included.
    """
    kinds = sa.union_all(sa.select(sa.false().label(name)), sa.select(sa.true().label(name)))
    # OFFSET keeps PostgreSQL from splitting the union.
    kind = kinds.offset(sa.literal_column("0")).subquery("kind")
    found = sa.select(place.c.account_id, kind.c[name]).select_from(place.join(kind, sa.true()))
    return (found if both is None else found.where(sa.or_(sa.not_(kind.c[name]), both))).subquery("each_place")


def select_first_per_group(
    dialect: str,
    table: sa.Table,
    key: str,
    each: sa.FromClause,
    conditions: Callable[[sa.FromClause], Columns],
    order: Callable[[sa.FromClause], Columns],
    answered: Sequence[str],
) -> sa.Select[Any]:
    """Select the `answered` columns of the first `limit` rows of `table` for each row of `each`.

    `key` is the table's primary key.
    """
    row = table.alias("stretch")
    top = sa.select(*(row.c[name] for name in {key: None, **dict.fromkeys(answered)}))
    top = top.where(*conditions(row)).order_by(*order(row)).limit(bigint_param("limit")).correlate(each)
    joined, few = join_few(dialect, each, top, table, key)
    return sa.select(*(few.c[name] for name in answered)).select_from(joined)


def select_first(
    ways: Sequence[sa.Select[Any]], answered: Sequence[str], order: Callable[[sa.FromClause], Columns]
) -> sa.Select[Any]:
    """Select the first `limit` rows of the union of `ways`."""
    found = (sa.union(*ways) if len(ways) > 1 else ways[0]).subquery("found")
    page = (
        sa.select(*(found.c[name] for name in answered))
        .order_by(*order(found))
        .limit(bigint_param("limit"))
        .subquery("page")
    )
    return sa.select(*(page.c[name] for name in answered)).order_by(*order(page)).limit(ROWS_LIMIT)
