"""Identifiers, names that are made from texts, and the shape of tokens."""

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
    """Return 16 random bytes for an id. Each system call took longer than everything else that makes a request's id,
    so they are read for 256 ids at a time."""
    try:
        return _pool.pop()
    except IndexError:
        drawn = os.urandom(_POOL_BYTES)
        _pool.extend(drawn[at : at + _ID_BYTES] for at in range(_ID_BYTES, _POOL_BYTES, _ID_BYTES))
        return drawn[:_ID_BYTES]


def new_id(prefix: str) -> str:
    """`prj_` and 26 lower-case base32 characters: 48 bits of milliseconds, then 80 random bits, so ids sort by time."""
    return _id(prefix, now_ms(), int.from_bytes(_random()[:10]))


def least_id(prefix: str, at_ms: int) -> str:
    """Return the lower bound of `new_id` from this time on. `at_ms`: milliseconds since the epoch."""
    return _id(prefix, at_ms, 0)


def _id(prefix: str, at_ms: int, tail: int) -> str:
    return f"{prefix}_{base32(at_ms << 80 | tail, 26)}"


def base32(number: int, chars: int) -> str:
    """Return the last `chars` digits of the number, of five bits each, as in ids."""
    return "".join(_BASE32[number >> shift & 31] for shift in range(5 * (chars - 1), -1, -5))


def new_guid() -> str:
    """A UUID of version 7 (RFC 9562): random, but ordered by time, which keeps its index compact."""
    stamp = now_ms()
    tail = int.from_bytes(_random()[:10])
    high = stamp << 16 | 0x7000 | (tail >> 68 & 0xFFF)
    low = 0x8000_0000_0000_0000 | (tail & 0x3FFF_FFFF_FFFF_FFFF)
    text = f"{high:016x}{low:016x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def slug(text: str, max_chars: int, *, otherwise: str) -> str:
    """Return the text in lower-case Latin letters and digits with hyphens: `Büro: Website 2` gives `buro-website-2`.
    `otherwise` is for a text without any."""
    plain = unicodedata.normalize("NFKD", text).casefold()
    ascii_only = "".join(each for each in plain if not unicodedata.combining(each))
    words = re.findall(r"[a-z0-9]+", ascii_only)
    return "-".join(words)[:max_chars].strip("-") or otherwise


def new_request_id() -> str:
    """32 hexadecimal digits, all of them random: a request's name, in its answer and in the log."""
    return _random().hex()


def is_request_id(text: str) -> bool:
    """Tell whether a proxy's name of a request can be used."""
    return _REQUEST_ID.fullmatch(text) is not None


def _checksum(body: str) -> str:
    number, digits = zlib.crc32(body.encode()), ""
    while number:
        number, digit = divmod(number, 62)
        digits = _BASE62[digit] + digits
    return digits.rjust(TOKEN_CHECK_CHARS, "0")


def new_token(prefix: str) -> str:
    """`prefix`, 30 random base62 characters, 6 of CRC32: a typing error or a wrong secret is told without a look-up."""
    body = "".join(secrets.choice(_BASE62) for _ in range(TOKEN_RANDOM_CHARS))
    return prefix + body + _checksum(body)


def token_checks_out(token: str, prefix: str) -> bool:
    """Tell whether the characters after `prefix` end with their checksum."""
    body = token[len(prefix) :]
    if not token.startswith(prefix) or len(body) != TOKEN_RANDOM_CHARS + TOKEN_CHECK_CHARS or not body.isascii():
        return False
    return secrets.compare_digest(_checksum(body[:TOKEN_RANDOM_CHARS]), body[TOKEN_RANDOM_CHARS:])
