"""Where the answer to an authorization request may go (RFC 6749 3.1.2, RFC 8252, RFC 9700 4.1)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

_LOOPBACK = re.compile(r"(http://(?:127\.0\.0\.1|\[::1\]))(?::[0-9]{1,5})?((?:[/?].*)?)", re.DOTALL)
# A browser runs or shows these itself instead of handing them to an app.
_OF_THE_BROWSER = frozenset({"javascript", "data", "vbscript", "file", "blob", "about", "filesystem", "view-source"})
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")
_IN_URIS = "!#$%&'()*+,/:;=?@[]~"  # beside letters and digits, what is left as it is


def fits(asked: str, registered: Iterable[str]) -> bool:
    """Whether `asked` is, character by character, one that is registered.

    The one exception: the port of a loopback address, which a native app cannot know beforehand (RFC 8252 7.3).
    """
    return any(asked == each or _same_loopback(asked, each) for each in registered)


def _same_loopback(asked: str, registered: str) -> bool:
    one, other = _LOOPBACK.fullmatch(asked), _LOOPBACK.fullmatch(registered)
    return one is not None and other is not None and one.groups() == other.groups()


def is_native(uri: str) -> bool:
    """Whether it leads to a program on the user's own machine: a loopback address or a scheme of an app (RFC 8252).

    Such a program can keep no secret, and nobody knows which program it is.
    """
    scheme = _scheme(uri)
    return scheme not in ("http", "https") or _LOOPBACK.fullmatch(uri) is not None or _host(uri) == "localhost"


def can_be_sent_to(uri: str) -> bool:
    """Whether a browser may be sent there at all, whatever is registered."""
    scheme = _scheme(uri)
    if not scheme or scheme in _OF_THE_BROWSER or not uri.isprintable() or "#" in uri:
        return False
    return scheme not in ("http", "https") or bool(_host(uri))


def with_parameters(uri: str, parameters: Iterable[tuple[str, str | None]]) -> str:
    """The URI with more in its query; parameters that are None are left out."""
    parts = urlsplit(uri)
    known = parse_qsl(parts.query, keep_blank_values=True)
    given = [(name, value) for name, value in parameters if value is not None]
    return quote(parts._replace(query=urlencode([*known, *given])).geturl(), safe=_IN_URIS)


def _scheme(uri: str) -> str:
    found = _SCHEME.match(uri)
    return found[1].lower() if found else ""


def _host(uri: str) -> str:
    try:
        return urlsplit(uri).hostname or ""
    except ValueError:
        return ""
