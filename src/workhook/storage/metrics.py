"""Prometheus metrics of the database and of the store of files."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

CONNECTIONS = Gauge("workhook_database_connections", "Connections of the pool.", ["state"])
WAITING = Gauge("workhook_database_waiting_transactions", "Transactions that wait for their turn (SQLite).")
COMMIT_GROUP = Histogram(
    "workhook_database_commit_group_size",
    "Transactions made durable by one commit (SQLite).",
    buckets=(1, 2, 4, 8, 16, 32, 64, 128),
)
LISTEN_LOST = Counter("workhook_database_signals_lost_total", "Times that the connection for signals was lost.")
BLOB_TROUBLE = Counter("workhook_files_trouble_total", "Times that the store of files could not be used.", ["code"])
