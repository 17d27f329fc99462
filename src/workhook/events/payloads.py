"""Payloads as `events` stores them: the bytes that are sent and signed or, where others publish long ones, LZ4.

PostgreSQL compresses what is longer than 2 KB by itself, at ten times the cost (`pglz`), and SQLite does not compress.
Payloads of Workhook's own events stay as they are: the history of a task is searched in SQL.
"""

from __future__ import annotations

from collections.abc import Iterable

from lz4 import block

from workhook.events.catalog import CATALOG
from workhook.events.tables import events
from workhook.storage.schema import ddl

COMPRESSED_FROM = 1024  # bytes; what is shorter gains too little
_SEARCHED = frozenset(name for name, event in CATALOG.items() if event.origin == "own")
_MARK = b"\x00"  # no JSON begins with it


def to_stored(name: str, payload: bytes) -> bytes:
    """Return the payload of an event of this name as it is stored."""
    if len(payload) < COMPRESSED_FROM or name in _SEARCHED:
        return payload
    compressed: bytes = block.compress(payload)
    return _MARK + compressed


def from_stored(stored: bytes) -> bytes:
    """Return the payload as it was sent."""
    if not stored.startswith(_MARK):
        return stored
    payload: bytes = block.decompress(stored[len(_MARK) :])
    return payload


@ddl
def _storage(dialect: str) -> Iterable[str]:
    """Keep PostgreSQL from compressing payloads itself."""
    if dialect == "postgresql":
        yield f"ALTER TABLE {events.name} ALTER COLUMN payload SET STORAGE EXTERNAL"
