"""Written durations, which have the same grammar everywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workhook.core.clock import HOUR_MS, MINUTE_MS
from workhook.core.errors import Invalid
from workhook.web.frame import texts
from workhook.web.time.days import read_duration
from workhook.work.kernel.durations import (
    AmbiguousNumber,
    duration_ms,
    format_duration,
    format_duration_with_units,
    typed_duration_ms,
)
from workhook.work.kernel.schemas import read_duration_up_to

S = 1000
READ = [
    ("1:30", 5400), ("1:5", 3900), ("0:05", 300), (":15", 900), (":5", 300), ("1:30:15", 5415), ("100:00", 360_000),
    ("1:30 h", 5400), ("1h30", 5400), ("1h5", 3900), ("1 h 30", 5400), ("1h30m", 5400), ("1h 30m", 5400),
    ("1h 30m 15s", 5415), ("90m", 5400), ("90 min", 5400), ("90 minutes", 5400), ("2 hours", 7200), ("45s", 45),
    ("1.5", 5400), ("1,5", 5400), (".5", 1800), (",5", 1800), ("0.125", 450), ("1.5h", 5400), ("1,5 h", 5400),
    (".5h", 1800), ("2 Std.", 7200), ("1,25 Stunden", 4500), ("10 Minuten", 600), ("PT1H30M", 5400), ("pt90m", 5400),
    ("PT0.5H", 1800), ("PT15S", 15), ("  1:30  ", 5400), ("1\u00a0h\u202f30 min", 5400),
]  # fmt: skip
REFUSED = [
    "", " ", "h", "m", ":", "1:", "1:60", "1:30:60", "1:2:3:4", "-1:30", "\u22121:30", "+1:30", "-1", "1e3", "1_0",
    "soon", "1h1h", "30m 1h", "1.5h30", "1h60", "1.2.3", "1.2.3h", "PT", "P1D", "PT1H30", "\u0661:\u0663\u0660",
    "\u0661.5",    "\uff11:30", "1;30", "1.234", "1,234", "12.000h", "1,5:30", "9" * 41,
    "2h,30m", "2h.30m", "2 Std.,30 Min.", "1h,30",
]  # fmt: skip


def refusal(typed: str) -> str:
    """Return the message that a page shows for it."""
    with pytest.raises(Invalid) as refused:
        read_duration(typed)
    return refused.value.faults[0].message or ""


@pytest.mark.parametrize(("typed", "seconds"), READ)
def test_api_pages_and_imports_parse_durations_alike(typed: str, seconds: int) -> None:
    assert duration_ms(typed) == typed_duration_ms(typed) == read_duration(typed) == seconds * S
    assert read_duration_up_to(10**12)(typed) == seconds * S


@pytest.mark.parametrize("typed", REFUSED)
def test_api_pages_and_imports_refuse_the_same_durations(typed: str) -> None:
    assert duration_ms(typed) is None
    assert typed_duration_ms(typed) is None
    with pytest.raises(ValueError, match="such as 1h 30m or 1:30"):
        read_duration_up_to(10**12)(typed)
    assert "1:30" in refusal(typed)


def test_a_plain_number_means_milliseconds_in_the_api_and_hours_on_pages() -> None:
    assert duration_ms("5400999") == 5_400_000
    assert typed_duration_ms("2") == 2 * HOUR_MS
    assert typed_duration_ms("90", MINUTE_MS) == 90 * MINUTE_MS
    assert typed_duration_ms("1,5", HOUR_MS) == 90 * MINUTE_MS
    with pytest.raises(AmbiguousNumber):
        typed_duration_ms("90")
    assert refusal("90") == "Enter 1:30 for 90 minutes, or 90h for hours."


@pytest.mark.parametrize("language", ["en", "de"])
def test_displayed_durations_can_be_parsed(language: str) -> None:
    @given(st.integers(1, 10**7))
    def holds(seconds: int) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(texts, "language", lambda: language)
            for shown in (format_duration(seconds * S), format_duration_with_units(seconds * S)):
                assert read_duration(shown) == duration_ms(shown) == seconds * S

    holds()


@given(st.text("0123456789:.,hmsPT ", max_size=10))
def test_arbitrary_text_is_parsed_alike_everywhere(typed: str) -> None:
    if typed.strip().isdigit():
        return
    found = duration_ms(typed)
    assert typed_duration_ms(typed) == found
    assert found is None or (found >= 0 and found % S == 0)
    if found:
        assert read_duration(typed) == found
