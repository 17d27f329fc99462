"""The SELECTs of an export: a page of the rows of a kind, of one organization or of one of its projects."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa

from workhook.identity.tables import accounts, memberships, projects
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big, metadata
from workhook.storage.statements import PerDialect
from workhook.work.portability.moving.kinds import LineKind

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
    of the last row of the page before. They read rows of the kind. If the kind belongs to its owner `through` another
    table, they read the ids of that one's rows, and `below` the kind's rows that refer to some of them (`ids`)."""

    def __init__(self, kind: LineKind) -> None:
        table = kind.source
        paged = table if kind.through is None else metadata.tables[kind.through.table]
        self.owner = paged.c[kind.by]
        self.key = [each for each in paged.primary_key.columns if each is not self.owner] or [self.owner]
        columns = [*table.columns] if kind.through is None else [paged.c.id]
        self._rows = sa.select(*columns).where(*(_besides(kind, table) if kind.through is None else ()))
        self.first = PerDialect.made_by(lambda dialect: self._page(dialect, begins=True))
        self.next = PerDialect.made_by(lambda dialect: self._page(dialect, begins=False))
        self.below: sa.Select[Any] | None = None
        if kind.through is not None:
            refers = table.c[kind.through.column]
            self.below = sa.select(table).where(any_of(refers, "ids")).order_by(*table.primary_key.columns)

    def _page(self, dialect: str, *, begins: bool) -> sa.Select[Any]:
        """On PostgreSQL the order is one that the key alone has not: else the planner may go through everybody's rows
        by their keys (see `storage.index_ranges`)."""
        owner, after = big("owner"), [sa.bindparam(f"after_{each.name}", type_=each.type) for each in self.key]
        order = self.key
        rows = self._rows.where(self.owner == owner)
        if dialect == "postgresql" and self.key != [self.owner]:
            order = [self.owner, *self.key]
            rows = self._rows.where(self.owner >= owner, self.owner <= owner)
        if not begins and order is self.key:
            rows = rows.where(sa.tuple_(*self.key) > sa.tuple_(*after))
        elif not begins:
            rows = rows.where(sa.tuple_(*order) > sa.tuple_(owner, *after))
        return rows.order_by(*order).limit(big("limit"))

    def after(self, row: Any) -> dict[str, Any]:
        return {f"after_{each.name}": row[each.name] for each in self.key}


@cache
def pages_of(kind: LineKind) -> KindPages:
    return KindPages(kind)


def _besides(kind: LineKind, table: sa.Table) -> Sequence[sa.ColumnElement[bool]]:
    """Rows of apps stay: their webhooks, and the places of their bots."""
    if kind.name == "webhooks":
        return (table.c.app_id.is_(None), table.c.installation_id.is_(None))
    if kind.name == "members":
        return (table.c.role != "app",)
    return ()
