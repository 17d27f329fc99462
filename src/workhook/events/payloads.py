"""Payloads as stored in `events`: the bytes that are sent and signed or, for long ones, an LZ4 block.

PostgreSQL's own compression of values longer than 2 KB (`pglz`) costs ten times as much, and SQLite does not compress
at all. Payloads of events about Workhook's own records are stored uncompressed, because the history of a task is
searched in SQL.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog
from lz4 import block
from prometheus_client import Counter

from workhook.events.catalog import CATALOG
from workhook.events.tables import events
from workhook.storage.schema import ddl

COMPRESSED_FROM = 1024  # bytes; shorter payloads gain too little
RATIO_MAX = 255  # of LZ4; a block that claims a higher ratio is damaged
_PLAIN = frozenset(name for name, event in CATALOG.items() if event.origin == "own")
_MARK = b"\x00"  # never the first byte of JSON
_SIZE_BYTES = 4  # before the block: the length of the payload, little-endian

DAMAGED = Counter("workhook_payloads_damaged_total", "Stored payloads that could not be read.")
log = structlog.get_logger(__name__)


def to_stored(name: str, payload: bytes) -> bytes:
    """Return the stored form of a payload of an event with this name."""
    if len(payload) < COMPRESSED_FROM or name in _PLAIN:
        return payload
    compressed: bytes = _MARK + block.compress(payload)
    return compressed if len(compressed) < len(payload) else payload


def from_stored(stored: bytes) -> bytes | None:
    """Return the payload as it was sent, or None if it is damaged, which is logged."""
    if not stored.startswith(_MARK):
        return stored
    compressed = stored[len(_MARK) :]
    try:
        if int.from_bytes(compressed[:_SIZE_BYTES], "little") > RATIO_MAX * len(compressed):
            raise ValueError("it claims to be larger than it can be")
        payload: bytes = block.decompress(compressed)
    except (block.LZ4BlockError, ValueError) as error:
        DAMAGED.inc()
        log.error("payload_damaged", stored_bytes=len(stored), error=str(error))
        return None
    return payload


def to_show(stored: bytes | None) -> bytes:
    """Return the payload for display: an empty object if it is damaged, or was deleted with its event (None)."""
    payload = from_stored(stored) if stored is not None else None
    return payload if payload is not None else b"{}"


@ddl
def _storage(dialect: str) -> Iterable[str]:
    """Keep PostgreSQL from compressing payloads itself."""
    if dialect == "postgresql":
        yield f"ALTER TABLE {events.name} ALTER COLUMN payload SET STORAGE EXTERNAL"
