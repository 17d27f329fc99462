"""Why a message did not arrive, as what a mail server said tells it: by its enhanced status code (RFC 3463), or by its
reply code (RFC 5321, 4.2.3) where there is none.

What the server said is for the operator alone: it names addresses and hosts of both sides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

import msgspec

Cause = Literal["no_such_address", "closed", "full", "too_large", "refused", "ascii_only", "not_delivered"]
"""`closed`: the mailbox takes no mail. `refused`: the server takes no such message, or none of this sender.
`ascii_only`: the mail server in use cannot send to an address with such letters. `not_delivered`: nobody took it within
the time that it was tried."""

ASCII_ONLY = "The mail server takes only addresses in ASCII."

_REPLY = re.compile(r"([45]\d\d)(?= |$)(?: #?([45]\.\d{1,3}\.\d{1,3})\b)?")
_BY_DETAIL: Mapping[str, Cause] = {
    "1.7": "refused",  # 7 and 8 are of the sender's address
    "1.8": "refused",
    "2.2": "full",
    "2.3": "too_large",
    "3.4": "too_large",
    "4.1": "no_such_address",  # a large provider says it of recipients whom it does not know
}
_BY_SUBJECT: Mapping[str, Cause] = {"1": "no_such_address", "2": "closed", "7": "refused"}
_BY_REPLY: Mapping[str, Cause] = {
    "550": "no_such_address",
    "551": "no_such_address",
    "552": "full",
    "553": "no_such_address",
}


class Undelivered(msgspec.Struct, frozen=True):
    """`code`: the numbers that the server said, such as `550 5.1.1`, to look up; empty where it said none."""

    cause: Cause
    code: str = ""


def explain(said: str, *, was_tried: bool = False) -> Undelivered:
    """`was_tried`: the message was given up after its last attempt. Then what looks like a refusal for good is one of
    the sender, for which no message of another recipient is given up at once."""
    if said == ASCII_ONLY:
        return Undelivered("ascii_only")
    found = _REPLY.match(said)
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
    if detail == "4.1" and not is_for_good:  # then it is what RFC 3463 says: no answer from a host
        by_status = None
    if by_status is None:
        by_status = _BY_REPLY.get(reply) if detail.partition(".")[0] in ("", "0") else None
    if by_status == "closed" and not is_for_good:  # such as `4.2.0`, which greylisting says
        by_status = None
    return by_status or ("refused" if is_for_good else "not_delivered")
