"""Links in mail, and limits on the mail sent to a mailbox.

One-time links are stored encrypted until the message is sent. Other links are signed and not stored.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Mapping

import msgspec
import sqlalchemy as sa

from workhook.core.clock import DAY_MS
from workhook.core.errors import TooManyRequests, say
from workhook.core.vault import Vault
from workhook.identity.mail.recipients import Undelivered, explain
from workhook.identity.signin import throttle
from workhook.identity.tables import ATTEMPTS_MAX, NOTIFICATION_KINDS, LinkKind, NotificationKind, mail_messages
from workhook.storage import Reader, Transaction
from workhook.storage.dialects import any_of, server_now
from workhook.storage.metadata import bigint_param, insert_into


def mailbox_of(address: str) -> str:
    """Return a digest that identifies the mailbox: many providers deliver `a.da+news@` and `Ada@` to the same one."""
    name, _, domain = unicodedata.normalize("NFKC", address.strip()).casefold().rpartition("@")
    unquoted = name.replace('"', "").replace("\\", "")
    plain = unquoted.partition("+")[0].replace(".", "")
    return hashlib.sha256(f"{plain or unquoted}@{_host_of(domain)}".encode()).hexdigest()


def _host_of(domain: str) -> str:
    try:
        return domain.rstrip(".").encode("idna").decode()  # also removes invisible characters
    except UnicodeError:
        return domain.rstrip(".")


# --- one-time links ---------------------------------------------------------------------------------------------------

# Maximum numbers of invitations per day: by one person, to one mailbox from one organization, and from all inviters.
PER_INVITER, PER_PLACE, PER_MAILBOX = 100, 5, 10

_TEXTS = ("kind", "recipient", "language", "detail")
_NUMBERS = ("user_id", "actor_id", "account_id", "repository_id", "invitation_id", "created_at")
_queue = sa.insert(mail_messages).values(
    {
        **{name: sa.bindparam(name, type_=sa.Text) for name in _TEXTS},
        **{name: bigint_param(name) for name in _NUMBERS},
        "sealed": sa.bindparam("sealed", type_=sa.LargeBinary),
        "next_attempt_at": server_now(),
    }
)
_replace_link = sa.delete(mail_messages).where(
    mail_messages.c.invitation_id == bigint_param("invitation_id"),
    mail_messages.c.kind == "invitation_link",
    mail_messages.c.next_attempt_at.is_not(None),
)

_sent = (
    sa.select(*(mail_messages.c[name] for name in ("invitation_id", "failed_at", "failure", "attempts")))
    .where(any_of(mail_messages.c.invitation_id, "invitation_ids"), mail_messages.c.kind == "invitation_link")
    .order_by(mail_messages.c.id)
)


async def find_unsent(reader: Reader, invitation_ids: list[int]) -> dict[int, Undelivered]:
    """Return why the latest message of each of these invitations was given up."""
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
    """Queue the link of an invitation, replacing an unsent message.

    `invitation` contains `invitation_id`, `account_id`, `repository_id` and `actor_id` (the inviter). Raises
    `TooManyRequests` if the inviter or the organization has sent too many. If others have sent too many to the address,
    nothing is queued and no error is raised.
    """
    await tx.execute(_replace_link, {"invitation_id": invitation["invitation_id"]})
    if not await _may_send(tx, invitation, mailbox_of(address)):
        return
    recipient = f"i{invitation['invitation_id']}"
    values = {"kind": "invitation_link", "recipient": recipient, "language": language, "detail": None, "user_id": None}
    await tx.execute(_queue, {**values, **invitation, "sealed": vault.seal(path), "created_at": now})


async def _may_send(tx: Transaction, invitation: Mapping[str, int | None], mailbox: str) -> bool:
    """Count a link to the mailbox, and return whether it may be sent.

    Deleting an invitation does not reduce the count.
    """
    if not await throttle.count_daily(tx, f"inviter:{invitation['actor_id']}", most=PER_INVITER):
        raise TooManyRequests(say("You have sent {} invitations by e-mail today. Try again tomorrow.", PER_INVITER))
    if not await throttle.count_daily(tx, f"invited:{invitation['account_id']}:{mailbox}", most=PER_PLACE):
        raise TooManyRequests(
            say(
                "This address has already received {} invitations today. Try again tomorrow, or send the link "
                "yourself.",
                PER_PLACE,
            )
        )
    return await throttle.count_daily(tx, f"invited:{mailbox}", most=PER_MAILBOX)


async def queue_own_link(
    tx: Transaction, vault: Vault, user_id: int, kind: LinkKind, path: str, *, expires_at: int, now: int
) -> None:
    """Queue a link for a user's own account. `expires_at` is in milliseconds since the epoch."""
    texts = {"kind": kind, "recipient": f"u{user_id}", "language": None, "detail": str(expires_at)}
    numbers = {"user_id": user_id, "account_id": user_id, "actor_id": None, "repository_id": None}
    await tx.execute(_queue, {**texts, **numbers, "invitation_id": None, "sealed": vault.seal(path), "created_at": now})


