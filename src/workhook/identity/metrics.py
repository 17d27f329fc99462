"""Prometheus metrics of request limits and of the audit log."""

from __future__ import annotations

from prometheus_client import Counter

RATE_ALONE = Counter(
    "workhook_rate_limit_alone_total", "Times that a process counted by itself: the database could not be written."
)
REFUSALS = Counter("workhook_refusals_total", "Refused attempts, by the status that they were answered.", ["status"])
REFUSALS_DROPPED = Counter("workhook_audit_refusals_dropped_total", "Refused attempts that are not in the audit log.")
