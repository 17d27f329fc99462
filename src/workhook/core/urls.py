"""URLs as texts: what somebody configured is sent as it was written, not as a library would write it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import quote, urlencode

_AUTHORITY_ENDS = re.compile(r"[/?#]")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_IN_URIS = "!#$%&'()*+,/:;=?@[]~"  # characters besides letters and digits that stay as they are


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
