"""Request metrics, and a log line for each rejected request, so that its request ID can be looked up."""

from __future__ import annotations

import time

import structlog
from prometheus_client import Counter, Histogram

from workhook.core.config import Settings
from workhook.core.errors import Problem
from workhook.http.calls import address_of
from workhook.http.messages import Request

REQUESTS = Counter("workhook_requests_total", "Requests answered, by route and status.", ["method", "route", "status"])
REQUEST_SECONDS = Histogram(
    "workhook_request_seconds",
    "Seconds from the request's headers to the response.",
    ["method", "route"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)

LINES_A_MINUTE = 600  # per process, because anyone can cause any number of refusals

log = structlog.get_logger(__name__)


class _LogBudget:
    """The lines logged in this minute, and the number of omitted refusals."""

    def __init__(self) -> None:
        self.began_s = -60.0
        self.lines = self.left_out = 0


_budget = _LogBudget()


def record_request(
    request: Request, settings: Settings, request_id: str, route: str, status: int, seconds: float = 0
) -> None:
    """Write a line of the access log, if there is one. For `route`, see `record_refusal`."""
    if settings.access_log:
        log.info(
            "request", request_id=request_id, method=request.method, route=route,
            address=address_of(request, settings), status=status, duration_ms=round(seconds * 1000, 1),
        )  # fmt: skip


def record_refusal(problem: Problem, *, request_id: str, method: str, route: str, address: str | None) -> None:
    """Log a rejected request. `address` is the client's address.

    `route` is the pattern without its values, because paths and queries can contain secrets.
    """
    now_s = time.monotonic()
    if now_s - _budget.began_s >= 60:
        if _budget.left_out:
            log.warning("refused_requests_not_logged", count=_budget.left_out, note="there were too many in a minute")
        _budget.began_s, _budget.lines, _budget.left_out = now_s, 0, 0
    if _budget.lines >= LINES_A_MINUTE:
        _budget.left_out += 1
        return
    _budget.lines += 1
    log.info(
        "request_refused", request_id=request_id, method=method, route=route, address=address, status=problem.status,
        code=problem.code,
    )  # fmt: skip
