"""The meaning of recurrence rules: in a time zone, at the end of short months, and for every rule the grammar
accepts."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, tzinfo
from itertools import count

import pytest
from dateutil.rrule import rrulestr
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.harness.depth import deep
from workhook.core.zones import is_day, midnight_of, zone_names, zone_of
from workhook.work.board.tasks import recurrence
from workhook.work.board.tasks.recurrence import Occurrence

BERLIN, NEW_YORK, UTC_ZONE = zone_of("Europe/Berlin"), zone_of("America/New_York"), UTC
zones = st.sampled_from(zone_names()).map(zone_of)
days = st.dates(date(1970, 1, 2), date(2200, 1, 1))


def moment(text: str, zone: tzinfo) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp() * 1000)


def chain(rule: str, at_ms: int, zone: tzinfo, length: int) -> list[int]:
    """Return the due dates of successive tasks, each created from the previous one."""
    now, found = Occurrence(at_ms, None), []
    for _ in range(length):
        following = recurrence.next_after(rule, now.at, zone, now.since)
        assert following is not None
        now = following
        found.append(now.at)
    return found


def local(at_ms: int, zone: tzinfo) -> str:
    return datetime.fromtimestamp(at_ms // 1000, zone).strftime("%Y-%m-%d %H:%M")


@pytest.mark.parametrize(
    ("rule", "first", "following"),
    [
        ("FREQ=MONTHLY", "2026-01-31", ["02-28", "03-31", "04-30", "05-31", "06-30", "07-31"]),
        ("FREQ=MONTHLY", "2028-01-30", ["02-29", "03-30", "04-30"]),
        ("FREQ=MONTHLY;INTERVAL=3", "2026-08-31", ["11-30", "02-28", "05-31"]),
        ("FREQ=MONTHLY;BYMONTH=2,4,5", "2026-01-31", ["02-28", "04-30", "05-31"]),
        ("FREQ=YEARLY", "2028-02-29", ["02-28", "02-28", "02-28", "02-29"]),
        ("FREQ=YEARLY;BYMONTH=1,2", "2026-01-31", ["02-28", "01-31"]),
        ("FREQ=MONTHLY;BYMONTHDAY=31", "2026-01-31", ["03-31", "05-31"]),  # the rule itself names the day
    ],
)
def test_a_shorter_month_uses_its_last_day(rule: str, first: str, following: list[str]) -> None:
    found = chain(rule, midnight_of(date.fromisoformat(first)), NEW_YORK, len(following))
    assert [local(each, UTC)[5:10] for each in found] == following
    at = moment(f"{first}T09:00", NEW_YORK)
    assert [local(each, NEW_YORK)[5:] for each in chain(rule, at, NEW_YORK, len(following))] == [
        f"{each} 09:00" for each in following
    ]


def test_the_time_of_day_is_kept_across_clock_changes() -> None:
    found = chain("FREQ=WEEKLY", moment("2026-10-12T09:00", BERLIN), BERLIN, 4)
    assert [local(each, BERLIN) for each in found] == [
        "2026-10-19 09:00", "2026-10-26 09:00", "2026-11-02 09:00", "2026-11-09 09:00",
    ]  # fmt: skip


def test_weekdays_are_those_of_the_time_zone() -> None:
    found = chain("FREQ=WEEKLY;BYDAY=MO", moment("2026-10-12T00:30", BERLIN), BERLIN, 4)
    assert [local(each, BERLIN)[5:] for each in found] == ["10-19 00:30", "10-26 00:30", "11-02 00:30", "11-09 00:30"]


def test_a_skipped_time_is_restored_the_next_day() -> None:
    found = chain("FREQ=DAILY", moment("2026-03-27T02:30", BERLIN), BERLIN, 3)
    assert [local(each, BERLIN)[5:] for each in found] == ["03-28 02:30", "03-29 03:30", "03-30 02:30"]


def test_a_time_at_midnight_utc_does_not_become_a_day() -> None:
    found = chain("FREQ=WEEKLY", moment("2026-10-19T01:00", BERLIN), BERLIN, 2)
    assert [local(each, BERLIN)[5:] for each in found] == ["10-26 01:00", "11-02 01:00"]
    assert not any(map(is_day, found))
    half_a_year = chain("FREQ=MONTHLY;INTERVAL=5", moment("2026-06-01T01:00", BERLIN), BERLIN, 2)
    assert [each % 1000 for each in half_a_year] == [1, 0], "only what is at midnight in UTC is a moment later"


def test_a_skipped_day_is_restored_the_next_month() -> None:
    apia = zone_of("Pacific/Apia")
    found = chain("FREQ=MONTHLY", moment("2011-11-30T09:00", apia), apia, 2)
    assert [local(each, apia) for each in found] == ["2011-12-31 09:00", "2012-01-30 09:00"]


@pytest.mark.parametrize(
    ("until", "follows"),
    [
        ("20261124", True),
        ("20261123", False),
        ("20261124T090000", True),
        ("20261124T085959", False),
        ("20261124T140000Z", True),
        ("20261124T135959Z", False),
    ],
)
def test_until_may_be_a_day_a_local_time_or_a_utc_time(until: str, follows: bool) -> None:
    at = moment("2026-11-23T09:00", NEW_YORK)
    found = recurrence.next_after(f"FREQ=DAILY;UNTIL={until}", at, NEW_YORK)
    assert (found is not None) is follows


# --- whatever the grammar accepts -------------------------------------------------------------------------------------


def _written(name: str) -> st.SearchStrategy[str]:
    return st.from_regex(re.compile(recurrence._FORMS[name], re.ASCII), fullmatch=True)


@st.composite
def rules(draw: st.DrawFn) -> str:
    """Generate rules with every part in every form of the grammar."""
    names = [name for name in recurrence._FORMS if name != "FREQ"]
    chosen = draw(st.lists(st.sampled_from(names), unique=True, max_size=5))
    return ";".join([f"FREQ={draw(_written('FREQ'))}", *(f"{name}={draw(_written(name))}" for name in chosen)])


@settings(max_examples=deep(100, 1000), suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(rules(), days, zones, st.integers(0, 86_399_999))
def test_every_accepted_rule_can_be_computed(rule: str, day: date, zone: tzinfo, in_day: int) -> None:
    assume(recurrence.find_rule_error(rule) is None)
    before = Occurrence(midnight_of(day) + in_day, None)
    for _ in range(3):
        found = recurrence.next_after(rule, before.at, zone, before.since)
        if found is None:
            return
        assert found.at > before.at
        assert is_day(found.at) is (in_day == 0)
        before = found


@pytest.mark.parametrize(
    "rule", ["FREQ=MONTHLY;BYDAY=MO;BYSETPOS=999", "FREQ=MONTHLY;BYDAY=+MO", "FREQ=YEARLY;BYDAY=-FR"]
)
def test_a_rule_that_cannot_be_computed_is_refused(rule: str) -> None:
    assert recurrence.find_rule_error(rule) is not None


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=YEARLY;BYDAY=MO,TU,WE,TH,FR,SA;BYSETPOS=366",
        "FREQ=YEARLY;BYMONTHDAY=31,-31;BYMONTH=2,4,6,9,11;BYSETPOS=366,-366",
        "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;BYSETPOS=32",
        "FREQ=WEEKLY;INTERVAL=999;BYMONTH=2;BYDAY=MO",
        "FREQ=DAILY;INTERVAL=7;BYDAY=TU",
    ],
)
def test_an_endless_rule_is_computed_in_bounded_steps(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps, periods = count(), recurrence._periods

    def counted(*given: object) -> object:
        for each in periods(*given):  # type: ignore[arg-type]
            next(steps)
            yield each

    monkeypatch.setattr(recurrence, "_periods", counted)
    recurrence._next_day.cache_clear()
    recurrence.next_after(rule, midnight_of(date(2026, 11, 23)), UTC)
    assert next(steps) <= 20_872


@settings(max_examples=deep(60, 1000), suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(rules(), st.dates(date(1970, 1, 2), date(2100, 1, 1)))
def test_due_days_match_another_implementation(rule: str, day: date) -> None:
    assume(recurrence.find_rule_error(rule) is None)
    parts = dict(part.split("=") for part in rule.split(";"))
    assume(not parts.keys() & {"COUNT", "UNTIL"})
    by_day = parts.get("BYDAY", "")
    # It treats days with and without numbers as two conditions that must both be met.
    assume(not (re.search(r"\d", by_day) and re.search(r"(?:^|,)[A-Z]", by_day)))
    assume(not ("BYMONTHDAY" in parts and "BYDAY" in parts and re.search(r"\d", by_day)))
    assume(parts.keys() & {"BYDAY", "BYMONTHDAY"} or day.day <= 28)
    found = recurrence.next_after(rule, midnight_of(day), UTC)
    # It searches for nonexistent dates until the year 9999.
    assume(found is not None and found.at < midnight_of(day + timedelta(days=9000)))
    assert found is not None
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    wanted = rrulestr(rule, dtstart=start).after(start)
    assert wanted is not None
    assert found.at == midnight_of(wanted.date())
