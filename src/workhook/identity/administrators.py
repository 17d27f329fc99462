"""Server administrators, who add people and organizations, disable people and remove accounts.

They see no more of an organization than anyone else. The last one who is not disabled cannot be removed.
"""

from __future__ import annotations

import sqlalchemy as sa

from workhook.core.clock import now_ms
from workhook.core.errors import Invalid, say
from workhook.identity import audit
from workhook.identity.schemas import Account
from workhook.identity.tables import accounts, administrators
from workhook.storage import Reader, Transaction
from workhook.storage.dialects import upsert
from workhook.storage.metadata import bigint_param
from workhook.storage.record_rows import assigned

is_one = sa.exists().where(administrators.c.user_id == accounts.c.id).correlate(accounts)
"""Condition: the statement's account administers the server."""

_by_user = sa.select(administrators.c.user_id).where(administrators.c.user_id == bigint_param("user_id"))
_appoint = upsert(administrators).values(assigned(("user_id", "created_at")))
_appoint = _appoint.on_conflict_do_nothing(index_elements=["user_id"])
_dismiss = sa.delete(administrators).where(administrators.c.user_id == bigint_param("user_id"))
# In this order, so that if two leave concurrently, the second one sees that the first has left.
_lock = sa.select(administrators.c.user_id).order_by(administrators.c.user_id).with_for_update()
_other_administrators = (
    sa.select(administrators.c.user_id)
    .join_from(administrators, accounts, accounts.c.id == administrators.c.user_id)
    .where(administrators.c.user_id != bigint_param("user_id"), accounts.c.disabled_at.is_(None))
    .limit(sa.literal_column("1"))
)
_first_administrator = sa.select(administrators.c.user_id).limit(sa.literal_column("1"))


async def is_administrator(reader: Reader, user_id: int) -> bool:
    return await reader.fetch_one(_by_user, {"user_id": user_id}) is not None


async def appoint(tx: Transaction, user: Account) -> bool:
    """Make a user an administrator. Returns False if they already are."""
    if not await tx.execute(_appoint, {"user_id": user.id, "created_at": now_ms()}):
        return False
    await audit.record(tx, None, "administrator.add", user.login, account_id=user.id)
    return True


async def appoint_first(tx: Transaction, user: Account) -> None:
    """Make the user an administrator if the server has none yet."""
    if await tx.fetch_one(_first_administrator) is None:
        await appoint(tx, user)


async def dismiss(tx: Transaction, user: Account) -> bool:
    """Remove an administrator. Returns whether the user was one. Raises `Invalid` for the last active one."""
    await require_another_administrator(tx, user)
    if not await tx.execute(_dismiss, {"user_id": user.id}):
        return False
    await audit.record(tx, None, "administrator.remove", user.login, account_id=user.id)
    return True


async def require_another_administrator(tx: Transaction, user: Account) -> None:
    """Lock the administrators. Raises `Invalid` if the user is the last one who is not disabled."""
    known = {row["user_id"] for row in await tx.fetch_all(_lock)}
    if user.id in known and await tx.fetch_one(_other_administrators, {"user_id": user.id}) is None:
        message = say("{} is the last active administrator; appoint another one first", user.login)
        raise Invalid.at("login", message)
