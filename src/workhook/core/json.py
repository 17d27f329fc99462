"""JSON as Workhook writes it: compact UTF-8, non-ASCII characters unescaped.

A relay that parses and re-serialises such a payload gets the same bytes, so a signature over them stays valid.
"""

from __future__ import annotations

import json
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
"""Parses JSON that Workhook itself wrote: bytes or text."""


def encode_for(viewer: Viewer, value: object) -> bytes:
    """`encode`, with those texts about people that the viewer may see."""
    return msgspec.json.encode(value, enc_hook=viewer.disclose)


def encode_text(value: object) -> str:
    """`encode`, as text: what text columns and headers hold."""
    return _encoder.encode(value).decode()


def on_one_line(data: bytes) -> bytes:
    """The same JSON without what some readers take for a line break (U+0085, U+2028, U+2029): each is escaped.

    For where every line is a record. Other line breaks are escaped in any JSON.
    """
    return _LINE_BREAKS.sub(lambda found: b"\\u%04x" % ord(found[0].decode()), data)


def decode_untrusted(data: bytes) -> Any:
    """Parse JSON that a stranger sent.

    Raises `Malformed` for anything that is not one JSON value: bad syntax, bad UTF-8, lone surrogates, numbers
    that no double holds, and nesting deeper than the interpreter's stack.
    """
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed("Problems parsing JSON") from error


def repeated_names(data: bytes, value: object) -> list[str]:
    """The names that an object in this JSON has more than once, each with its place (`items[0].qty`).

    They are `FAULTS_MAX` at most. `value` is what `decode_untrusted` made of `data`: of members with one name it has
    the last (RFC 8259, 4, leaves that open). Each of the others has left a colon in `data` that `value` does not
    account for. Nearly all JSON is told by that; only the rest is parsed once more. Raises `Malformed`.
    """
    found = data.count(b":")
    if isinstance(value, dict) and found == len(value):
        return []  # neither text nor an object within has one
    if b"\\u003" not in data and found == _colons(value):  # a colon can be written as an escape, too
        return []
    try:
        parsed = json.loads(data, object_pairs_hook=_Members, parse_int=float)
    except (ValueError, RecursionError) as error:
        raise Malformed("Problems parsing JSON") from error
    return list(islice(_repeated(parsed), FAULTS_MAX))


def _colons(value: object) -> int:
    """How many colons such a value is written with: one for each member, and those of texts."""
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
    """Of an object, all of them."""


def _repeated(value: object) -> Iterator[str]:
    """Level by level, each once."""
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
