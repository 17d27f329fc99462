"""Whether an address that somebody has given themself is theirs: they follow a link that was sent there.

The link is signed and stored nowhere. It is for one person and one address, and good for a day.
"""

from __future__ import annotations

import sqlalchemy as sa

from workhook.core.clock import DAY_MS
from workhook.core.errors import TooManyRequests
from workhook.core.vault import Vault
from workhook.identity.mail.schemas import mail_messages
from workhook.identity.mail.signing import is_signed, sign
from workhook.storage import Transaction
from workhook.storage.dialects import server_now
from workhook.storage.metadata import big, insert_into

PATH = "/settings/notifications/confirm/"
GOOD_MS = DAY_MS
ASKED_MAX = 5
"""Links for one person in a day: nobody can have strangers written to for long."""

_PURPOSE = "mail-address"
_c = mail_messages.c
_asked = sa.select(sa.func.count().label("number")).where(
    _c.user_id == big("user_id"), _c.kind == "address_link", _c.created_at > big("since")
)
_queue = insert_into(mail_messages, "user_id", "kind", "account_id", "recipient", "language", "created_at").values(
    next_attempt_at=server_now()
)


async def queue_confirmation(tx: Transaction, user_id: int, *, language: str, now: int) -> None:
    """Send a link to the address that the user has given themself. Raises `TooManyRequests`."""
    row = await tx.fetch_one(_asked, {"user_id": user_id, "since": now - DAY_MS})
    if row is not None and row["number"] >= ASKED_MAX:
        raise TooManyRequests("A link was sent to you several times today. Look among spam, or try again tomorrow.")
    about = {"user_id": user_id, "account_id": user_id, "recipient": f"u{user_id}", "language": language}
    await tx.execute(_queue, {**about, "kind": "address_link", "created_at": now})


def confirm_path(vault: Vault, user_id: int, address: str, now: int) -> str:
    """Where the link leads."""
    until = str(now + GOOD_MS)
    return f"{PATH}{until}.{sign(vault, _PURPOSE, _what(user_id, address, until))}"


def is_confirmed_by(vault: Vault, user_id: int, address: str, token: str, now: int) -> bool:
    """Whether the token, what follows `PATH`, was sent to this address of the user, and is still good."""
    until, _, signature = token.partition(".")
    if not (until.isascii() and until.isdigit() and len(until) <= 15 and int(until) > now):
        return False
    return is_signed(vault, _PURPOSE, _what(user_id, address, until), signature)


def _what(user_id: int, address: str, until: str) -> str:
    return f"{user_id}\0{address}\0{until}"
