"""What a user has let apps do, as the user's own page shows it, and taking it back there."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.identity.apps.tables import apps
from workhook.identity.oauth.grants import revoke_grant
from workhook.identity.oauth.tables import grants
from workhook.identity.tables import accounts
from workhook.storage import Reader, Row, Transaction
from workhook.storage.metadata import big

_of_user = (
    sa.select(
        grants.c.id,
        grants.c.scopes,
        grants.c.created_at,
        apps.c.name.label("app_name"),
        apps.c.kind.label("app_kind"),
        accounts.c.login.label("owner"),
    )
    .join_from(grants, apps, apps.c.id == grants.c.app_id)
    .join(accounts, accounts.c.id == apps.c.account_id)
    .where(grants.c.user_id == big("user_id"))
    .order_by(sa.func.lower(apps.c.name), grants.c.id)
)
_app_of = sa.select(grants.c.app_id).where(grants.c.id == big("grant_id"), grants.c.user_id == big("user_id"))


async def list_of(reader: Reader, user_id: int) -> list[Row]:
    """Columns id, scopes, created_at, app_name, app_kind, owner."""
    return list(await reader.fetch_all(_of_user, {"user_id": user_id}))


async def revoke(tx: Transaction, user_id: int, grant_id: int) -> int | None:
    """Only one of this user's own, with every token that came of it. Answers the app's id, or None for no such."""
    row = await tx.fetch_one(_app_of, {"grant_id": grant_id, "user_id": user_id})
    if row is None or not await revoke_grant(tx, row["app_id"], user_id):
        return None
    return int(row["app_id"])
