"""The `Range` of a request (RFC 9110, 14): which bytes of so many. Pure."""

from __future__ import annotations

import re

_RANGE = re.compile(r"bytes\s*=\s*(\d*)-(\d*)", re.IGNORECASE | re.ASCII)
_DIGITS_MAX = 18  # more than any file has bytes, and Python refuses to read some thousands of them


class Unsatisfiable(ValueError):
    """The range begins behind the end."""


def read_range(header: str | None, size: int) -> tuple[int, int] | None:
    """First byte and the one behind the last. None: all of it is the answer.

    That is so without a header, for one that cannot be read, and for several ranges at once, as the RFC permits.
    Raises `Unsatisfiable`.
    """
    found = _RANGE.fullmatch((header or "").strip())
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        return _last(_number(found[2]), size)
    first = _number(found[1])
    last = _number(found[2]) if found[2] else size - 1
    if found[2] and last < first:
        return None
    if first >= size:
        raise Unsatisfiable
    return first, min(last, size - 1) + 1


def _last(count: int, size: int) -> tuple[int, int] | None:
    if count == 0:
        raise Unsatisfiable
    return (max(0, size - count), size) if size else None  # there is no way to write a range of no bytes


def _number(digits: str) -> int:
    significant = digits.lstrip("0")
    return 10**_DIGITS_MAX if len(significant) > _DIGITS_MAX else int(significant or "0")
