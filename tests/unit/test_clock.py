"""The reference clock: the host's own clock is used as long as nothing proves it wrong."""

from __future__ import annotations

import time

import pytest

from workhook.core import clock

MS = 1_000_000


@pytest.fixture(autouse=True)
def _own_clock_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock._Followed, "ahead_ns", None)


def look(off_ms: int, wrong_by_ms: int) -> None:
    clock.follow_clock(time.time_ns() + off_ms * MS, time.monotonic_ns(), wrong_by_ns=wrong_by_ms * MS)


@pytest.mark.parametrize("off_ms", [-300, 300])
def test_the_own_clock_is_kept_if_the_reference_does_not_contradict_it(off_ms: int) -> None:
    look(off_ms, wrong_by_ms=1000)
    before = time.time_ns() // MS
    followed = clock.now_ms()
    # One more in each direction, because the other clock is truncated to milliseconds at another moment.
    assert before - 1 <= followed <= time.time_ns() // MS + 1


@pytest.mark.parametrize("off_ms", [-3_600_000, 3_600_000])
def test_a_wrong_own_clock_is_corrected(off_ms: int) -> None:
    look(off_ms, wrong_by_ms=1000)
    assert abs(clock.now_ms() - (time.time_ns() // MS + off_ms)) < 60_000
    assert abs(clock.host_ahead_ms() + off_ms) < 60_000
