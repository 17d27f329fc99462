"""Addresses that end a kind of mail for one person, without signing in (RFC 8058).

Such an address is signed and stored nowhere: it holds whose mail it ends and of which kind. It can do no more than
that, and works as long as the key does.
"""

from __future__ import annotations

import msgspec

from workhook.core.vault import Vault
from workhook.identity.mail.signing import is_signed, sign
from workhook.identity.notifications.schemas import KINDS, Kind

PATH = "/mail/unsubscribe/"
_PURPOSE = "mail-unsubscribe"
_LENGTH_MAX = 100


class Subscription(msgspec.Struct, frozen=True):
    """A kind of mail that a person gets."""

    user_id: int
    kind: Kind


def unsubscribe_path(vault: Vault, subscription: Subscription) -> str:
    """The path of the address that ends it."""
    what = f"{subscription.user_id}.{subscription.kind}"
    return f"{PATH}{what}.{sign(vault, _PURPOSE, what)}"


def read_token(vault: Vault, token: str) -> Subscription | None:
    """What follows `PATH`. None: it was not signed here."""
    what, _, signature = token[:_LENGTH_MAX].rpartition(".")
    if not is_signed(vault, _PURPOSE, what, signature):
        return None
    user_id, _, kind = what.partition(".")
    return next((Subscription(int(user_id), each) for each in KINDS if each == kind), None)
