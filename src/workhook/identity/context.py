"""The context of a change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from workhook.core.clock import now_ms
from workhook.http.calls import Call
from workhook.identity.authenticator import caller_of
from workhook.identity.schemas import Actor
from workhook.storage import Transaction


@dataclass
class Write:
    """A change: its transaction, its caller, and the base of links in content that others will read.

    `caller` and `request` are None for Workhook itself and for commands; `caller` is also None for an app. `moment` is
    the time of the change in milliseconds since the epoch, and defaults to the first time `now` is read. Read it after
    taking the locks, so that it is later than the changes that the locks waited for.
    """

    tx: Transaction
    caller: Actor | None
    base: str
    request: Call | None = None
    moment: int | None = None

    @classmethod
    def for_call(cls, call: Call, tx: Transaction) -> Self:
        return cls(tx, caller_of(call).actor, call.public_base.removesuffix(call.prefix), call)

    @property
    def now(self) -> int:
        if self.moment is None:
            self.moment = now_ms()
        return self.moment

    def by_itself(self) -> Write:
        """Return this change without its caller, as made by Workhook itself."""
        return Write(self.tx, None, self.base, None, self.now)

    @property
    def actor(self) -> Actor:
        assert self.caller is not None, "only a caller's changes come here"
        return self.caller

    @property
    def call(self) -> Call:
        assert self.request is not None, "only a caller's changes come here"
        return self.request

    @property
    def may_invite_strangers(self) -> str:
        return self.request.services.settings.invite_strangers if self.request is not None else "owners"

    @property
    def is_conditional(self) -> bool:
        """Whether the request has `If-Match`. Only then is the record built before the change."""
        return self.request is not None and self.request.is_conditional

    def require_match(self, body: object) -> None:
        """Raise `PreconditionFailed` unless `If-Match`, if sent, matches `body`, which a GET would return now."""
        if self.request is not None:
            self.request.require_match(body)
