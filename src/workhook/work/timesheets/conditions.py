"""`ETag` and `If-Match` of a timesheet. While it runs its `duration` grows with every millisecond.

The tag of a running one ends in what was counted when it was shown: a GET that is repeated is never answered 304 by an
older state, yet for `If-Match` only the rest counts, so that whoever reads a running timer can change it.
"""

from __future__ import annotations

import hashlib

from workhook.core import json
from workhook.core.errors import PreconditionFailed
from workhook.http.calls import Answer, Call
from workhook.work.timesheets.rules import elapsed_ms
from workhook.work.timesheets.schemas import Timesheet, TimesheetAnswer, timesheet_shape

_COUNTED = "."  # between the two parts of a tag; SHA-256 in hexadecimal has none


def _steady(timesheet: Timesheet) -> str:
    """Over the body that a GET answers, as of the moment the timer last began to run."""
    body = TimesheetAnswer(timesheet_shape(timesheet, timesheet.times.running_since or 0))
    return hashlib.sha256(json.encode(body)).hexdigest()


def _tag(timesheet: Timesheet, now: int) -> str:
    counted = f"{_COUNTED}{elapsed_ms(timesheet.times, now)}" if timesheet.times.is_active else ""
    return f'"{_steady(timesheet)}{counted}"'


def answer(timesheet: Timesheet, now: int) -> Answer:
    """The timesheet as of `now` with its tag."""
    return Answer(TimesheetAnswer(timesheet_shape(timesheet, now)), headers={"ETag": f"W/{_tag(timesheet, now)}"})


def require_match(call: Call, timesheet: Timesheet) -> None:
    """Raises `PreconditionFailed` unless `If-Match` is absent, `*`, or lists a tag of what the timesheet is now."""
    condition = call.header("if-match")
    if condition is None or condition.strip() == "*":
        return
    if _steady(timesheet) not in [each.strip('"').partition(_COUNTED)[0] for each in _listed(condition)]:
        raise PreconditionFailed("It was changed since you read it. Read it again, then decide.")


def _listed(condition: str | None) -> list[str]:
    return [each.strip().removeprefix("W/") for each in (condition or "").split(",")]
