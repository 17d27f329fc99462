"""Durations, amounts and states of time entries, without a database, and the cells of their table."""

from __future__ import annotations

import csv
import io
import re
from decimal import ROUND_HALF_UP, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workhook.core.errors import Conflict, Invalid
from workhook.work.kernel import csv_tables
from workhook.work.kernel.durations import (
    amount_minor,
    decimal_hours,
    format_duration,
    format_duration_with_units,
    hours_text,
    two_decimals,
    whole_seconds,
)
from workhook.work.kernel.schemas import RATE_MAX_MINOR
from workhook.work.time.timesheets import rules
from workhook.work.time.timesheets.rules import DURATION_MAX_MS, RequestedTimes, Times

S, M, H = 1_000, 60_000, 3_600_000
NOW = 1_800_000_000_000

durations = st.integers(0, DURATION_MAX_MS)
whole_durations = st.integers(0, DURATION_MAX_MS // S).map(lambda seconds: seconds * S)
moments = st.integers(NOW - DURATION_MAX_MS, NOW)
steps = st.lists(st.tuples(st.sampled_from(["pause", "resume", "finish"]), st.integers(0, 10 * H)), max_size=12)


# --- written durations ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("duration", "text", "clock", "decimal"),
    [
        (0, "0s", "0:00", 0),
        (999, "0s", "0:00", 0),
        (S, "1s", "0:00:01", 0),
        (18 * S - 1, "17s", "0:00:17", 0),
        (18 * S, "18s", "0:00:18", 0.01),
        (30 * S, "30s", "0:00:30", 0.01),
        (59 * M + 59 * S, "59m 59s", "0:59:59", 1),
        (H, "1h", "1:00", 1),
        (H + 5 * S, "1h 5s", "1:00:05", 1),
        (H + 30 * M + 5 * S, "1h 30m 5s", "1:30:05", 1.5),
        (15 * M + 350, "15m", "0:15", 0.25),
        (58_855_000, "16h 20m 55s", "16:20:55", 16.35),
        (H + 20 * M, "1h 20m", "1:20", 1.33),
        (25 * H, "25h", "25:00", 25),
        (1000 * H + M, "1000h 1m", "1000:01", 1000.02),
    ],
)
def test_durations_are_formatted(duration: int, text: str, clock: str, decimal: float) -> None:
    assert format_duration_with_units(duration) == text
    assert format_duration(duration) == clock
    assert decimal_hours(duration) == decimal


@given(durations)
def test_the_text_shows_whole_seconds(duration: int) -> None:
    unit = {"h": H, "m": M, "s": S}
    parts = re.fullmatch(r"(?:(\d+h) ?)?(?:(\d+m) ?)?(?:(\d+s))?", format_duration_with_units(duration))
    assert parts is not None
    told = sum(int(part[:-1]) * unit[part[-1]] for part in parts.groups() if part)
    assert told == duration - duration % S


@given(durations)
def test_the_short_text_shows_all_seconds_and_hours_are_rounded(duration: int) -> None:
    hours, minutes, seconds = map(int, f"{format_duration(duration)}:0".split(":")[:3])
    assert minutes < 60 > seconds
    assert hours * H + minutes * M + seconds * S == whole_seconds(duration)
    exact = (Decimal(duration) / H).quantize(Decimal("0.01"), ROUND_HALF_UP)
    assert Decimal(str(decimal_hours(duration))) == exact
    assert hours_text(duration) == str(exact)


@given(st.integers(0, 10**15))
def test_hundredths_are_shown_with_two_decimals(minor: int) -> None:
    assert two_decimals(minor) == str(Decimal(minor).scaleb(-2))


