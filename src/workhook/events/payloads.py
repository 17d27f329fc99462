"""Payloads as `events` stores them: the bytes that are sent and signed or, where others publish long ones, Zstandard.

PostgreSQL compresses what is longer than 2 KB by itself, at several times the cost and to a larger size (`pglz`), and
SQLite not at all. Payloads of Workhook's own events stay as they are: the history of a task is searched in SQL.
"""

from __future__ import annotations

import sys
import threading

from workhook.events.catalog import CATALOG

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

COMPRESSED_FROM = 1024  # bytes; what is shorter gains too little
_SEARCHED = frozenset(name for name, event in CATALOG.items() if event.origin == "own")
_FRAME = zstd.compress(b"")[:4]  # RFC 8878, 3.1.1: no JSON begins with it


class _Compressors(threading.local):
    """One for each thread. Its making costs more than a payload."""

    def __init__(self) -> None:
        self.fastest = zstd.ZstdCompressor(level=1)


_compressors = _Compressors()


def to_stored(name: str, payload: bytes) -> bytes:
    """Return the payload of an event of this name as it is stored."""
    if len(payload) < COMPRESSED_FROM or name in _SEARCHED:
        return payload
    return _compressors.fastest.compress(payload, zstd.ZstdCompressor.FLUSH_FRAME)


def from_stored(stored: bytes) -> bytes:
    """Return the payload as it was sent."""
    return zstd.decompress(stored) if stored.startswith(_FRAME) else stored
