"""What one change works with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from workhook.core.clock import now_ms
from workhook.http import conditions
from workhook.http.calls import Call
from workhook.identity.guard import actor_of
from workhook.identity.schemas import Actor
from workhook.storage import Transaction


@dataclass(frozen=True)
class Write:
    """One try of a change: its transaction, who makes it, when, and what links start with in what others will read.

    `now` is in milliseconds since the epoch. `caller` and `call` are None where Workhook acts by itself.
    """

    tx: Transaction
    caller: Actor | None
    base: str
    now: int
    call: Call | None = None

    @classmethod
    def for_call(cls, call: Call, tx: Transaction) -> Self:
        return cls(tx, actor_of(call), call.base_for_others.removesuffix(call.prefix), now_ms(), call)

    @property
    def actor(self) -> Actor:
        assert self.caller is not None, "only a caller's changes come here"
        return self.caller

    @property
    def is_conditional(self) -> bool:
        """Whether the request has `If-Match`: only then its record has to be made before the change."""
        return self.call is not None and conditions.is_conditional(self.call)

    def require_match(self, body: object) -> None:
        """Raises `PreconditionFailed` unless `If-Match`, if it was sent, names `body`, which a GET would answer now."""
        if self.call is not None:
            conditions.require_match(self.call, body)
