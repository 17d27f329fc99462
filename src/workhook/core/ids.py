"""Identifiers, slugs and the format of tokens."""

from __future__ import annotations

import os
import re
import secrets
import unicodedata
import zlib

from workhook.core.clock import now_ms

_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_BASE32 = "0123456789abcdefghjkmnpqrstvwxyz"

_REQUEST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{7,127}")

TOKEN_RANDOM_CHARS = 30
TOKEN_CHECK_CHARS = 6

_ID_BYTES = 16
_POOL_BYTES = 256 * _ID_BYTES
_pool: list[bytes] = []
os.register_at_fork(after_in_child=_pool.clear)


def _random() -> bytes:
    """Return 16 random bytes. Bytes for 256 IDs are read at a time, because a system call per ID is slow."""
    try:
        return _pool.pop()
    except IndexError:
        drawn = os.urandom(_POOL_BYTES)
        _pool.extend(drawn[at : at + _ID_BYTES] for at in range(_ID_BYTES, _POOL_BYTES, _ID_BYTES))
        return drawn[:_ID_BYTES]


def new_id(prefix: str) -> str:
    """Return `prefix_` and 26 lower-case base32 characters, for example `prj_…`.

    They encode 48 bits of milliseconds and 80 random bits, which makes IDs sort by time.
    """
    return _id(prefix, now_ms(), int.from_bytes(_random()[:10]))


def lower_bound_id(prefix: str, at_ms: int) -> str:
    """Return the lower bound of IDs that `new_id` creates from `at_ms` (milliseconds since the epoch) onward."""
    return _id(prefix, at_ms, 0)


def _id(prefix: str, at_ms: int, tail: int) -> str:
    return f"{prefix}_{base32(at_ms << 80 | tail, 26)}"


def base32(number: int, chars: int) -> str:
    """Return the last `chars` base32 digits of the number, in the alphabet of IDs."""
    return "".join(_BASE32[number >> shift & 31] for shift in range(5 * (chars - 1), -1, -5))


def new_guid() -> str:
    """Return a UUID of version 7 (RFC 9562). It is random but ordered by time, which keeps its index compact."""
    stamp = now_ms()
    tail = int.from_bytes(_random()[:10])
    high = stamp << 16 | 0x7000 | (tail >> 68 & 0xFFF)
    low = 0x8000_0000_0000_0000 | (tail & 0x3FFF_FFFF_FFFF_FFFF)
    text = f"{high:016x}{low:016x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def slug(text: str, max_chars: int, *, otherwise: str) -> str:
    """Return the text in ASCII, such as `buro-website-2` for `Büro: Website 2`, or `otherwise` if nothing remains."""
    plain = unicodedata.normalize("NFKD", text).casefold()
    ascii_only = "".join(each for each in plain if not unicodedata.combining(each))
    words = re.findall(r"[a-z0-9]+", ascii_only)
    return "-".join(words)[:max_chars].strip("-") or otherwise


def new_request_id() -> str:
    """Return 32 random hexadecimal digits that identify a request in its response and in the log."""
    return _random().hex()


def is_request_id(text: str) -> bool:
    """Return whether a request ID set by a proxy is usable."""
    return _REQUEST_ID.fullmatch(text) is not None


def _checksum(body: str) -> str:
    number, digits = zlib.crc32(body.encode()), ""
    while number:
        number, digit = divmod(number, 62)
        digits = _BASE62[digit] + digits
    return digits.rjust(TOKEN_CHECK_CHARS, "0")


def new_token(prefix: str) -> str:
    """Return `prefix`, 30 random base62 characters and a CRC32 of 6 characters, which detects typos without a query."""
    body = "".join(secrets.choice(_BASE62) for _ in range(TOKEN_RANDOM_CHARS))
    return prefix + body + _checksum(body)


def has_valid_checksum(token: str, prefix: str) -> bool:
    """Return whether the characters after `prefix` end with their checksum."""
    body = token[len(prefix) :]
    if not token.startswith(prefix) or len(body) != TOKEN_RANDOM_CHARS + TOKEN_CHECK_CHARS or not body.isascii():
        return False
    return secrets.compare_digest(_checksum(body[:TOKEN_RANDOM_CHARS]), body[TOKEN_RANDOM_CHARS:])
