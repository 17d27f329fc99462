"""URLs as strings, and the URLs of receivers on this server.

Configured URLs are sent exactly as written, not as a library would normalize them. By default, deliveries cannot reach
private networks, except `{base}/receive/{key}` with the server's own base and a well-formed key. See decision 10.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from urllib.parse import SplitResult, quote, urlencode, urlsplit

_AUTHORITY_ENDS = re.compile(r"[/?#]")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_IN_URIS = "!#$%&'()*+,/:;=?@[]~"  # besides letters and digits


def split_url(url: str) -> SplitResult | None:
    """Return the parts of an absolute URL, or None if the host is missing or the port is invalid."""
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
    """Return the path and query of an absolute URL byte for byte, as in a request line.

    Libraries decode %3A and drop dot segments and empty queries, which breaks signed URLs.
    """
    rest = url.partition("://")[2].partition("#")[0]
    end = _AUTHORITY_ENDS.search(rest)
    target = rest[end.start() :] if end else ""
    return target if target.startswith("/") else f"/{target}"


def requested_url(url: str) -> str:
    """Return the URL as a receiver sees it: two URLs with the same result cause the same request.

    The scheme and host are lower-cased; a default port and the fragment are removed.
    """
    scheme, _, rest = url.partition("://")
    scheme = scheme.lower()
    authority = _AUTHORITY_ENDS.split(rest, maxsplit=1)[0].lower()
    return f"{scheme}://{authority.removesuffix(_DEFAULT_PORTS.get(scheme, ''))}{request_target(url)}"


def with_parameters(uri: str, parameters: Iterable[tuple[str, str | None]]) -> str:
    """Append parameters to the URI's query, leaving the rest unchanged. Parameters that are None are skipped.

    Only characters that are invalid in URIs are encoded.
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
_KEY = re.compile(r"[A-Za-z0-9_-]{43}")  # the form of `secrets.token_urlsafe(_KEY_BYTES)`


def new_receiver_key() -> str:
    return secrets.token_urlsafe(_KEY_BYTES)


def is_receiver_key(text: str) -> bool:
    return _KEY.fullmatch(text) is not None


def without_receiver_key(text: str) -> str:
    """Redact the keys of receivers, on any server, in a text."""
    return _WITH_KEY.sub(rf"{RECEIVE_PATH}{HIDDEN_KEY}", text)


class OwnAddress:
    """The address of this server. `base` is its scheme, host and port.

    It is None if unknown, as in a worker without `base_url`. No URL is then the server's own.
    """

    def __init__(self, base: str | None = None) -> None:
        self.base = base

    def receiver_url(self, key: str) -> str | None:
        """Return the URL that webhooks deliver to, or None if the address is unknown."""
        return None if self.base is None else f"{self.base}{RECEIVE_PATH}{key}"

    def is_receiver(self, url: str) -> bool:
        """Return whether the URL is exactly that of a receiver on this server."""
        if self.base is None:
            return False
        start = self.base + RECEIVE_PATH
        return url.startswith(start) and is_receiver_key(url[len(start) :])
