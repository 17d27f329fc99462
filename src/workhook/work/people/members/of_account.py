"""Who belongs to an account: its members, and the collaborators and clients of its projects."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import sqlalchemy as sa

from workhook.identity.queries import account_columns
from workhook.identity.schemas import Account, account_of
from workhook.identity.tables import accounts, collaborators, memberships, projects
from workhook.storage import Reader
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big
from workhook.work.kernel.clients import clients


def _in_a_project(place: sa.Table) -> sa.ColumnElement[bool]:
    return (
        sa.select(projects.c.repository_id)
        .join_from(place, projects, projects.c.repository_id == place.c.repository_id)
        .where(place.c.user_id == accounts.c.id, projects.c.account_id == big("account_id"))
        .correlate(accounts)
        .exists()
    )


_is_member = (
    sa.select(memberships.c.role)
    .where(memberships.c.user_id == accounts.c.id, memberships.c.organization_id == big("account_id"))
    .correlate(accounts)
    .exists()
)
_belonging = sa.select(*account_columns()).where(
    any_of(accounts.c.id, "ids"),
    sa.or_(accounts.c.id == big("account_id"), _is_member, _in_a_project(collaborators), _in_a_project(clients)),
)


async def belonging_to(reader: Reader, account_id: int, ids: Collection[int]) -> Mapping[int, Account]:
    """Those of these accounts that belong to the account, by their ids. Strangers are none of them."""
    rows = await reader.fetch_all(_belonging, {"account_id": account_id, "ids": sorted(ids)}) if ids else []
    return {row["id"]: account_of(row) for row in rows}
