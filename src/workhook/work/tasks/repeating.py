"""How a task repeats: a recurrence rule of RFC 5545 for days, such as `FREQ=WEEKLY;BYDAY=MO`.

`dateutil` knows what the rules mean. Which of them are taken is said here, so that reading one takes some milliseconds
whatever it says: nothing below a day, and no parts that leave days out of a daily rule.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from workhook.core.clock import DAY_MS

TEXT_MAX = 255
EXAMPLES = "FREQ=WEEKLY;BYDAY=MO or FREQ=MONTHLY;BYMONTHDAY=-1"
_WANTED = f"a recurrence rule (RRULE of RFC 5545), such as {EXAMPLES}"
_DAY, _ORDINAL_DAY = r"(?:MO|TU|WE|TH|FR|SA|SU)", r"[+-]?[1-5]?(?:MO|TU|WE|TH|FR|SA|SU)"
_FORMS: Mapping[str, str] = {
    "FREQ": "DAILY|WEEKLY|MONTHLY|YEARLY",
    "INTERVAL": r"[1-9]\d{0,2}",
    "COUNT": r"[1-9]\d{0,3}",
    "UNTIL": r"\d{8}(?:T\d{6}Z?)?",
    "WKST": _DAY,
    "BYDAY": rf"{_ORDINAL_DAY}(?:,{_ORDINAL_DAY}){{0,34}}",
    "BYMONTHDAY": r"[+-]?(?:0?[1-9]|[12]\d|3[01])(?:,[+-]?(?:0?[1-9]|[12]\d|3[01])){0,61}",
    "BYMONTH": r"(?:0?[1-9]|1[0-2])(?:,(?:0?[1-9]|1[0-2])){0,11}",
    "BYSETPOS": r"[+-]?[1-9]\d{0,2}(?:,[+-]?[1-9]\d{0,2}){0,9}",
}
_ALLOWED: Mapping[str, frozenset[str]] = {
    "DAILY": frozenset({"BYDAY"}),
    "WEEKLY": frozenset({"BYDAY", "BYMONTH"}),
    "MONTHLY": frozenset({"BYDAY", "BYMONTH", "BYMONTHDAY", "BYSETPOS"}),
    "YEARLY": frozenset({"BYDAY", "BYMONTH", "BYMONTHDAY", "BYSETPOS"}),
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CYCLE = 400
"""Years after which the calendar is the same again, days of the week included."""


def canonical(text: str) -> str:
    """As rules are stored: in capitals, without `RRULE:` before them."""
    return re.sub(r"\s+", "", text).upper().removeprefix("RRULE:").strip(";")


def complaint(text: str) -> str | None:
    """What a text has to be that is no rule that a task can have; None for one that is."""
    parts = _parts(text)
    freq = parts.get("FREQ", "")
    if len(parts) != text.count(";") + 1 or freq not in _ALLOWED:
        return f"{_WANTED}, from FREQ=DAILY to FREQ=YEARLY"
    for name, value in parts.items():
        if name not in _FORMS or (name.startswith("BY") and name not in _ALLOWED[freq]):
            return f"{_WANTED}; {freq} does not take {name[:20]} here"
        if re.fullmatch(_FORMS[name], value, re.ASCII) is None:
            return f"{_WANTED}; {name} cannot be so"
    if "COUNT" in parts and "UNTIL" in parts:
        return f"{_WANTED}, with COUNT or UNTIL and not both"
    if freq in ("DAILY", "WEEKLY") and re.search(r"\d", parts.get("BYDAY", "")):
        return f"{_WANTED}; {freq} takes days without numbers"
    if "BYSETPOS" in parts and not parts.keys() & {"BYDAY", "BYMONTHDAY", "BYMONTH"}:
        return f"{_WANTED}; BYSETPOS chooses among BYDAY, BYMONTHDAY or BYMONTH"
    if "UNTIL" in parts and _until(parts["UNTIL"]) is None:
        return f"{_WANTED}; UNTIL is no day"
    return None


def next_after(text: str, moment: int) -> int | None:
    """The next moment of the rule after this one, which is one of it; in milliseconds since the epoch. None: the rule
    ends before that, or makes nothing. COUNT counts the moment itself."""
    parts = _parts(text)
    if parts.get("COUNT") == "1":
        return None
    rule = ";".join(f"{name}={value}" for name, value in parts.items() if name not in ("COUNT", "UNTIL"))
    second, rest = divmod(moment, 1000)
    found = _next(rule, second * 1000)
    if found is not None:  # rules know of no part of a second
        found += rest
    until = _until(parts["UNTIL"]) if "UNTIL" in parts else None
    return None if found is None or (until is not None and found > until) else found


def after_one(text: str) -> str | None:
    """The rule of the next task: its COUNT is one less. None for the last, which does not repeat."""
    count = int(_parts(text).get("COUNT", "0"))
    if count == 0:
        return text
    return None if count <= 2 else re.sub(r"COUNT=\d+", f"COUNT={count - 1}", text)


def due_from(deadline: int | None, now: int) -> int:
    """The moment from which the next one counts: the deadline or, without one, today (UTC, as deadlines are)."""
    return now - now % DAY_MS if deadline is None else deadline


def _parts(text: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in text.split(";"))
    return {name: value for name, _, value in pairs}


@lru_cache(maxsize=1024)
def _next(rule: str, moment: int) -> int | None:
    """dateutil looks for what does not come until the year 9999. So it begins in the last of the 400 years that are
    like the others, and there is little left to look through."""
    from dateutil.rrule import rrulestr  # takes long to import

    start = (_EPOCH + timedelta(milliseconds=moment)).replace(tzinfo=None)  # rules know of no zone
    later = (9_999 - start.year) // _CYCLE * _CYCLE
    start = start.replace(year=start.year + later)
    found = rrulestr(rule, dtstart=start).after(start)
    if found is None:
        return None
    found = found.replace(year=found.year - later, tzinfo=UTC)
    return (found - _EPOCH) // timedelta(milliseconds=1)


def _until(text: str) -> int | None:
    """The last moment that counts; of a day its end. None if there is no such day."""
    form = "%Y%m%d" if "T" not in text else "%Y%m%dT%H%M%S"
    try:
        found = datetime.strptime(text.rstrip("Z"), form).replace(tzinfo=UTC)
    except ValueError:
        return None
    return round(found.timestamp() * 1000) + (DAY_MS - 1 if "T" not in text else 999)
