"""Events as text/event-stream (the HTML standard, 9.2 "Server-sent events")."""

from __future__ import annotations

from workhook.core import json
from workhook.core.clock import to_millis_text
from workhook.storage import Row

RETRY_MS = 2000
HEARTBEAT = b":\n\n"


def opening(position: int) -> bytes:
    """How soon to come back after an interruption, and from where, should nothing have come until then."""
    return f"retry: {RETRY_MS}\nid: {position}\n\n".encode()


def frame(row: Row) -> bytes:
    """One event. The payload goes out as it is stored, compact JSON, on one line for every reader."""
    head = {
        "event": row["name"],
        "action": row["action"],
        "created_at": to_millis_text(row["created_at"]),
        "published": bool(row["published"]),
    }
    return b'id: %d\nevent: %s\ndata: %s,"payload":%s}\n\n' % (
        row["id"],
        row["name"].encode(),
        json.encode(head)[:-1],
        json.on_one_line(row["payload"]),
    )
