"""JSON as Workhook writes it: compact UTF-8 with non-ASCII characters unescaped.

A relay that parses and re-serializes such a payload produces the same bytes, so a signature over them stays valid.
"""

from __future__ import annotations

import json
import math
import re
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

from workhook.core.disclosure import Viewer, public_form
from workhook.core.errors import FAULTS_MAX, Malformed, shown

_encoder = msgspec.json.Encoder(enc_hook=public_form)
_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder()

_LINE_BREAKS = re.compile(rb"\xc2\x85|\xe2\x80[\xa8\xa9]")  # U+0085, U+2028 and U+2029 in UTF-8

encode = _encoder.encode

decode = _decoder.decode
"""Parse JSON written by Workhook itself, as bytes or text."""


COUNTED_EXACTLY_FROM = 10_000
"""Number of separators from which those inside texts are excluded, which takes longer."""
# An unterminated string extends to the end of the data, so nothing is scanned twice.
_TEXTS = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)


def encode_for(viewer: Viewer, value: object) -> bytes:
    """Encode a value including the personal data that the viewer may see."""
    return msgspec.json.encode(value, enc_hook=viewer.disclose)


def encode_text(value: object) -> str:
    """Encode a value as text, for text columns and headers."""
    return _encoder.encode(value).decode()


def on_one_line(data: bytes) -> bytes:
    """Escape U+0085, U+2028 and U+2029, which some line readers treat as line breaks."""
    return _LINE_BREAKS.sub(lambda found: b"\\u%04x" % ord(found[0].decode()), data)


DEPTH_MAX = 100
"""Maximum nesting of lists and objects in any JSON that Workhook accepts or shows.

Many programs cannot parse much deeper JSON, and neither can Workhook when it is embedded in a deeply nested page.
"""

_BAD = "Problems parsing JSON"
_TOO_DEEP = f"{_BAD}: lists and objects may be nested {DEPTH_MAX} levels deep"
_TOO_LARGE = f"{_BAD}: a number is too large for a double. Send it as text"
_NESTING = frozenset({dict, list})
_DIGITS = bytes(ord("0") if 48 <= each <= 57 else each for each in range(256))
_DIGITS_MAX = 308  # any integer with at most this many digits fits a double
_STRIDE = 64
_IN_A_ROW = b"0" * ((_DIGITS_MAX + 1) // _STRIDE)  # a larger integer has at least this many digits at every 64th byte


def decode_untrusted(data: bytes, kind: Any = Any) -> Any:
    """Parse JSON from an untrusted source as a value of type `kind`.

    Raises `Malformed` for anything other than a single JSON value of this type: invalid syntax, invalid UTF-8, lone
    surrogates, numbers outside the range of a double, and nesting deeper than `DEPTH_MAX`.
    """
    if kind is not Any:
        require_depth(data)  # the deep part may be in a member that the type does not have
    try:
        value = _decoder.decode(data) if kind is Any else msgspec.json.decode(data, type=kind)
    except RecursionError as error:
        raise Malformed(_TOO_DEEP) from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Malformed(_TOO_LARGE if "out of range" in str(error) else _BAD) from error
    if _may_be_too_deep(data) and is_too_deep(value):
        raise Malformed(_TOO_DEEP)
    if _has_large_integer(data):
        raise Malformed(_TOO_LARGE)
    return value


def is_too_deep(value: object) -> bool:
    level = [value]
    for _ in range(DEPTH_MAX):
        inner: list[object] = []
        for each in level:
            if isinstance(each, dict):
                inner += [one for one in each.values() if type(one) in _NESTING]
            elif isinstance(each, list):
                inner += [one for one in each if type(one) in _NESTING]
        if not inner:
            return False
        level = inner
    return True


def require_depth(data: bytes) -> None:
    """Raise `Malformed` if the JSON is nested deeper than `DEPTH_MAX`."""
    if _may_be_too_deep(data):
        decode_untrusted(data)


def _may_be_too_deep(data: bytes) -> bool:
    return data.count(b"[") + data.count(b"{") > DEPTH_MAX


def _has_large_integer(data: bytes) -> bool:
    """Return whether the JSON has an integer larger than any double, which most programs would read as Infinity."""
    if _IN_A_ROW not in data[::_STRIDE].translate(_DIGITS):
        return False
    if b"0" * (_DIGITS_MAX + 1) not in data.translate(_DIGITS):
        return False
    try:
        json.loads(data, parse_int=_double)
    except OverflowError:
        return True
    return False


def _double(digits: str) -> float:
    if math.isinf(value := float(digits)):
        raise OverflowError
    return value


def indented(data: bytes) -> str | None:
    """Return stored JSON with indentation, or None if it is not valid JSON."""
    try:
        decode_untrusted(data)
        return msgspec.json.format(data, indent=2).decode()
    except (Malformed, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def decode_stored(data: bytes) -> Any:
    """Parse a stored payload. Returns None if it is not JSON."""
    try:
        return decode_untrusted(data)
    except Malformed:
        return None


def has_more_values(data: bytes, than: int) -> bool:
    """Return whether the JSON may have more than `than` values, without parsing it.

    Every value except the last one of the text is followed by a comma or a closing bracket.
    """
    if len(data) <= than:
        return False
    plain = data if _separators(data) <= COUNTED_EXACTLY_FROM else _TEXTS.sub(b"", data)
    return _separators(plain) + 1 > than


def _separators(data: bytes) -> int:
    return data.count(b",") + data.count(b"]") + data.count(b"}")


def repeated_names(data: bytes, value: object) -> list[str]:
    """Return the paths of repeated names in objects, such as `items[0].qty`; at most `FAULTS_MAX` of them.

    `value` is the result of `decode_untrusted` for `data`. Of members with the same name it has the last one (RFC 8259,
    section 4, leaves the choice open), and each of the others leaves a colon in `data` that `value` does not account
    for. Counting colons is enough for nearly all JSON; only the rest is parsed again. Raises `Malformed`.
    """
    found = data.count(b":")
    if isinstance(value, dict) and found == len(value):
        return []  # no string and no nested object has a colon
    if b"\\u003" not in data and found == _colons(value):  # a colon can also be written as an escape
        return []
    try:
        parsed = json.loads(data, object_pairs_hook=_Members, parse_int=float)
    except (ValueError, RecursionError) as error:
        raise Malformed("Problems parsing JSON") from error
    return list(islice(_repeated(parsed), FAULTS_MAX))


def _colons(value: object) -> int:
    """Return the number of colons in the JSON of a value: one per member, plus those in strings."""
    found = 0
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if type(each) is str:
            found += each.count(":")
        elif type(each) is dict:
            found += len(each) + "".join(each).count(":")
            waiting += each.values()
        elif type(each) is list:
            waiting += each
    return found


class _Members(list[tuple[str, object]]):
    """The members of an object, including repeated names."""


def _repeated(value: object) -> Iterator[str]:
    waiting = deque([("", value)])
    while waiting:
        path, each = waiting.popleft()
        if isinstance(each, _Members):
            names, repeated = set[str](), set[str]()
            for name, inner in each:
                place = f"{path}.{shown(name)}" if path else shown(name)
                if name in names and name not in repeated:
                    repeated.add(name)
                    yield shown(place)
                names.add(name)
                if isinstance(inner, list):
                    waiting.append((place, inner))
        elif isinstance(each, list):
            waiting.extend((f"{path}[{index}]", inner) for index, inner in enumerate(each) if isinstance(inner, list))
