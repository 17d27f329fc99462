"""One attempt: sign, send, decide the next step. No transaction is open meanwhile.

The retry decision is a pure function from the outcome and attempt number to the next time, or None.
"""

from __future__ import annotations

import asyncio
import functools
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Literal, NamedTuple

import msgspec

from workhook.core import json, tracing
from workhook.core.clock import now_ms
from workhook.core.tracing import TraceSpan
from workhook.delivery import metrics
from workhook.delivery.lanes import Lane, PendingAttempt
from workhook.delivery.queries import AdvanceRow, DeliveryRow
from workhook.delivery.send import TIMED_OUT, TOO_LARGE, Outcome, Sender
from workhook.delivery.sign import SignedRequest, Signer, redact
from workhook.hooks.history import recorded_at
from workhook.hooks.schemas import Hook

GONE = 410

# A schedule of many attempts would overflow floats, and no receiver expects a delivery from last month.
_LONGEST_STEP_S = 30 * 86_400.0
_LONGEST_HEADER = 64


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """`retries` retries, the first after `first_s`, each interval `factor` times the previous; 36 hours by default."""

    retries: int = 8
    first_s: float = 10.0
    factor: float = 3.7
    jitter: float = 0.2  # largest fraction added to an interval

    def step_s(self, attempt: int) -> float:
        """Return the seconds between attempt `attempt` (from 1) and the next, without jitter."""
        try:
            step_s = self.first_s * self.factor ** (attempt - 1)
        except OverflowError:
            return _LONGEST_STEP_S
        return min(step_s, _LONGEST_STEP_S)


def next_attempt_at(
    outcome: Outcome, *, attempt: int, finished_at_ms: int, policy: RetryPolicy, random: float
) -> int | None:
    """Return the time of the next attempt in milliseconds since the epoch, or None to stop.

    `attempt` counts from 1; `random` is in [0, 1). `Retry-After` extends an interval to at most twice its length and
    never shortens it. Jitter keeps deliveries that failed together from being retried together.
    """
    if outcome.ok or outcome.status_code == GONE or attempt > policy.retries:
        return None
    step_ms = round(policy.step_s(attempt) * 1000)
    asked_ms = None if outcome.retry_after is None else retry_after_ms(outcome.retry_after, finished_at_ms)
    wait_ms = step_ms if asked_ms is None else max(step_ms, asked_ms)
    return finished_at_ms + min(round(wait_ms * (1 + policy.jitter * random)), 2 * step_ms)


def retry_after_ms(text: str, now_ms: int) -> int | None:
    """Return the delay of a `Retry-After` (RFC 9110, 10.2.3), negative for a past date, or None if it is invalid."""
    text = text.strip()
    if len(text) > _LONGEST_HEADER or not text.isascii():
        return None
    if text.isdigit():
        return int(text) * 1000
    if not text[:1].isalpha() or ":" not in text:  # every form of an HTTP date begins with the name of the day
        return None
    try:
        date = parsedate_to_datetime(text)
        # The oldest of the three forms names no time zone; all three mean GMT.
        aware = date if date.tzinfo is not None else date.replace(tzinfo=UTC)
        return round(aware.timestamp() * 1000) - now_ms
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


FAILING_MAX_MS = 5 * 24 * 3600 * 1000
SIGN_HERE_MAX = 256 * 1024  # bytes; this many take 2 ms

# Few threads, because they compete with the loop. A dedicated pool, so other work does not wait for it.
_signing = ThreadPoolExecutor(2, "workhook-sign")


