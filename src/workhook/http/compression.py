"""Which encoding an answer is sent in (RFC 9110, 12.5.3), and the bytes in it.

Compress nothing that mixes a secret with what a stranger can set: its length would tell of the secret (BREACH).
"""

from __future__ import annotations

import gzip
import re
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

import brotli

SIZE_MIN = 1024  # bytes; less is one packet either way
_QVALUE = re.compile(r"q\s*=\s*(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)", re.ASCII)

_FAST: Mapping[str, Callable[[bytes], bytes]] = {  # the cheapest for its size first
    "zstd": lambda body: zstd.compress(body, level=3),
    "br": lambda body: brotli.compress(body, quality=4),
    "gzip": lambda body: gzip.compress(body, compresslevel=5, mtime=0),
}
_SMALL: Mapping[str, Callable[[bytes], bytes]] = {  # for what is compressed once and sent often
    "br": lambda body: brotli.compress(body, quality=9),
    "zstd": lambda body: zstd.compress(body, level=15),
    "gzip": lambda body: gzip.compress(body, compresslevel=9, mtime=0),
}


def compressed(body: bytes, accepted: str | None, *, once: bool = False) -> tuple[bytes, dict[str, str]]:
    """The body in an encoding that `Accept-Encoding` accepts, and the headers that tell so.

    `once`: the result is kept by the caller, so it may take its time.
    """
    headers = {"Vary": "Accept-Encoding"}
    encoders = _SMALL if once else _FAST
    encoding = chosen(accepted, tuple(encoders)) if len(body) >= SIZE_MIN else None
    if encoding is None:
        return body, headers
    return encoders[encoding](body), {**headers, "Content-Encoding": encoding}


@lru_cache(maxsize=256)
def chosen(accepted: str | None, known: tuple[str, ...]) -> str | None:
    """The encoding with the highest weight, of several the first of `known`; None: as it is.

    Where the client accepts nothing at all, not even that, the answer is sent as it is: better than none.
    """
    weights: dict[str, float] = {}
    for each in (accepted or "").lower().split(","):
        name, _, parameter = each.partition(";")
        weights[name.strip()] = weight_of(parameter)
    others = weights.get("*", 0.0)
    best = max(known, key=lambda name: weights.get(name, others))
    # As it is counts only where it is named: it is acceptable anyhow, but nobody asks for more bytes without saying so.
    return best if weights.get(best, others) > weights.get("identity", 0.0) else None


def weight_of(parameter: str) -> float:
    """The weight that follows a `;` (RFC 9110, 12.4.2): 1 without one, and 0, not acceptable, if it cannot be read."""
    if not parameter.strip():
        return 1.0
    found = _QVALUE.fullmatch(parameter.strip())
    return float(found[1]) if found else 0.0
