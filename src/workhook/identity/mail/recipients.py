"""Recipients of mail: address, language, and why a message was not delivered.

The reason is derived from the mail server's enhanced status code (RFC 3463) or its reply code (RFC 5321, section
4.2.3). Only the operator sees its text, because it contains addresses and host names of both sides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal

import msgspec
import sqlalchemy as sa

from workhook.core.disclosure import HiddenRepr
from workhook.identity.tables import accounts, mail_recipients, passwords
from workhook.storage import Reader, Transaction
from workhook.storage.dialects import any_of, server_now, upsert
from workhook.storage.metadata import bigint_param

# Processes without a mail server queue no messages, so that none is sent late.
_senders = {"count": 0}


def start_sending() -> Callable[[], None]:
    """Start queuing messages. Returns a function that stops it."""
    _senders["count"] += 1

    def undo() -> None:
        _senders["count"] -= 1

    return undo


def sends_mail() -> bool:
    return _senders["count"] > 0


# --- why a message was not delivered ----------------------------------------------------------------------------------

Cause = Literal["no_such_address", "closed", "full", "too_large", "refused", "ascii_only", "not_delivered"]
"""The cause of a failed delivery.

`closed`: the mailbox does not accept mail. `refused`: the server does not accept this message, or any from this sender.
`ascii_only`: the mail server in use only sends to ASCII addresses. `not_delivered`: all attempts failed.
"""

ASCII_ONLY = "The mail server takes only addresses in ASCII."

_REPLY = re.compile(r"([45]\d\d)(?= |$)(?: #?([45]\.\d{1,3}\.\d{1,3})\b)?")
_BY_DETAIL: Mapping[str, Cause] = {
    "1.7": "refused",  # 7 and 8 concern the sender's address
    "1.8": "refused",
    "2.2": "full",
    "2.3": "too_large",
    "3.4": "too_large",
    "4.1": "no_such_address",  # a large provider uses it for unknown recipients
}
_BY_SUBJECT: Mapping[str, Cause] = {"1": "no_such_address", "2": "closed", "7": "refused"}
_BY_REPLY: Mapping[str, Cause] = {"552": "full", **dict.fromkeys(("550", "551", "553"), "no_such_address")}


class Undelivered(msgspec.Struct, frozen=True):
    """A failed delivery. `code` is the mail server's status code, such as `550 5.1.1`, or empty."""

    cause: Cause
    code: str = ""


def explain(message: str, *, was_tried: bool = False) -> Undelivered:
    """Classify the mail server's reply.

    `was_tried` means that the message was given up after its last attempt. A permanent error then concerns the sender,
    because an error about the recipient would have ended the attempts immediately.
    """
    if message == ASCII_ONLY:
        return Undelivered("ascii_only")
    found = _REPLY.match(message)
    if found is None:
        return Undelivered("not_delivered")
    reply, status = found.groups()
    code = f"{reply} {status}" if status else reply
    return Undelivered(_cause_of(reply, status or "", was_tried=was_tried), code)


def _cause_of(reply: str, status: str, *, was_tried: bool) -> Cause:
    is_for_good = reply.startswith("5")
    if was_tried and is_for_good:
        return "refused"
    detail = status[2:]
    by_status = _BY_DETAIL.get(detail) or _BY_SUBJECT.get(detail.partition(".")[0])
    if detail == "4.1" and not is_for_good:  # a temporary 4.1 means that the host did not answer (RFC 3463)
        by_status = None
    if by_status is None and detail.partition(".")[0] in ("", "0"):
        by_status = _BY_REPLY.get(reply)
    if by_status == "closed" and not is_for_good:  # such as `4.2.0` for greylisting
        by_status = None
    return by_status or ("refused" if is_for_good else "not_delivered")


# --- facts about a person ---------------------------------------------------------------------------------------------

_own_recipient = mail_recipients.alias("own")
_refused = mail_recipients.alias("refused")
_given = passwords.alias("given")
_confirmed = (
    sa.select(_own_recipient.c.confirmed)
    .join_from(_own_recipient, _given, _given.c.user_id == _own_recipient.c.user_id)
    .where(_own_recipient.c.user_id == accounts.c.id, _given.c.email == _own_recipient.c.confirmed)
    .correlate_except(_own_recipient, _given)
    .scalar_subquery()
)
# An address that users entered themselves counts only after it is confirmed.
mail_address = sa.func.coalesce(sa.func.nullif(accounts.c.email, ""), _confirmed)
"""The address for e-mail to a user in `accounts`, or null."""
can_be_mailed = sa.and_(
    accounts.c.disabled_at.is_(None),
    mail_address.is_not(None),
    sa.not_(
        sa.exists()
        .where(_refused.c.user_id == accounts.c.id, _refused.c.bounced == mail_address)
        .correlate_except(_refused)
    ),
)
"""Condition: a user in `accounts` has an address that no mail server has refused."""


