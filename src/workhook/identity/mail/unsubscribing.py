"""Addresses that end a kind of mail for one person, without signing in (RFC 8058).

Such an address is signed and stored nowhere: it holds whose mail it ends and of which kind. It can do no more than
that, and works as long as the key does.
"""

from __future__ import annotations

import base64
import hmac

import msgspec

from workhook.core.vault import Vault
from workhook.identity.notifications.schemas import KINDS, Kind

PATH = "/mail/unsubscribe/"
_PURPOSE = "mail-unsubscribe"
_SIGNED_BYTES = 18
_LENGTH_MAX = 100


class Subscription(msgspec.Struct, frozen=True):
    """A kind of mail that a person gets."""

    user_id: int
    kind: Kind


def unsubscribe_path(vault: Vault, subscription: Subscription) -> str:
    """The path of the address that ends it."""
    what = f"{subscription.user_id}.{subscription.kind}"
    return f"{PATH}{what}.{_signature(vault.derive(_PURPOSE)[0], what)}"


def read_token(vault: Vault, token: str) -> Subscription | None:
    """What follows `PATH`. None: it was not signed here."""
    what, _, signature = token[:_LENGTH_MAX].rpartition(".")
    good = [hmac.compare_digest(_signature(key, what).encode(), signature.encode()) for key in vault.derive(_PURPOSE)]
    if not any(good):
        return None
    user_id, _, kind = what.partition(".")
    return next((Subscription(int(user_id), each) for each in KINDS if each == kind), None)


def _signature(key: bytes, what: str) -> str:
    signed = hmac.digest(key, what.encode(), "sha256")[:_SIGNED_BYTES]
    return base64.urlsafe_b64encode(signed).decode()
