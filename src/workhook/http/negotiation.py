"""Content negotiation: media type, language and encoding (RFC 9110, section 12).

Never compress a response that mixes secrets with content that an attacker controls, because its length would leak the
secrets (BREACH).
"""

from __future__ import annotations

import gzip
import re
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache, partial

_PAGES = frozenset({"text/html", "application/xhtml+xml"})
_QVALUE = re.compile(r"q\s*=\s*(0(?:\.\d{0,3})?|\.\d{1,3}|1(?:\.0{0,3})?)", re.ASCII)


def weighted(header: str | None) -> list[tuple[str, float]]:
    """Return the items of a header such as `Accept` with their weights, in lower case and without parameters.

    The weight is `q` (RFC 9110, 12.4.2): 1 if absent, and 0 (not acceptable) if invalid. The zero before the decimal
    point may be missing, because Java omits it.
    """
    items = []
    for text in (header or "").lower().split(","):
        name, *parameters = (each.strip() for each in text.split(";"))
        weight = next((each for each in parameters if each.partition("=")[0].strip() == "q"), "q=1")
        found = _QVALUE.fullmatch(weight)
        items.append((name, float(found[1]) if found else 0.0))
    return items


def prefers_page(accept: str | None, *, otherwise: bool) -> bool:
    """Return whether `Accept` prefers HTML to JSON, by a higher weight or, with equal weights, by listing it first.

    `otherwise` is returned if the header is missing or names neither, such as `*/*`.
    """
    best, is_best_page = 0.0, otherwise
    for media_type, weight in weighted(accept):
        is_page = media_type in _PAGES
        is_json = media_type == "application/json" or media_type.endswith("+json")
        if (is_page or is_json) and weight > best:
            best, is_best_page = weight, is_page
    return is_best_page


# --- encodings --------------------------------------------------------------------------------------------------------

SIZE_MIN = 1024  # bytes; a smaller body takes one packet either way


def _zstd(body: bytes, level: int) -> bytes:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd  # takes 1 MiB, which a server without browsers does not need

    return zstd.compress(body, level=level)


def _brotli(body: bytes, quality: int) -> bytes:
    import brotli

    made: bytes = brotli.compress(body, quality=quality)  # the library has no types
    return made


_FAST: Mapping[str, Callable[[bytes], bytes]] = {  # in order of compression for the cost
    "zstd": partial(_zstd, level=3),
    "br": partial(_brotli, quality=4),
    "gzip": partial(gzip.compress, compresslevel=5, mtime=0),
}
_SMALL: Mapping[str, Callable[[bytes], bytes]] = {  # for bodies that are compressed once and sent often
    "br": partial(_brotli, quality=9),
    "zstd": partial(_zstd, level=15),
    "gzip": partial(gzip.compress, compresslevel=9, mtime=0),
}

ENCODINGS = tuple(_SMALL)


def compressed(body: bytes, accepted: str | None, *, once: bool = False) -> tuple[bytes, dict[str, str]]:
    """Return the body in an encoding accepted by `Accept-Encoding`, and the headers that declare it.

    `once` means that the caller keeps the result, so compression may take longer.
    """
    headers = {"Vary": "Accept-Encoding"}
    encoders = _SMALL if once else _FAST
    encoding = chosen_encoding(accepted, tuple(encoders)) if len(body) >= SIZE_MIN else None
    if encoding is None:
        return body, headers
    return encoders[encoding](body), {**headers, "Content-Encoding": encoding}


@lru_cache(maxsize=256)
def chosen_encoding(accepted: str | None, known: tuple[str, ...]) -> str | None:
    """Return the `known` encoding with the highest weight (the first one on a tie), or None to send no encoding.

    If the client accepts none of them, the response is sent unencoded.
    """
    weights = dict(weighted(accepted))
    others = weights.get("*", 0.0)
    best = max(known, key=lambda name: weights.get(name, others))
    # `identity` counts only if it is listed. It is always acceptable, but no client silently prefers more bytes.
    return best if weights.get(best, others) > weights.get("identity", 0.0) else None
