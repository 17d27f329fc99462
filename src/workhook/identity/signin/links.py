"""Links that sign somebody in, or let them set a password, once. Stored as digests only."""

from __future__ import annotations

import secrets
from typing import NamedTuple

import sqlalchemy as sa

from workhook.core.clock import MINUTE_MS, now_ms
from workhook.identity.queries import account_columns
from workhook.identity.schemas import Account, account_of
from workhook.identity.signin.tables import sign_in_links
from workhook.identity.tables import accounts
from workhook.identity.tokens.kinds import digest_of
from workhook.storage import Reader, Transaction
from workhook.storage.metadata import big, insert_into

SIGN_IN, SET_PASSWORD = "sign_in", "set_password"  # no secret
_LENGTH_MAX = 100

_insert = insert_into(sign_in_links, "digest", "user_id", "purpose", "created_at", "expires_at")
_good = (
    sign_in_links.c.digest == sa.bindparam("link_digest"),
    sign_in_links.c.used_at.is_(None),
    sign_in_links.c.expires_at > big("now"),
)
_find = (
    sa.select(
        sign_in_links.c.purpose.label("link_purpose"),
        sign_in_links.c.expires_at.label("link_expires_at"),
        *account_columns("user_"),
    )
    .join_from(sign_in_links, accounts, accounts.c.id == sign_in_links.c.user_id)
    .where(*_good, accounts.c.kind == "user", accounts.c.disabled_at.is_(None))
)
_use = sa.update(sign_in_links).where(*_good).values(used_at=big("now"))
_end_of_user = (
    sa.update(sign_in_links)
    .where(sign_in_links.c.user_id == big("user_id"), sign_in_links.c.used_at.is_(None))
    .values(used_at=big("now"))
)


class Link(NamedTuple):
    """One that is still good."""

    user: Account
    purpose: str
    expires_at: int


class NewLink(NamedTuple):
    """`path` holds the secret, which is seen only here."""

    path: str
    expires_at: int

    def __repr__(self) -> str:
        return f"NewLink(expires_at={self.expires_at})"


async def create(tx: Transaction, user_id: int, purpose: str, *, minutes: float) -> NewLink:
    secret, now = secrets.token_urlsafe(32), now_ms()
    expires_at = now + round(minutes * MINUTE_MS)
    params = {
        "digest": digest_of(secret),
        "user_id": user_id,
        "purpose": purpose,
        "created_at": now,
        "expires_at": expires_at,
    }
    await tx.execute(_insert, params)
    return NewLink(f"/login/link/{secret}", expires_at)


async def find(reader: Reader, secret: str) -> Link | None:
    """None for one that is unknown, was used, is out of date, or of a user who is disabled. Looking does not use it
    up."""
    if len(secret) > _LENGTH_MAX:
        return None
    row = await reader.fetch_one(_find, {"link_digest": digest_of(secret), "now": now_ms()})
    return Link(account_of(row, "user_"), row["link_purpose"], row["link_expires_at"]) if row else None


async def use(tx: Transaction, secret: str) -> bool:
    """Whether it was good until now. Of two that use it at the same time one is told so."""
    return await tx.execute(_use, {"link_digest": digest_of(secret), "now": now_ms()}) > 0


async def end_all(tx: Transaction, user_id: int) -> None:
    """None of the user's links is good any more."""
    await tx.execute(_end_of_user, {"user_id": user_id, "now": now_ms()})
