"""URLs as texts, and which of them lead to a receiver inside this very server.

What somebody configured is sent as it was written, not as a library would write it.

Deliveries do not reach private networks, and a server that was just started is in one. They may reach
`{base}/receive/{key}` all the same, for the server's own base and a key in the one form that keys have: nothing else on
that host, no other port, no query. See decision 39.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from urllib.parse import SplitResult, quote, urlencode, urlsplit

_AUTHORITY_ENDS = re.compile(r"[/?#]")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_IN_URIS = "!#$%&'()*+,/:;=?@[]~"  # characters besides letters and digits that stay as they are


def split_url(url: str) -> SplitResult | None:
    """Return the parts of an absolute URL; None without a host, or with a port that is none."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    return parts if parts.scheme and parts.hostname and port != 0 else None


def is_http_url(url: str) -> bool:
    parts = split_url(url)
    return parts is not None and parts.scheme in ("http", "https")


def request_target(url: str) -> str:
    """Return the path and query of an absolute URL byte for byte, as a request line has them.

    Libraries decode %3A, drop dot segments and an empty query; signed URLs break by that. Only the fragment is left
    out, which is never sent, and an empty path becomes `/`.
    """
    rest = url.partition("://")[2].partition("#")[0]
    end = _AUTHORITY_ENDS.search(rest)
    target = rest[end.start() :] if end else ""
    return target if target.startswith("/") else f"/{target}"


def requested_url(url: str) -> str:
    """Return the URL as a receiver sees it: two URLs with the same result lead to the same request.

    Scheme and host are in lower case; a default port and the fragment are left out.
    """
    scheme, _, rest = url.partition("://")
    scheme = scheme.lower()
    authority = _AUTHORITY_ENDS.split(rest, maxsplit=1)[0].lower()
    return f"{scheme}://{authority.removesuffix(_DEFAULT_PORTS.get(scheme, ''))}{request_target(url)}"


def with_parameters(uri: str, parameters: Iterable[tuple[str, str | None]]) -> str:
    """Return the URI with more parameters in its query, which stays as it is; parameters that are None are left out.

    Only characters that no URI may have are encoded.
    """
    added = urlencode([(name, value) for name, value in parameters if value is not None])
    before, hash_sign, fragment = uri.partition("#")
    if added and "?" not in before:
        before += "?"
    separator = "&" if added and not before.endswith(("?", "&")) else ""
    return quote(f"{before}{separator}{added}{hash_sign}{fragment}", safe=_IN_URIS)


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
    """Hide the keys of receivers, of any server."""
    return _WITH_KEY.sub(rf"{RECEIVE_PATH}{HIDDEN_KEY}", text)


class OwnAddress:
    """`base`: scheme, host and port of this server. None if unknown, as in a worker without `base_url`: no URL is the
    server's own then."""

    def __init__(self, base: str | None = None) -> None:
        self.base = base

    def receiver_url(self, key: str) -> str | None:
        """Return the URL that a webhook sends to, or None if the address is unknown."""
        return None if self.base is None else f"{self.base}{RECEIVE_PATH}{key}"

    def is_receiver(self, url: str) -> bool:
        """Tell whether the URL is exactly that of a receiver of this server."""
        if self.base is None:
            return False
        start = self.base + RECEIVE_PATH
        return url.startswith(start) and is_receiver_key(url[len(start) :])
