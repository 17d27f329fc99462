"""When a failed delivery is retried."""

from __future__ import annotations

import datetime
from email.utils import format_datetime

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from workhook.delivery.attempt import RetryPolicy, next_attempt_at, retry_after_ms
from workhook.delivery.send import Outcome

NOW_MS = 1_780_000_000_000
DEFAULT = RetryPolicy()

attempts = st.integers(1, 8)
randoms = st.floats(0, 1, exclude_max=True)


def wait_ms(
    attempt: int = 1,
    *,
    ok: bool = False,
    status_code: int = 500,
    retry_after: str | None = None,
    policy: RetryPolicy = DEFAULT,
    random: float = 0.0,
) -> int | None:
    outcome = Outcome("", status_code, 0, {}, b"", retry_after, ok)
    at = next_attempt_at(outcome, attempt=attempt, finished_at_ms=NOW_MS, policy=policy, random=random)
    return None if at is None else at - NOW_MS


def test_a_delivery_is_retried_eight_times_in_36_hours() -> None:
    waits = [wait_ms(attempt) for attempt in range(1, 9)]
    assert waits[:3] == [10_000, 37_000, 136_900]
    assert wait_ms(9) is None
    total_h = sum(wait or 0 for wait in waits) / 3_600_000
    assert 36 <= total_h < 36.5


@given(attempts, randoms)
def test_jitter_adds_at_most_a_fifth(attempt: int, random: float) -> None:
    plain, jittered = wait_ms(attempt), wait_ms(attempt, random=random)
    assert plain is not None
    assert jittered is not None
    assert plain <= jittered <= plain * 1.2 + 1


@given(st.integers(1, 100), randoms)
def test_a_success_or_gone_is_not_retried(attempt: int, random: float) -> None:
    assert wait_ms(attempt, ok=True, status_code=200, random=random) is None
    assert wait_ms(attempt, status_code=410, retry_after="60", random=random) is None


@pytest.mark.parametrize("status_code", [301, 400, 403, 404, 413, 429, 500, 502, 503, 504])
def test_any_other_failure_is_retried(status_code: int) -> None:
    assert wait_ms(status_code=status_code) == 10_000


def test_the_number_of_retries_is_configurable() -> None:
    assert wait_ms(policy=RetryPolicy(retries=0)) is None
    policy = RetryPolicy(retries=2, first_s=0.5, factor=2, jitter=0)
    assert [wait_ms(attempt, policy=policy, random=0.99) for attempt in (1, 2, 3)] == [500, 1000, None]


@given(attempts, st.integers(0, 10**9), randoms)
def test_retry_after_in_seconds_at_most_doubles_the_wait(attempt: int, seconds: int, random: float) -> None:
    step, wait = wait_ms(attempt), wait_ms(attempt, retry_after=str(seconds), random=random)
    assert step is not None
    assert wait is not None
    assert step <= wait <= 2 * step
    assert wait >= min(seconds * 1000, 2 * step)
    assert wait <= max(step, seconds * 1000) * 1.2 + 1


@given(attempts, st.integers(-10_000, 300_000))
def test_retry_after_accepts_a_date(attempt: int, seconds: int) -> None:
    date = datetime.datetime.fromtimestamp(NOW_MS / 1000 + seconds, datetime.UTC)
    assert wait_ms(attempt, retry_after=format_datetime(date, usegmt=True)) == wait_ms(
        attempt, retry_after=str(max(seconds, 0))
    )


@pytest.mark.parametrize(
    "text", ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
)
def test_all_three_forms_of_an_http_date_are_accepted(text: str) -> None:
    """RFC 9110, 5.6.7."""
    assert retry_after_ms(text, 784_111_777_000 - 5000) == 5000


INVALID = [
    "", " ", "soon", "-5", "+5", "1.5", "1e3", "5s", "5, 6", "\u0665", "\u00b2", "0x10", "Infinity", "NaN", "9" * 65,
    "a:b", "Sun, 99 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 99999999 08:49:37 GMT", "2026-11-20T09:00:00Z", ":" * 60,
    "\x00",
]  # fmt: skip


@pytest.mark.parametrize("text", INVALID)
def test_an_invalid_retry_after_is_ignored(text: str) -> None:
    assert retry_after_ms(text, NOW_MS) is None
    assert wait_ms(retry_after=text) == 10_000


@given(
    st.one_of(st.text(max_size=70), st.from_regex(r"[A-Za-z]{3},? \d{1,9}[ -][A-Za-z]{3}[ -]\d{1,9} [\d:]{1,12}.{0,8}"))
)
@example("Mon, 01 Jan 0001 00:00:00 +2359")
@example("Fri, 31 Dec 9999 23:59:59 -2359")
@example("Mon, 01 Jan 2026 00:00:00 -99999999")
def test_arbitrary_text_never_crashes_the_parser(text: str) -> None:
    wait = wait_ms(retry_after=text)
    assert wait is not None
    assert 10_000 <= wait <= 20_000


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.floats(0.001, 1e6), st.floats(1, 1e6), randoms)
def test_any_policy_yields_a_positive_bounded_wait(
    attempt: int, retries: int, first_s: float, factor: float, random: float
) -> None:
    assume(attempt <= retries)
    wait = wait_ms(attempt, policy=RetryPolicy(retries=retries, first_s=first_s, factor=factor), random=random)
    assert wait is not None
    assert 0 < wait <= 61 * 86_400_000
