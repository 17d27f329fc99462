"""Short signatures of addresses that are stored nowhere: the key of the data folder says that they are its own."""

from __future__ import annotations

import base64
import hmac

from workhook.core.vault import Vault

_BYTES = 18


def sign(vault: Vault, purpose: str, what: str) -> str:
    """24 letters, digits, hyphens and underscores."""
    return _signature(vault.derive(purpose)[0], what)


def is_signed(vault: Vault, purpose: str, what: str, signature: str) -> bool:
    """In a time that tells nothing of the signature. Every key of the vault may have made it."""
    found = [hmac.compare_digest(_signature(key, what).encode(), signature.encode()) for key in vault.derive(purpose)]
    return any(found)


def _signature(key: bytes, what: str) -> str:
    signed = hmac.digest(key, what.encode(), "sha256")[:_BYTES]
    return base64.urlsafe_b64encode(signed).decode()