class Recipient(HiddenRepr, msgspec.Struct, frozen=True):
    address: str | None
    language: str | None  # of the pages that the person last viewed
    bounce: str | None  # the mail server's reply when it refused the address, for the operator only
    bounced_at: int | None
    own: str | None  # the unconfirmed address that the person entered, if there is no other address

    @property
    def can_be_mailed(self) -> bool:
        return bool(self.address) and self.bounced_at is None

    @property
    def why_bounced(self) -> Undelivered:
        return explain(self.bounce or "")


_c = mail_recipients.c
_bounce = _c.bounced == mail_address
_find = (
    sa.select(
        mail_address.label("address"),
        sa.case((mail_address.is_(None), passwords.c.email)).label("own"),
        _c.language,
        sa.case((_bounce, _c.bounce)).label("bounce"),
        sa.case((_bounce, _c.bounced_at)).label("bounced_at"),
    )
    .join_from(accounts, mail_recipients, _c.user_id == accounts.c.id, isouter=True)
    .outerjoin(passwords, passwords.c.user_id == accounts.c.id)
    .where(accounts.c.id == bigint_param("user_id"), accounts.c.kind == "user", accounts.c.disabled_at.is_(None))
)
_bounces = (
    sa.select(accounts.c.id, _c.bounce)
    .select_from(accounts.join(mail_recipients, _c.user_id == accounts.c.id))
    .where(_c.bounced == accounts.c.email, any_of(accounts.c.id, "user_ids"))
)
_language = sa.bindparam("language", type_=sa.Text)
_note_language = (
    upsert(mail_recipients)
    .values(user_id=bigint_param("user_id"), language=_language)
    .on_conflict_do_update(
        index_elements=["user_id"],
        set_={"language": _language},
        where=sa.func.coalesce(_c.language, "") != _language,
    )
)
_said, _refused_address = sa.bindparam("bounce", type_=sa.Text), sa.bindparam("bounced", type_=sa.Text)
_set_bounce = {"bounced": _refused_address, "bounced_at": server_now(), "bounce": _said}
_note_bounce = (
    upsert(mail_recipients)
    .values(user_id=bigint_param("user_id"), **_set_bounce)
    .on_conflict_do_update(index_elements=["user_id"], set_=_set_bounce)
)
_forget_bounce = (
    sa.update(mail_recipients)
    .where(_c.user_id == bigint_param("user_id"))
    .values(bounced=sa.null(), bounced_at=sa.null(), bounce=sa.null())
)


_set_confirmed = {"confirmed": sa.bindparam("address", type_=sa.Text)}
_confirm = (
    upsert(mail_recipients)
    .values(user_id=bigint_param("user_id"), **_set_confirmed)
    .on_conflict_do_update(index_elements=["user_id"], set_=_set_confirmed)
)


async def find_recipient(reader: Reader, user_id: int) -> Recipient | None:
    """Return a recipient, or None for an unknown or disabled user."""
    row = await reader.fetch_one(_find, {"user_id": user_id})
    return Recipient(*(row[name] for name in Recipient.__struct_fields__)) if row else None


async def find_bounces(reader: Reader, user_ids: list[int]) -> dict[int, Undelivered]:
    """Return why a server refused the address that owners can see, by user ID."""
    rows = await reader.fetch_all(_bounces, {"user_ids": user_ids})
    return {row["id"]: explain(row["bounce"] or "") for row in rows}


def record_language(tx: Transaction, user_id: int, language: str) -> None:
    """Store the user's language with the next statement."""
    tx.defer(_note_language, [{"user_id": user_id, "language": language}])


async def record_bounce(tx: Transaction, user_id: int, address: str, message: str) -> None:
    """Stop all mail to the address until `forget_bounce`."""
    await tx.execute(_note_bounce, {"user_id": user_id, "bounced": address, "bounce": message})


async def forget_bounce(tx: Transaction, user_id: int) -> None:
    await tx.execute(_forget_bounce, {"user_id": user_id})


async def confirm_address(tx: Transaction, user_id: int, address: str) -> None:
    await tx.execute(_confirm, {"user_id": user_id, "address": address})
