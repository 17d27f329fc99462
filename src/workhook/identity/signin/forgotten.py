"""Who has forgotten their password, or never had one, asks for a link that sets a new one. It goes to their address.

Nobody learns from an answer, or from how long it takes, whether somebody has an account.
"""

from __future__ import annotations

import asyncio
import time

import sqlalchemy as sa

from workhook.core.clock import MINUTE_MS, now_ms
from workhook.core.vault import Vault
from workhook.identity import audit
from workhook.identity.mail import links, recipients
from workhook.identity.schemas import Account
from workhook.identity.signin import passwords, sessions, throttle
from workhook.identity.tables import sign_in_links
from workhook.storage import Database, Transaction
from workhook.storage.metadata import big

LINK_MINUTES = 60
AGAIN_MS = 5 * MINUTE_MS  # until a user's next link: who presses the button twice gets one message
ANSWERED_AFTER_S = 0.3  # longer than any of it takes, unless a machine is very busy

_recent = (
    sa.select(sa.literal(1, sa.Integer))
    .where(sign_in_links.c.user_id == big("user_id"), sign_in_links.c.created_at > big("since"))
    .limit(sa.literal(1, sa.BigInteger))
)


async def ask(database: Database, vault: Vault, login: str, address: str | None, *, without_password: bool) -> None:
    """Mail a link to whoever has this login or e-mail address, if they can be mailed.

    `address`: of who asks. `without_password`: also to a user who has none; where people come by an identity provider,
    it may be that which keeps somebody out. Raises `TooManyRequests`.
    """
    began = time.monotonic()
    await throttle.count_asked(database, login, address)
    found = await passwords.find_named(database, login)
    if found is not None and (found[1] or without_password):
        await database.in_transaction(lambda tx: _send(tx, vault, found[0]))
    await asyncio.sleep(max(0.0, began + ANSWERED_AFTER_S - time.monotonic()))


async def _send(tx: Transaction, vault: Vault, user: Account) -> None:
    now = now_ms()
    recipient = await recipients.find_recipient(tx, user.id)
    if recipient is None or not recipient.can_be_mailed:
        return
    if await tx.fetch_one(_recent, {"user_id": user.id, "since": now - AGAIN_MS}) is not None:
        return
    link = await sessions.create_link(tx, user.id, sessions.SET_PASSWORD, minutes=LINK_MINUTES)
    detail: dict[str, object] = {"purpose": sessions.SET_PASSWORD, "minutes": LINK_MINUTES, "how": "asked"}
    await audit.record(tx, None, "user.link_create", user.login, account_id=user.id, detail=detail)
    await links.queue_own_link(tx, vault, user.id, "password_link", link.path, expires_at=link.expires_at, now=now)
