"""Messages that hold a link which works once. The link is stored encrypted, and only until the message was sent."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from workhook.core.errors import TooManyRequests
from workhook.core.vault import Vault
from workhook.identity.mail.mailboxes import mailbox_of
from workhook.identity.mail.schemas import ATTEMPTS_MAX, LinkKind, mail_messages
from workhook.identity.mail.undelivered import Undelivered, explain
from workhook.identity.signin.throttle import count_daily
from workhook.storage import Reader, Transaction
from workhook.storage.dialects import any_of, server_now
from workhook.storage.metadata import big

PER_INVITER = 100
"""Invitations that one person sends by e-mail in a day."""
PER_PLACE = 5
"""Invitations that the projects of one organization send to a mailbox in a day."""
PER_MAILBOX = 10
"""Invitations to a mailbox in a day, whoever sends them."""

_TEXTS = ("kind", "recipient", "language", "detail")
_NUMBERS = ("user_id", "actor_id", "account_id", "repository_id", "invitation_id", "created_at")
_queue = sa.insert(mail_messages).values(
    {
        **{name: sa.bindparam(name, type_=sa.Text) for name in _TEXTS},
        **{name: big(name) for name in _NUMBERS},
        "sealed": sa.bindparam("sealed", type_=sa.LargeBinary),
        "next_attempt_at": server_now(),
    }
)
_replace_link = sa.delete(mail_messages).where(
    mail_messages.c.invitation_id == big("invitation_id"),
    mail_messages.c.kind == "invitation_link",
    mail_messages.c.next_attempt_at.is_not(None),
)

_sent = (
    sa.select(
        mail_messages.c.invitation_id, mail_messages.c.failed_at, mail_messages.c.failure, mail_messages.c.attempts
    )
    .where(any_of(mail_messages.c.invitation_id, "invitation_ids"), mail_messages.c.kind == "invitation_link")
    .order_by(mail_messages.c.id)
)


async def find_unsent(reader: Reader, invitation_ids: list[int]) -> dict[int, Undelivered]:
    """The invitations whose last message was given up, and why."""
    rows = await reader.fetch_all(_sent, {"invitation_ids": invitation_ids})
    last = {row["invitation_id"]: row for row in rows}
    return {
        invitation_id: explain(row["failure"] or "", was_tried=row["attempts"] >= ATTEMPTS_MAX)
        for invitation_id, row in last.items()
        if row["failed_at"] is not None
    }


async def queue_invitation_link(
    tx: Transaction,
    vault: Vault,
    invitation: Mapping[str, int | None],
    address: str,
    path: str,
    *,
    language: str | None,
    now: int,
) -> None:
    """`invitation`: `invitation_id`, `account_id`, `repository_id` and `actor_id` (the inviter). A message with an
    earlier link that still waits is taken back. Raises `TooManyRequests` for what the inviter's organization alone has
    sent. An address that others have sent as much to gets nothing, which nobody is told."""
    await tx.execute(_replace_link, {"invitation_id": invitation["invitation_id"]})
    if not await _may_send(tx, invitation, mailbox_of(address)):
        return
    recipient = f"i{invitation['invitation_id']}"
    values = {"kind": "invitation_link", "recipient": recipient, "language": language, "detail": None, "user_id": None}
    await tx.execute(_queue, {**values, **invitation, "sealed": vault.seal(path), "created_at": now})


async def _may_send(tx: Transaction, invitation: Mapping[str, int | None], mailbox: str) -> bool:
    """Count a link to the mailbox. Deleting the invitation and inviting again changes nothing about the counts."""
    if not await count_daily(tx, f"inviter:{invitation['actor_id']}", most=PER_INVITER):
        raise TooManyRequests(f"You have sent {PER_INVITER} invitations by e-mail today. Try again tomorrow.")
    if not await count_daily(tx, f"invited:{invitation['account_id']}:{mailbox}", most=PER_PLACE):
        raise TooManyRequests(
            f"This address was sent {PER_PLACE} invitations today. Try again tomorrow, or send a link yourself."
        )
    return await count_daily(tx, f"invited:{mailbox}", most=PER_MAILBOX)


async def queue_own_link(
    tx: Transaction, vault: Vault, user_id: int, kind: LinkKind, path: str, *, expires_at: int, now: int
) -> None:
    """A link for a user's own account. `expires_at`: when it ends, in milliseconds since the epoch."""
    texts = {"kind": kind, "recipient": f"u{user_id}", "language": None, "detail": str(expires_at)}
    numbers = {"user_id": user_id, "account_id": user_id, "actor_id": None, "repository_id": None}
    await tx.execute(_queue, {**texts, **numbers, "invitation_id": None, "sealed": vault.seal(path), "created_at": now})
