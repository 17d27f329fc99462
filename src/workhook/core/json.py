"""JSON as Workhook writes it: compact UTF-8, non-ASCII characters unescaped.

A relay that parses and re-serialises such a payload gets the same bytes, so a signature over them stays valid.
"""

from __future__ import annotations

from typing import Any

import msgspec

from workhook.core.disclosure import Viewer, public_form
from workhook.core.errors import Malformed

_encoder = msgspec.json.Encoder(enc_hook=public_form)
_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder()

encode = _encoder.encode


def encode_for(viewer: Viewer, value: object) -> bytes:
    """`encode`, with those texts about people that the viewer may see."""
    return msgspec.json.encode(value, enc_hook=viewer.disclose)


def encode_text(value: object) -> str:
    """`encode`, as text: what text columns and headers hold."""
    return _encoder.encode(value).decode()


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
