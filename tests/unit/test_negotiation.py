"""The encoding of responses, and the integrity of encoded bodies."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable

import brotli
import pytest

from workhook.http.negotiation import SIZE_MIN, chosen_encoding, compressed

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

KNOWN = ("br", "zstd", "gzip")
DECODE: dict[str, Callable[[bytes], bytes]] = {
    "br": brotli.decompress,
    "zstd": zstd.decompress,
    "gzip": gzip.decompress,
}
BODY = b"<p>Workhook</p>" * SIZE_MIN


@pytest.mark.parametrize(
    ("accepted", "expected"),
    [
        (None, None),
        ("", None),
        ("identity", None),
        ("deflate", None),
        ("gzip", "gzip"),
        ("GZIP", "gzip"),
        ("gzip, deflate, br, zstd", "br"),  # as sent by browsers
        ("gzip, deflate, br", "br"),
        ("gzip;q=1.0, br;q=0.5", "gzip"),
        ("gzip ; q=0.2 , zstd ; q=0.3", "zstd"),
        ("*", "br"),
        ("br;q=0, *", "zstd"),
        ("*;q=0", None),
        ("gzip;q=0", None),
        ("br;q=0, gzip", "gzip"),
        ("gzip, *;q=0", "gzip"),
        ("identity;q=0", None),  # nothing else is named, and an unencoded response is better than none
        ("identity;q=0, gzip;q=0.1", "gzip"),
        ("identity;q=1, gzip;q=0.5", None),
        ("identity;q=0.5, gzip;q=1.0, *;q=0", "gzip"),  # from RFC 9110
        ("gzip;q=2", None),  # an invalid weight makes the encoding unacceptable
        ("gzip;q=nan", None),
        ("gzip;q=-1", None),
        ("gzip;q=0.0001", None),
        ("gzip;level=9", "gzip"),
        ("gzip;", "gzip"),
        (",,;q=1,", None),
    ],
)
def test_the_encoding_is_negotiated(accepted: str | None, expected: str | None) -> None:
    assert chosen_encoding(accepted, KNOWN) == expected


def test_among_equal_weights_the_preferred_encoding_is_chosen() -> None:
    assert chosen_encoding("gzip, br, zstd", ("zstd", "br", "gzip")) == "zstd"


@pytest.mark.parametrize("once", [True, False])
@pytest.mark.parametrize("encoding", KNOWN)
def test_an_encoded_body_decodes_to_the_original(encoding: str, once: bool) -> None:
    sent, headers = compressed(BODY, encoding, once=once)
    assert headers == {"Vary": "Accept-Encoding", "Content-Encoding": encoding}
    assert len(sent) < len(BODY) / 10
    assert DECODE[encoding](sent) == BODY
    assert compressed(BODY, encoding, once=once) == (sent, headers), "the same each time: an ETag is made of it"


def test_a_small_body_is_not_encoded() -> None:
    assert compressed(b"x" * (SIZE_MIN - 1), "gzip") == (b"x" * (SIZE_MIN - 1), {"Vary": "Accept-Encoding"})
    assert compressed(b"x" * SIZE_MIN, "gzip")[1]["Content-Encoding"] == "gzip"


def test_a_body_is_not_encoded_without_a_common_encoding() -> None:
    assert compressed(BODY, None) == (BODY, {"Vary": "Accept-Encoding"})
