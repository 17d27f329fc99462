"""The address of this very server, and which URLs are those of a receiver inside it.

Deliveries do not reach private networks, and a server that was just started is in one. They may reach
`{base}/receive/{key}` all the same, for the server's own base and a key in the one form that keys have: nothing else on
that host, no other port, no query. See decision 39.
"""

from __future__ import annotations

import re
import secrets

RECEIVE_PATH = "/receive/"
_KEY_BYTES = 32
HIDDEN_KEY = "hidden"
_WITH_KEY = re.compile(rf"{RECEIVE_PATH}[A-Za-z0-9_-]{{43}}(?![A-Za-z0-9_-])")
_KEY = re.compile(r"[A-Za-z0-9_-]{43}")  # what `secrets.token_urlsafe` makes of so many bytes


def new_receiver_key() -> str:
    return secrets.token_urlsafe(_KEY_BYTES)


def is_receiver_key(text: str) -> bool:
    return _KEY.fullmatch(text) is not None


def without_receiver_key(text: str) -> str:
    """The text with the keys of receivers hidden, of whatever server they are."""
    return _WITH_KEY.sub(rf"{RECEIVE_PATH}{HIDDEN_KEY}", text)


class OwnAddress:
    """`base`: scheme, host and port by which this server is reached. None: it is not known, as in a process that only
    delivers and has no setting `base_url`; no URL is the server's own then."""

    def __init__(self, base: str | None = None) -> None:
        self.base = base

    def receiver_url(self, key: str) -> str | None:
        """The URL that a webhook sends to; None where the address is not known."""
        return None if self.base is None else f"{self.base}{RECEIVE_PATH}{key}"

    def is_receiver(self, url: str) -> bool:
        """Whether the URL is, letter by letter, that of a receiver of this server."""
        if self.base is None:
            return False
        start = self.base + RECEIVE_PATH
        return url.startswith(start) and is_receiver_key(url[len(start) :])
