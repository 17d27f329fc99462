"""Prometheus metrics of requests. `/metrics` shows the process's default registry."""

from __future__ import annotations

from prometheus_client import Counter, Histogram

REQUESTS = Counter("workhook_requests_total", "Requests answered.", ["method", "route", "status"])
REQUEST_SECONDS = Histogram(
    "workhook_request_seconds",
    "Time from the request's headers to the answer.",
    ["method", "route"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