# --- amounts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("duration", "rate", "amount"),
    [(H, 8000, 8000), (H + H // 2, 8000, 12000), (0, 8000, 0), (H, 0, 0), (H // 2, 1, 1), (H // 2 - 1, 1, 0)],
)
def test_amounts_are_computed_from_duration_and_rate(duration: int, rate: int, amount: int) -> None:
    assert amount_minor(duration, rate) == amount


@given(durations, st.integers(0, RATE_MAX_MINOR))
def test_amounts_are_rounded_half_up_once(duration: int, rate: int) -> None:
    hours, rest = divmod(duration, H)  # as the database computes it in 64 bits
    assert amount_minor(duration, rate) == hours * rate + (rest * rate + H // 2) // H
    exact = Decimal(duration * rate) / H
    assert abs(amount_minor(duration, rate) - exact) <= Decimal("0.5")
    assert (hours + 1) * rate < 2**63


# --- states ------------------------------------------------------------------------------------------------------


def _sound(times: Times) -> None:
    assert (times.is_active, times.finished) in {(True, False), (False, False), (False, True)}
    assert (times.running_since is not None) == times.is_active
    assert (times.end is not None) == times.finished
    assert times.counted_ms >= 0
    assert times.is_active or times.counted_ms % S == 0
    if times.end is not None:
        assert times.start <= times.end
        assert times.counted_ms <= times.end - times.start


@given(steps)
def test_running_time_is_counted(taken: list[tuple[str, int]]) -> None:
    times, now, ran = rules.started(NOW), NOW, 0
    for step, later in taken:
        now += later
        stretch = now - times.running_since if times.running_since is not None else 0
        ran = times.counted_ms + whole_seconds(stretch)
        assert rules.elapsed_ms(times, now) == ran
        before = times
        if step != "finish" and times.finished:
            with pytest.raises(Conflict):
                (rules.paused if step == "pause" else rules.resumed)(times, now)
            continue
        times = {"pause": rules.paused, "resume": rules.resumed, "finish": rules.finished}[step](times, now)
        _sound(times)
        assert rules.elapsed_ms(times, now) == ran
        turned = {"pause": not before.is_active, "resume": before.is_active, "finish": before.finished}[step]
        assert (times == before) == turned, "a repeat, and only that, changes nothing"


@given(steps)
def test_setting_the_clock_back_never_reduces_counted_time(taken: list[tuple[str, int]]) -> None:
    times, now = rules.started(NOW), NOW
    for step, earlier in taken:
        counted, now = rules.elapsed_ms(times, now), now - earlier
        if times.finished:
            break
        times = {"pause": rules.paused, "resume": rules.resumed, "finish": rules.finished}[step](times, now)
        _sound(times)
        assert times.counted_ms <= counted


@given(st.none() | moments, st.none() | moments, st.none() | durations)
def test_created_entries_are_consistent_or_refused(start: int | None, end: int | None, duration: int | None) -> None:
    try:
        times = rules.created(RequestedTimes(start, end, duration), NOW)
    except Invalid:
        too_long = None not in (start, end, duration) and duration > end - start  # type: ignore[operator]  # not None
        backwards = start is not None and end is not None and end < start
        assert too_long or backwards or (start is None and duration is None)
        return
    _sound(times)
    assert times.finished == (end is not None or duration is not None)
    assert start in (None, times.start)
    assert end in (None, times.end)
    assert duration is None or whole_seconds(duration) == times.counted_ms


@given(
    st.tuples(moments, st.integers(0, 10 * H), st.sampled_from(["run", "pause", "finish"])),
    st.none() | moments,
    st.none() | moments,
    st.none() | durations,
)
def test_edited_entries_are_consistent_or_refused(
    made: tuple[int, int, str], start: int | None, end: int | None, duration: int | None
) -> None:
    times = rules.started(made[0])
    if made[2] != "run":
        times = (rules.paused if made[2] == "pause" else rules.finished)(times, made[0] + made[1])
    now = max(NOW, made[0] + made[1])
    wanted = RequestedTimes(start, end, duration)
    try:
        edited = rules.edited(times, wanted, now)
    except Invalid as error:
        wrong = {fault.field for fault in error.faults}
    else:
        wrong = set()
    assert wrong <= set(wanted.names())
    if wrong:
        return
    _sound(edited)
    if edited == times:
        return
    assert edited.start == (times.start if start is None else start)
    if duration is not None:
        assert edited.counted_ms == whole_seconds(duration)
        assert edited.end == (edited.start + duration if end is None else end)
    elif edited.finished:
        assert edited.end == (times.end if end is None else end)
        assert edited.end is not None
        assert edited.counted_ms == whole_seconds(edited.end - edited.start)
    else:
        assert edited.is_active == times.is_active
        moved = rules.elapsed_ms(times, now) + times.start - edited.start
        assert rules.elapsed_ms(edited, now) == whole_seconds(max(0, moved))


@given(moments, whole_durations)
def test_setting_only_the_duration_keeps_the_start(start: int, duration: int) -> None:
    edited = rules.edited(rules.started(start), RequestedTimes(duration_ms=duration), NOW)
    assert (edited.start, edited.end, edited.counted_ms, edited.finished) == (start, start + duration, duration, True)


def test_a_pause_is_not_counted_and_repeating_the_values_changes_nothing() -> None:
    paused = rules.paused(rules.started(NOW), NOW + H)
    done = rules.finished(rules.resumed(paused, NOW + 2 * H), NOW + 3 * H)
    assert (done.end, done.counted_ms) == (NOW + 3 * H, 2 * H)
    for same in (
        RequestedTimes(),
        RequestedTimes(done.start, done.end),
        RequestedTimes(duration_ms=2 * H),
        RequestedTimes(done.start, done.end, 2 * H),
    ):
        assert rules.edited(done, same, NOW + 9 * H) == done
    assert rules.edited(done, RequestedTimes(end=NOW + 4 * H), NOW + 9 * H).counted_ms == 4 * H
    with pytest.raises(Invalid):
        rules.edited(done, RequestedTimes(end=NOW + H, duration_ms=H + 1), NOW)


def test_a_timer_does_not_start_in_the_future() -> None:
    for start in (NOW + 2 * M, NOW + 10 * H):
        with pytest.raises(Invalid):
            rules.created(RequestedTimes(start), NOW)
        with pytest.raises(Invalid):
            rules.edited(rules.started(NOW), RequestedTimes(start), NOW)
    ahead = rules.created(RequestedTimes(NOW + S), NOW)  # a clock that is slightly fast
    assert rules.elapsed_ms(ahead, NOW) == 0
    _sound(rules.finished(ahead, NOW))


# --- tables ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accept", "csv_wanted"),
    [
        (None, False),
        ("", False),
        ("*/*", False),
        ("application/json", False),
        ("text/csv", True),
        ("TEXT/CSV;charset=utf-8", True),
        ("text/csv, */*;q=0.5", True),
        ("text/csv, */*", True),
        ("application/json, text/csv", False),
        ("application/json;q=0.5, text/csv", True),
        ("text/csv;q=0.1, */*", False),
        ("text/csv;q=0", False),
        ("text/csv;q=nan", False),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", False),
        (";,;;q=", False),
    ],
)
def test_the_accept_header_selects_csv(accept: str | None, csv_wanted: bool) -> None:
    assert csv_tables.wants_csv(accept) is csv_wanted


FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
BREAKS = re.compile("[\u0085\u2028\u2029]")


@given(st.lists(st.lists(st.text() | st.integers() | st.none(), min_size=2, max_size=5)))
def test_a_table_can_be_read_back_without_formulas(cells: list[list[str | int | None]]) -> None:
    written = csv_tables.encode_rows(cells).decode()
    assert written.endswith("\r\n") or not cells
    read = list(csv.reader(io.StringIO(written, newline="")))
    assert len(read) == len(cells)
    for row, line in zip(cells, read, strict=True):
        for cell, shown in zip(row, line, strict=True):
            if isinstance(cell, str):
                assert not shown.startswith(FORMULA)
                assert shown.replace("'", "") == BREAKS.sub("\n", cell).replace("'", "")
            else:
                assert shown == ("" if cell is None else str(cell))


def test_numbers_are_not_quoted_and_flags_are_words() -> None:
    assert csv_tables.encode_rows([(-1, Decimal("-0.50"), True, False, None, "-1", '"', "a,b", "a\nb")]) == (
        b'-1,-0.50,true,false,,\'-1,"""","a,b","a\nb"\r\n'
    )


def test_the_duration_of_a_timer_is_limited() -> None:
    assert rules.created(RequestedTimes(start=NOW - DURATION_MAX_MS), NOW).is_active
    with pytest.raises(Invalid):
        rules.created(RequestedTimes(start=NOW - DURATION_MAX_MS - 1), NOW)
