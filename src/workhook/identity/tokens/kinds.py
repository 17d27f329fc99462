"""The kinds of token (the table in "Tokens and permissions"), told apart by their prefix."""

from __future__ import annotations

import hashlib

import msgspec

from workhook.core.ids import token_checks_out


class Kind(msgspec.Struct, frozen=True):
    """`confined`: it carries permissions on chosen organizations and repositories rather than scopes."""

    name: str
    prefix: str
    title: str
    confined: bool = False
    of_app: bool = False

    @property
    def not_accessible(self) -> str:
        """What a confined token is told where its permissions end, in the words that clients know."""
        return f"Resource not accessible by {'integration' if self.of_app else 'personal access token'}"


CLASSIC = Kind("classic", "whp_", "classic personal access token")
FINE_GRAINED = Kind("fine_grained", "workhook_pat_", "fine-grained personal access token", confined=True)
OAUTH = Kind("oauth", "who_", "OAuth app token", of_app=True)
APP_USER = Kind("app_user", "whu_", "app user access token", confined=True, of_app=True)
INSTALLATION = Kind("installation", "whs_", "app installation access token", confined=True, of_app=True)

KINDS = {each.name: each for each in (CLASSIC, FINE_GRAINED, OAUTH, APP_USER, INSTALLATION)}
REFRESH_PREFIX = "whr_"  # it is no access token: it only buys one


def kind_of(token: str) -> Kind | None:
    """By prefix and checksum, so that a typing error or a foreign secret costs no look-up. None: it is no token."""
    for kind in KINDS.values():
        if token.startswith(kind.prefix):
            return kind if token_checks_out(token, kind.prefix) else None
    return None


def digest_of(secret: str) -> bytes:
    """What is stored of a token, a code or a client's secret. They are random, so that one SHA-256 is enough."""
    return hashlib.sha256(secret.encode()).digest()