# --- signed links -----------------------------------------------------------------------------------------------------

_SIGNATURE_CHARS = 24  # 144 bits


def _signed(vault: Vault, purpose: str, content: str) -> str:
    return vault.sign(purpose, content)[:_SIGNATURE_CHARS]


# --- links that confirm an address ------------------------------------------------------------------------------------
# A link is for one user and the address they entered, and valid for a day. Links are counted per user, who sees an
# error, and per address. Beyond that limit nothing is sent, but the response does not reveal the requests of others.

CONFIRM_PATH = "/settings/notifications/confirm/"
CONFIRM_GOOD_MS = DAY_MS
ASKED_MAX = 5  # links per user per day, so that no one can spam strangers
ADDRESS_MAX = 10  # links to one address within a day of the first, from all accounts

_CONFIRM = "mail-address"
_mail = mail_messages.c
_count_recent = sa.select(sa.func.count().label("number")).where(
    _mail.user_id == bigint_param("user_id"), _mail.kind == "address_link", _mail.created_at > bigint_param("since")
)
_is_sent = bigint_param("is_sent") == 1
_queue_confirmation = insert_into(
    mail_messages, "user_id", "kind", "account_id", "recipient", "language", "detail", "created_at"
).values(
    next_attempt_at=sa.case((_is_sent, server_now())),
    failed_at=sa.case((_is_sent, sa.null()), else_=server_now()),
    failure=sa.case((_is_sent, sa.null()), else_=sa.literal("Too many links were sent to this address today.")),
)


async def queue_confirmation(tx: Transaction, user_id: int, address: str, *, language: str, now: int) -> None:
    """Mail a confirmation link to an address that the user claims, unless it has already received too many.

    Raises `TooManyRequests` if the user has requested too many.
    """
    row = await tx.fetch_one(_count_recent, {"user_id": user_id, "since": now - DAY_MS})
    if row is not None and row["number"] >= ASKED_MAX:
        message = say(
            "Several links have already been sent to you today. Check your spam folder, or try again tomorrow."
        )
        raise TooManyRequests(message, retry_after_s=DAY_MS // 1000)
    mailbox = mailbox_of(address)
    is_sent = await throttle.count_daily(tx, f"mailed:{mailbox}", most=ADDRESS_MAX)
    about = {"user_id": user_id, "account_id": user_id, "recipient": f"u{user_id}", "language": language}
    more = {"kind": "address_link", "detail": mailbox, "created_at": now, "is_sent": int(is_sent)}
    await tx.execute(_queue_confirmation, {**about, **more})


def confirm_path(vault: Vault, user_id: int, address: str, now: int) -> str:
    until = str(now + CONFIRM_GOOD_MS)
    return f"{CONFIRM_PATH}{until}.{_signed(vault, _CONFIRM, _confirmed(user_id, address, until))}"


def is_confirmed_by(vault: Vault, user_id: int, address: str, token: str, now: int) -> bool:
    """Return whether the token after `CONFIRM_PATH` was sent to this address of the user and is still valid."""
    until, _, signature = token.partition(".")
    if not (until.isascii() and until.isdigit() and len(until) <= 15 and int(until) > now):
        return False
    confirmed = _confirmed(user_id, address, until)
    return vault.is_signed(_CONFIRM, confirmed, signature, length=_SIGNATURE_CHARS)


def _confirmed(user_id: int, address: str, until: str) -> str:
    return f"{user_id}\0{address}\0{until}"


# --- links that unsubscribe -------------------------------------------------------------------------------------------
# A link unsubscribes one person from one kind of mail, without signing in (RFC 8058), as long as the key is valid.

UNSUBSCRIBE_PATH = "/mail/unsubscribe/"
_UNSUBSCRIBE = "mail-unsubscribe"
_UNSUBSCRIBE_MAX_CHARS = 100


class Subscription(msgspec.Struct, frozen=True):
    user_id: int
    kind: NotificationKind


def unsubscribe_path(vault: Vault, subscription: Subscription) -> str:
    content = f"{subscription.user_id}.{subscription.kind}"
    return f"{UNSUBSCRIBE_PATH}{content}.{_signed(vault, _UNSUBSCRIBE, content)}"


def read_subscription(vault: Vault, token: str) -> Subscription | None:
    """Parse the token after `UNSUBSCRIBE_PATH`. Returns None unless it was signed by this server."""
    content, _, signature = token[:_UNSUBSCRIBE_MAX_CHARS].rpartition(".")
    if not vault.is_signed(_UNSUBSCRIBE, content, signature, length=_SIGNATURE_CHARS):
        return None
    user_id, _, kind = content.partition(".")
    return next((Subscription(int(user_id), each) for each in NOTIFICATION_KINDS if each == kind), None)
