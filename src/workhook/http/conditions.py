"""`If-Match` (RFC 9110, 13.1.1): a change happens only if the caller has seen what it changes."""

from __future__ import annotations

import hashlib

from workhook.core.errors import PreconditionFailed
from workhook.http.calls import Call


def is_conditional(call: Call) -> bool:
    """Whether `If-Match` says more than "whatever it is"."""
    condition = call.header("if-match")
    return condition is not None and condition.strip() != "*"


def require_match(call: Call, current: object) -> None:
    """Raises `PreconditionFailed` unless `If-Match` is absent, `*`, or lists the tag of `current`.

    `current` is the body that a GET would answer now, read in the transaction that makes the change. The tags that
    `http.routing` gives are weak; the RFC would let none of them match here, but ours change with every byte of the
    body, so the mark `W/` is ignored.
    """
    if not is_conditional(call):
        return
    tag = f'"{hashlib.sha256(call.encode(current)).hexdigest()}"'
    if tag not in [each.strip().removeprefix("W/") for each in str(call.header("if-match")).split(",")]:
        raise PreconditionFailed("It was changed since you read it. Read it again, then decide.")
