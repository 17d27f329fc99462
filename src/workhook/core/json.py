"""JSON as Workhook writes it: compact UTF-8, non-ASCII characters unescaped.

A relay that parses and re-serialises such a payload gets the same bytes, so a signature over them stays valid.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from workhook.core.disclosure import Viewer, public_form
from workhook.core.errors import Malformed

_encoder = msgspec.json.Encoder(enc_hook=public_form)
_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder()

_LINE_BREAKS = re.compile(rb"\xc2\x85|\xe2\x80[\xa8\xa9]")  # U+0085, U+2028 and U+2029 in UTF-8

encode = _encoder.encode


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


def decode(data: bytes | str) -> Any:
    """Parse JSON that Workhook itself wrote."""
    return _decoder.decode(data)


def decode_untrusted(data: bytes) -> Any:
    """Parse JSON that a stranger sent.

    Raises `Malformed` for anything that is not one JSON value: bad syntax, bad UTF-8, lone surrogates, numbers
    that no double holds, and nesting deeper than the interpreter's stack.
    """
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed("Problems parsing JSON") from error
