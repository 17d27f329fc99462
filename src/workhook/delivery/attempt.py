"""One attempt: sign, send, decide what follows. No transaction is open here."""

from __future__ import annotations

import random
from dataclasses import dataclass

from workhook.core import json
from workhook.core.clock import now_ms
from workhook.delivery import metrics
from workhook.delivery.lanes import Lane, Work
from workhook.delivery.retry import GONE, RetryPolicy, next_attempt_at
from workhook.delivery.send import TOO_LARGE, Outcome, Sender
from workhook.delivery.sign import redact

FAILING_MAX_MS = 5 * 24 * 3600 * 1000


@dataclass(slots=True)
class Finished:
    """An attempt that came to an end and is not recorded yet."""

    lane: Lane
    work: Work
    outcome: Outcome
    request_headers: dict[str, str]
    delivered_at: int
    next_at: int | None

    def delivery(self) -> dict[str, object]:
        """The row of `deliveries`."""
        work, outcome = self.work, self.outcome
        return {
            "dispatch_id": work.id,
            "hook_id": self.lane.hook.id,
            "event_id": work.event_id,
            "repository_id": work.repository_id,
            "guid": work.guid,
            "event": work.event,
            "action": work.action,
            "delivered_at": self.delivered_at,
            "throttled_at": work.throttled_at,
            "duration_ms": outcome.duration_ms,
            "redelivery": work.attempts > 0,
            "status": outcome.status,
            "status_code": outcome.status_code,
            "url": self.lane.hook.config["url"],
            "request_headers": json.encode(redact(self.request_headers)),
            "response_headers": json.encode(outcome.response_headers),
            "response_body": outcome.response_body,
        }

    def advance(self, now: int) -> dict[str, object]:
        """What changes in the dispatch."""
        return {
            "dispatch_id": self.work.id,
            "expected": self.work.attempts,
            "manual": 1 if self.work.wanted else 0,
            "retries": self.work.retries + 1,
            "next": self.next_at,
            "now": now,
        }


async def attempt(lane: Lane, work: Work, payload: bytes, sender: Sender, policy: RetryPolicy) -> Finished:
    """Send `work` once. Never raises for what a receiver does."""
    started = now_ms()
    metrics.QUEUE_SECONDS.observe(max(0, started - work.due_at) / 1000)
    prepared = lane.signer.prepare(payload, guid=work.guid, event=work.event, now_ms=started)
    insecure = lane.hook.config.get("insecure_ssl") == "1"
    outcome = await sender.send(lane.hook.config["url"], prepared, insecure_ssl=insecure)
    lane.warm = True
    lane.timing_out = outcome.status_code == 504 and not outcome.ok
    finished_at = now_ms()
    allowed = lane.retries_allowed
    next_at = next_attempt_at(
        attempt=work.retries + 1,
        finished_at_ms=finished_at,
        ok=outcome.ok,
        status_code=outcome.status_code,
        retry_after=outcome.retry_after,
        policy=policy if allowed is None else RetryPolicy(retries=allowed, first_s=policy.first_s),
        random=random.random(),  # noqa: S311  # spreads retries; nothing secret hangs on it
    )
    if outcome.status == TOO_LARGE:  # it will not be smaller next time
        next_at = None
    if not lane.hook.active:  # a ping or a redelivery of a hook that is off: asked for once, sent once
        next_at = None
    return Finished(lane, work, outcome, prepared.headers, finished_at, next_at)


def reason_to_deactivate(finished: Finished) -> str | None:
    """A receiver that says 410, or has had no success for five days, is not sent anything more."""
    lane, outcome = finished.lane, finished.outcome
    if not lane.hook.active or outcome.ok:
        return None
    if outcome.status_code == GONE:
        return "The receiver answered 410 Gone."
    if lane.failing_since is not None and finished.delivered_at - lane.failing_since >= FAILING_MAX_MS:
        return "Every delivery has failed for five days."
    return None
