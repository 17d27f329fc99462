"""Whether an address that somebody has given themself is theirs: they follow a link that was sent there.

The link is signed and stored nowhere. It is for one person and one address, and good for a day.

Links are counted for each person, who is told of the limit, and for each address over all accounts. Where an address
has had its number, the request is answered and written as any other, and nothing is sent: what others have asked for is
nobody's business.
"""

from __future__ import annotations

import sqlalchemy as sa

from workhook.core.clock import DAY_MS
from workhook.core.errors import TooManyRequests
from workhook.core.vault import Vault
from workhook.identity.mail.mailboxes import mailbox_of
from workhook.identity.mail.schemas import mail_messages
from workhook.identity.mail.signing import is_signed, sign
from workhook.identity.signin import throttle
from workhook.storage import Transaction
from workhook.storage.dialects import server_now
from workhook.storage.metadata import big, insert_into

PATH = "/settings/notifications/confirm/"
GOOD_MS = DAY_MS
ASKED_MAX = 5
"""Links for one person in a day: nobody can have strangers written to for long."""
ADDRESS_MAX = 10
"""Links to one address in a day that begins with the first, whoever asks: nobody can fill a mailbox with many accounts.
"""

_PURPOSE = "mail-address"
_c = mail_messages.c
_asked = sa.select(sa.func.count().label("number")).where(
    _c.user_id == big("user_id"), _c.kind == "address_link", _c.created_at > big("since")
)
_is_sent = big("is_sent") == 1
_queue = insert_into(
    mail_messages, "user_id", "kind", "account_id", "recipient", "language", "detail", "created_at"
).values(
    next_attempt_at=sa.case((_is_sent, server_now())),
    failed_at=sa.case((_is_sent, sa.null()), else_=server_now()),
    failure=sa.case((_is_sent, sa.null()), else_=sa.literal("Too many links were sent to this address today.")),
)


async def queue_confirmation(tx: Transaction, user_id: int, address: str, *, language: str, now: int) -> None:
    """Send a link to the address that the user has given themself, unless it got too many. Raises `TooManyRequests` for
    what the user has asked for alone."""
    row = await tx.fetch_one(_asked, {"user_id": user_id, "since": now - DAY_MS})
    if row is not None and row["number"] >= ASKED_MAX:
        message = "A link was sent to you several times today. Look among spam, or try again tomorrow."
        raise TooManyRequests(message, retry_after_s=DAY_MS // 1000)
    mailbox = mailbox_of(address)
    is_sent = await throttle.count_mailed(tx, mailbox, most=ADDRESS_MAX)
    about = {"user_id": user_id, "account_id": user_id, "recipient": f"u{user_id}", "language": language}
    more = {"kind": "address_link", "detail": mailbox, "created_at": now, "is_sent": int(is_sent)}
    await tx.execute(_queue, {**about, **more})


def is_queued_for(detail: str | None, address: str) -> bool:
    """Whether a message was counted for this address: the person may have given themself another one since. `detail`:
    of the message, which is None of one that was queued before addresses were counted."""
    return detail is None or detail == mailbox_of(address)


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
