"""When a failed delivery is tried again. Pure: outcome and attempt number in, next time or stop out."""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime

import msgspec

GONE = 410

# A schedule of many attempts would leave the range of floats, and no receiver waits for a delivery of last month.
_LONGEST_STEP_S = 30 * 86_400.0
_LONGEST_HEADER = 64


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """`retries` further attempts, the first after `first_s`, each `factor` times as long after the one before.

    The defaults give 8 further attempts within 36 hours. `jitter` is the largest share added to a wait.
    """

    retries: int = 8
    first_s: float = 10.0
    factor: float = 3.7
    jitter: float = 0.2

    def step_s(self, attempt: int) -> float:
        """Seconds between attempt number `attempt` (from 1) and the next, without jitter."""
        try:
            step_s = self.first_s * self.factor ** (attempt - 1)
        except OverflowError:
            return _LONGEST_STEP_S
        return min(step_s, _LONGEST_STEP_S)


def next_attempt_at(
    *,
    attempt: int,
    finished_at_ms: int,
    ok: bool,
    status_code: int,
    retry_after: str | None,
    policy: RetryPolicy,
    random: float,
) -> int | None:
    """Milliseconds since the epoch of the next attempt, or None to stop.

    `attempt` counts from 1; `random` is in [0, 1). It stops after a success, after 410 Gone (which also deactivates
    the hook) and when the attempts are used up. `Retry-After` lengthens a step to at most twice its length and
    never shortens it; jitter comes on top so that what failed together does not come back together.
    """
    if ok or status_code == GONE or attempt > policy.retries:
        return None
    step_ms = round(policy.step_s(attempt) * 1000)
    asked_ms = None if retry_after is None else retry_after_ms(retry_after, finished_at_ms)
    wait_ms = step_ms if asked_ms is None else max(step_ms, asked_ms)
    return finished_at_ms + min(round(wait_ms * (1 + policy.jitter * random)), 2 * step_ms)


def retry_after_ms(text: str, now_ms: int) -> int | None:
    """The wait that a `Retry-After` asks for (RFC 9110, 10.2.3: seconds or a date); None when it is neither.

    A date in the past is a negative wait.
    """
    text = text.strip()
    if len(text) > _LONGEST_HEADER or not text.isascii():
        return None
    if text.isdigit():
        return int(text) * 1000
    if not text[:1].isalpha() or ":" not in text:  # every form of an HTTP date begins with the day's name
        return None
    try:
        date = parsedate_to_datetime(text)
        # The oldest of the three forms names no zone; all three mean GMT.
        aware = date if date.tzinfo is not None else date.replace(tzinfo=UTC)
        return round(aware.timestamp() * 1000) - now_ms
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
