"""The SELECTs of an export: a page of the rows of a kind, of one organization or of one of its projects."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa

from workhook.identity.tables import accounts, memberships, projects
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big, metadata
from workhook.work.moving.kinds import LineKind

PAGE_ROWS = 200

organization_row = sa.select(accounts).where(accounts.c.id == big("owner"))
# Their addresses are read only of members: owners see those, and no others.
people_rows = (
    sa.select(
        accounts.c.id,
        accounts.c.login,
        accounts.c.name,
        accounts.c.kind,
        sa.case((memberships.c.user_id.is_not(None), accounts.c.email)).label("email"),
    )
    .select_from(
        accounts.outerjoin(
            memberships,
            sa.and_(
                memberships.c.user_id == accounts.c.id,
                memberships.c.organization_id == big("owner"),
                memberships.c.role != "app",
            ),
        )
    )
    .where(any_of(accounts.c.id, "ids"))
    .order_by(accounts.c.id)
)
project_numbers = (
    sa.select(projects.c.repository_id, projects.c.id)
    .where(projects.c.account_id == big("owner"))
    .order_by(projects.c.repository_id)
)


class KindPages:
    """`first` and `next` take `owner` (the account, or the number of the project) and `limit`; `next` also `after(row)`
    of the last row of the page before."""

    def __init__(self, kind: LineKind) -> None:
        table = kind.source
        owner, source = _owner_of(kind, table)
        key = [each for each in table.primary_key.columns if each is not owner] or [owner]
        columns = [*table.columns]
        rows = sa.select(*columns).select_from(source).where(owner == big("owner"), *_besides(kind, table))
        ordered = rows.order_by(*key).limit(big("limit"))
        after = [sa.bindparam(f"after_{each.name}", type_=each.type) for each in key]
        self._key = [each.name for each in key]
        self.first = ordered
        self.next = ordered.where(sa.tuple_(*key) > sa.tuple_(*after))

    def after(self, row: Any) -> dict[str, Any]:
        return {f"after_{name}": row[name] for name in self._key}


@cache
def pages_of(kind: LineKind) -> KindPages:
    return KindPages(kind)


def _owner_of(kind: LineKind, table: sa.Table) -> tuple[sa.Column[Any], sa.FromClause]:
    if kind.through is None:
        return table.c[kind.by], table
    parent = metadata.tables[kind.through.table]
    return parent.c[kind.by], table.join(parent, parent.c.id == table.c[kind.through.column])


def _besides(kind: LineKind, table: sa.Table) -> Sequence[sa.ColumnElement[bool]]:
    """Rows of apps stay: their webhooks, and the places of their bots."""
    if kind.name == "webhooks":
        return (table.c.app_id.is_(None), table.c.installation_id.is_(None))
    if kind.name == "members":
        return (table.c.role != "app",)
    return ()
