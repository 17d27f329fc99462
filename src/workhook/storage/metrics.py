"""Prometheus metrics of the database and of the file store.

Every process exports all of them, whichever database it uses, because alerts watch them everywhere.
"""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

CONNECTIONS = Gauge("workhook_database_connections", "Connections in the pool, by state.", ["state"])
WAITING = Gauge("workhook_database_waiting_transactions", "Transactions waiting for their turn (SQLite).")
COMMIT_GROUP = Histogram(
    "workhook_database_commit_group_size",
    "Transactions made durable by one commit (SQLite).",
    buckets=(1, 2, 4, 8, 16, 32, 64, 128),
)
ROLLED_BACK = Counter(
    "workhook_database_rolled_back_total",
    "Transactions rolled back by the database (deadlock, serialization, locked, schema), by outcome: `again` if "
    "retried, or `refused` after several tries.",
    ["reason", "outcome"],
)
SKIPPED = Counter(
    "workhook_sweep_skipped_total", "Rows that a sweep could not process and left for its next run.", ["kind"]
)
HOST_CLOCK_AHEAD = Gauge(
    "workhook_clock_ahead_seconds",
    "Seconds by which this host's clock is ahead of the database's clock, which Workhook follows.",
)
LISTEN_LOST = Counter("workhook_database_signals_lost_total", "Lost connections for notifications between processes.")
NOT_RELEASED = Counter(
    "workhook_database_connections_not_released_total",
    "Connections that could not be returned to the pool after use.",
)
BLOB_TROUBLE = Counter("workhook_files_trouble_total", "Failures of the file store.", ["code"])

# A counter that first appears with its first event hides that event from `increase()`, so watched counters start at 0.
for _code in ("storage_full", "storage_unavailable"):
    BLOB_TROUBLE.labels(_code)
for _reason in ("deadlock", "locked", "schema", "serialization"):
    for _outcome in ("again", "refused"):
        ROLLED_BACK.labels(_reason, _outcome)