@dataclass(slots=True)
class FinishedAttempt:
    lane: Lane
    work: PendingAttempt
    hook: Hook  # as of when the attempt was sent
    outcome: Outcome
    request_headers: dict[str, str] = field(repr=False)  # as sent, including a password
    delivered_at: int
    next_at: int | None

    def delivery(self) -> DeliveryRow:
        work, outcome, hook = self.work, self.outcome, self.hook
        caused_by = work.installation_id if work.installation_id is not None else hook.installation_id
        return (
            work.id, hook.id, work.event_id, work.repository_id, caused_by, work.guid, work.event, work.action,
            self.delivered_at, work.throttled_at, outcome.duration_ms, work.attempts > 0, outcome.status,
            outcome.status_code, hook.config["url"], json.encode(redact(self.request_headers)),
            json.encode(outcome.response_headers), outcome.response_body, recorded_at(self.delivered_at, now_ms()),
        )  # fmt: skip

    def advance(self) -> AdvanceRow:
        work = self.work
        return work.id, work.attempts, 1 if work.wanted else 0, work.retries + 1, self.next_at, self.lane.epoch


async def attempt(
    lane: Lane, work: PendingAttempt, payload: bytes, sender: Sender, policy: RetryPolicy
) -> FinishedAttempt:
    """Send `work` once. Never raises for a receiver's failure."""
    hook, started = lane.hook, now_ms()
    metrics.QUEUE_SECONDS.observe(max(0, started - work.due_at) / 1000)
    span = _begin_span(hook, work)
    traceparent = work.traceparent if span is None else span.traceparent
    prepared = await _prepare(lane.signer, work, payload, started, traceparent)
    insecure = hook.config.get("insecure_ssl") == "1"
    outcome = await sender.send(hook.config["url"], prepared, insecure_ssl=insecure)
    if span is not None:
        code = outcome.status_code if outcome.response_headers else None  # without a response, it is Workhook's own
        span.end(code, error=None if outcome.ok else outcome.status if code is None else str(code))
    lane.connected, lane.timing_out = True, outcome.status == TIMED_OUT  # not any 504: a gateway sends one at once
    finished_at = now_ms()
    allowed = lane.hook.retries_allowed
    next_at = next_attempt_at(
        outcome,
        attempt=work.retries + 1,
        finished_at_ms=finished_at,
        policy=policy if allowed is None else RetryPolicy(retries=allowed, first_s=policy.first_s),
        random=random.random(),  # noqa: S311  # jitter, not a secret
    )
    # A payload that is too large will not shrink. A ping or a redelivery of a deactivated hook is sent once.
    if outcome.status == TOO_LARGE or not lane.hook.active:
        next_at = None
    return FinishedAttempt(lane, work, hook, outcome, prepared.headers, finished_at, next_at)


def _begin_span(hook: Hook, work: PendingAttempt) -> TraceSpan | None:
    if (maker := tracing.span_maker()) is None:
        return None
    facts: dict[str, str | int] = {
        "workhook.hook_id": hook.id,
        "workhook.event": work.event,
        "workhook.guid": work.guid,
    }
    if work.action is not None:
        facts["workhook.action"] = work.action
    if work.attempts:
        facts["http.request.resend_count"] = work.attempts
    return maker.attempt(hook.config["url"], facts, tracing.read(work.traceparent))


async def _prepare(
    signer: Signer, work: PendingAttempt, payload: bytes, now: int, traceparent: str | None
) -> SignedRequest:
    """Sign a large payload in a thread, because 25 MB take 0.1 s, or 0.5 s as a form, and would block the loop."""
    prepare = functools.partial(
        signer.prepare, payload, guid=work.guid, event=work.event, now_ms=now, traceparent=traceparent
    )
    if len(payload) <= SIGN_HERE_MAX:
        return prepare()
    return await asyncio.get_running_loop().run_in_executor(_signing, prepare)


class Deactivation(NamedTuple):
    code: Literal["gone", "failing"]  # for metrics
    reason: str  # a sentence for the audit log and the event


def reason_to_deactivate(finished: FinishedAttempt) -> Deactivation | None:
    """Return why to deactivate the hook (a 410 response, or failures for five days), or None."""
    lane, outcome = finished.lane, finished.outcome
    if not finished.hook.active or outcome.ok:
        return None
    if outcome.status_code == GONE:
        return Deactivation("gone", "The receiver answered 410 Gone.")
    if lane.failing_since is not None and finished.delivered_at - lane.failing_since >= FAILING_MAX_MS:
        return Deactivation("failing", "Every delivery has failed for five days.")
    return None
