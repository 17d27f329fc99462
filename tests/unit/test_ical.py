"""Another library reads calendar feeds correctly, whatever the titles contain."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, date, datetime

import icalendar
from hypothesis import example, given
from hypothesis import strategies as st

from workhook.core.clock import DAY_MS
from workhook.work.history.feeds import LINE_BYTES, DueTask, calendar_bytes

BASE = "https://work.example.com"
AT = 1_800_000_000_000
TEXTS = st.text(max_size=300).map(str.strip)


def task(title: str = "Logo", deadline: int = AT, column: str = "To do") -> DueTask:
    return DueTask("tsk_01", title, deadline, AT, "Website", column, "acme/website")


def written(*tasks: DueTask, name: str = "Website") -> bytes:
    return calendar_bytes(name, tasks, base=BASE)


def events(body: bytes) -> list[icalendar.Event]:
    calendar = icalendar.Calendar.from_ical(body)
    assert isinstance(calendar, icalendar.Calendar)
    assert not calendar.errors
    found = calendar.events
    assert not any(each.errors for each in found)
    return found


@given(TEXTS, TEXTS)
@example("Logo\u2028BEGIN:VALARM\u2029ACTION:AUDIO\x85END:VALARM\x9b1m", "\x0cBEGIN:VEVENT")
def test_texts_are_read_unchanged(title: str, name: str) -> None:
    body = written(task(title), name=name)
    [event] = events(body)
    plain = re.sub("\r\n|[\r\x0b\x0c\x85\u2028\u2029]", "\n", title)
    plain = "".join(each for each in plain if each in "\n\t" or unicodedata.category(each) != "Cc")
    assert str(event["SUMMARY"]) == plain
    lines = body.split(b"\r\n")
    assert lines[-1] == b""
    assert all(len(each) <= LINE_BYTES and b"\n" not in each and b"\r" not in each for each in lines)
    body.decode()  # neither characters nor lines are split
    assert body.decode().splitlines() == [each.decode() for each in lines[:-1]], "as programs split it, by any line end"


def test_a_due_day_becomes_an_all_day_event() -> None:
    day = AT // DAY_MS * DAY_MS
    [whole] = events(written(task(deadline=day)))
    assert whole.start == datetime.fromtimestamp(day / 1000, UTC).date()
    assert type(whole.start) is date
    [moment] = events(written(task(deadline=day + 1000)))
    assert moment.start == datetime.fromtimestamp(day / 1000 + 1, UTC)
    assert re.search(rb"\r\nDTSTART:\d{8}T\d{6}Z\r\n", written(task(deadline=day + 1000)))


def test_an_event_has_the_properties_that_programs_need() -> None:
    body = written(task("Büro, Möbel; \\neu"), task())
    first, _ = events(body)
    assert first["UID"] == "tsk_01@workhook"
    assert first.DTSTAMP == first.LAST_MODIFIED == datetime.fromtimestamp(AT / 1000, UTC)
    assert first["URL"] == f"{BASE}/acme/website/tasks/tsk_01"
    assert first["DESCRIPTION"] == "Website · To do"
    assert first["TRANSP"] == "TRANSPARENT"
    assert b"SUMMARY:B\xc3\xbcro\\, M\xc3\xb6bel\\; \\\\neu\r\n" in body
    calendar = icalendar.Calendar.from_ical(body)
    assert (calendar["VERSION"], calendar["X-WR-CALNAME"]) == ("2.0", "Website")
    assert "PRODID" in calendar


def test_a_calendar_may_have_no_events() -> None:
    assert events(written()) == []
