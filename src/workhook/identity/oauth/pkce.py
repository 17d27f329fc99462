"""Proof Key for Code Exchange (RFC 7636), with the method S256 alone."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re

METHOD = "S256"
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")  # SHA-256 in base64url
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")


def challenge_of(verifier: str) -> str:
    """The SHA-256 of a verifier in base64url, without padding (RFC 7636 4.2)."""
    digest = hashlib.sha256(verifier.encode("ascii")).digest()
    return base64.urlsafe_b64encode(digest).decode("ascii").rstrip("=")


def challenge_fault(challenge: str | None, method: str | None) -> str | None:
    """What is wrong with the two parameters of an authorization request, in words; None: nothing."""
    if challenge is None:
        return "code_challenge_method came without code_challenge" if method is not None else None
    if method != METHOD:  # none at all means "plain" (RFC 7636 4.3), which protects from nothing
        return "code_challenge_method must be S256"
    if not _CHALLENGE.fullmatch(challenge):
        return "code_challenge must be the SHA-256 of the code_verifier in base64url: 43 characters, without padding"
    return None


def verifier_fault(verifier: str | None, challenge: str | None) -> str | None:
    """What is wrong with the verifier of a token request; None: nothing.

    A verifier for a code that was asked for without a challenge is refused too: whoever took the challenge away would
    otherwise have turned the protection off (RFC 9700 4.8.2).
    """
    if challenge is None:
        return None if verifier is None else "code_verifier came for a code that was asked for without code_challenge"
    if verifier is None:
        return "code_verifier is missing: the code was asked for with code_challenge"
    if not _VERIFIER.fullmatch(verifier):
        return "code_verifier must be 43 to 128 letters, digits, and -._~"
    if not hmac.compare_digest(challenge_of(verifier), challenge):
        return "code_verifier does not match code_challenge"
    return None
