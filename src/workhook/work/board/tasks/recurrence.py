"""Recurrence rules of tasks (RFC 5545, days only), such as `FREQ=WEEKLY;BYDAY=MO`, and the tasks that follow.

Rules repeat by days. Parts below a day are rejected, and so are parts that exclude days from a daily rule. Every
accepted rule can be computed in a fixed number of steps. Times of day are in a time zone, so 09:00 stays 09:00 when the
clocks change.
"""

from __future__ import annotations

import re
from calendar import isleap, monthrange
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import islice
from typing import NamedTuple, TypeVar

import msgspec
import sqlalchemy as sa

from workhook.core import json
from workhook.core.errors import Invalid, Message, compose
from workhook.core.ids import new_id
from workhook.core.zones import calendar_day, day_in, is_day, midnight_of
from workhook.storage import Transaction
from workhook.storage.metadata import bigint_param
from workhook.work.board.tasks import queries
from workhook.work.board.tasks.queries import Busy, LockedColumn
from workhook.work.board.tasks.schemas import Task, columns
from workhook.work.kernel.access import Access, with_access

T = TypeVar("T")

TEXT_MAX = 255
EXAMPLES = "FREQ=WEEKLY;BYDAY=MO or FREQ=MONTHLY;BYMONTHDAY=-1"
_WEEK = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_DAY = f"(?:{'|'.join(_WEEK)})"
_ORDINAL_DAY = rf"(?:[+-]?[1-5])?{_DAY}"
_POSITION = r"[+-]?(?:36[0-6]|3[0-5]\d|[12]\d\d|[1-9]\d?)"  # up to the number of days in a year
_FORMS: Mapping[str, str] = {
    "FREQ": "DAILY|WEEKLY|MONTHLY|YEARLY",
    "INTERVAL": r"[1-9]\d{0,2}",
    "COUNT": r"[1-9]\d{0,3}",
    "UNTIL": r"\d{8}(?:T\d{6}Z?)?",
    "WKST": _DAY,
    "BYDAY": rf"{_ORDINAL_DAY}(?:,{_ORDINAL_DAY}){{0,34}}",
    "BYMONTHDAY": r"[+-]?(?:0?[1-9]|[12]\d|3[01])(?:,[+-]?(?:0?[1-9]|[12]\d|3[01])){0,61}",
    "BYMONTH": r"(?:0?[1-9]|1[0-2])(?:,(?:0?[1-9]|1[0-2])){0,11}",
    "BYSETPOS": rf"{_POSITION}(?:,{_POSITION}){{0,9}}",
}
_ALLOWED: Mapping[str, frozenset[str]] = {
    "DAILY": frozenset({"BYDAY"}),
    "WEEKLY": frozenset({"BYDAY", "BYMONTH"}),
    "MONTHLY": frozenset({"BYDAY", "BYMONTH", "BYMONTHDAY", "BYSETPOS"}),
    "YEARLY": frozenset({"BYDAY", "BYMONTH", "BYMONTHDAY", "BYSETPOS"}),
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_YEAR = 9998
# The number of periods after which every rule starts over: the calendar repeats every 400 years, or 20,871 weeks.
_STEPS = {"DAILY": 8, "WEEKLY": 20_872, "MONTHLY": 4_801, "YEARLY": 401}


def canonical(text: str) -> str:
    """Return a rule in its stored form: in capitals, without `RRULE:`."""
    return re.sub(r"\s+", "", text).upper().removeprefix("RRULE:").strip(";")


def _rule_error(more: str) -> Message:
    return compose("a recurrence rule (RRULE of RFC 5545), such as {}", EXAMPLES + more)


def find_rule_error(text: str) -> str | None:
    """Return why `text` is not a valid recurrence rule, or None if it is."""
    parts = _parts(text)
    freq = parts.get("FREQ", "")
    if len(parts) != text.count(";") + 1 or freq not in _ALLOWED:
        return _rule_error(", from FREQ=DAILY to FREQ=YEARLY")
    for name, value in parts.items():
        if name not in _FORMS or (name.startswith("BY") and name not in _ALLOWED[freq]):
            return _rule_error(f"; {freq} does not take {name[:20]} here")
        if re.fullmatch(_FORMS[name], value, re.ASCII) is None:
            return _rule_error(f"; the value of {name} is invalid")
    if "COUNT" in parts and "UNTIL" in parts:
        return _rule_error(", with COUNT or UNTIL and not both")
    if freq in ("DAILY", "WEEKLY") and re.search(r"\d", parts.get("BYDAY", "")):
        return _rule_error(f"; {freq} takes days without numbers")
    if "BYSETPOS" in parts and not parts.keys() & {"BYDAY", "BYMONTHDAY", "BYMONTH"}:
        return _rule_error("; BYSETPOS requires BYDAY, BYMONTHDAY, or BYMONTH")
    if "UNTIL" in parts and _until(parts["UNTIL"]) is None:
        return _rule_error("; UNTIL is not a valid date")
    return None


class Occurrence(NamedTuple):
    """An occurrence of a rule.

    `at` is a day or a moment, in milliseconds since the epoch. `since` is the earlier occurrence whose day of the month
    or time of day is intended, if this one had to deviate from it; otherwise None.
    """

    at: int
    since: int | None


def next_after(text: str, at_ms: int, zone: tzinfo, since: int | None = None) -> Occurrence | None:
    """Return the rule's next occurrence after the one at `at_ms`, or None if the rule has ended.

    If the occurrence is a day, so is the next one; a moment keeps its time of day in the zone. In a month that is too
    short, the last day is used instead. `since` is the `since` of the occurrence at `at_ms`.
    """
    parts = _parts(text)
    if parts.get("COUNT") == "1" or find_rule_error(text) is not None:
        return None
    meant = at_ms if since is None else since
    as_days = is_day(meant)
    anchor = _EPOCH + timedelta(milliseconds=meant) if as_days else datetime.fromtimestamp(meant // 1000, zone)
    day = _next_day(text, calendar_day(at_ms, zone), anchor.day)
    if day is None or day.year > _LAST_YEAR:
        return None
    if as_days:
        found, is_as_meant = midnight_of(day), True
    else:
        local = datetime.combine(day, anchor.time(), zone)
        exact = round(local.timestamp()) * 1000 + meant % 1000
        found = exact + is_day(exact)  # keep it a moment: midnight in UTC would be read as a day
        shown = datetime.fromtimestamp(found // 1000, zone)
        is_as_meant = found == exact and shown.replace(tzinfo=None) == local.replace(tzinfo=None)
    if "UNTIL" in parts and not _is_until(parts["UNTIL"], found, day, zone):
        return None
    # Without these parts, the rule takes the day of the month from its first occurrence.
    follows_day = parts["FREQ"] in ("MONTHLY", "YEARLY") and not parts.keys() & {"BYDAY", "BYMONTHDAY"}
    is_as_meant = is_as_meant and (day.day == anchor.day or not follows_day)
    return Occurrence(found, None if is_as_meant else meant)


def decrement_count(text: str) -> str | None:
    """Return the rule for the next task, with COUNT reduced by one. None for the last task, which does not repeat."""
    count = int(_parts(text).get("COUNT", "0"))
    if count == 0:
        return text
    return None if count <= 2 else re.sub(r"COUNT=\d+", f"COUNT={count - 1}", text)


def _parts(text: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in text.split(";"))
    return {name: value for name, _, value in pairs}


def _until(text: str) -> datetime | None:
    """Parse the last day or time that counts, as if in UTC. Returns None for a date that does not exist."""
    form = "%Y%m%d" if "T" not in text else "%Y%m%dT%H%M%S"
    try:
        return datetime.strptime(text.rstrip("Z"), form).replace(tzinfo=UTC)
    except ValueError:
        return None


def _is_until(text: str, at_ms: int, day: date, zone: tzinfo) -> bool:
    """Return whether an occurrence is not after UNTIL: a day, a time in the zone, or a time in UTC that ends in Z."""
    last = _until(text)
    if last is None:
        return False
    if "T" not in text:
        return day <= last.date()
    in_zone = UTC if text.endswith("Z") or is_day(at_ms) else zone
    return datetime.fromtimestamp(at_ms // 1000, in_zone).replace(tzinfo=UTC) <= last


# --- days -------------------------------------------------------------------------------------------------------------


class _Rule(msgspec.Struct, frozen=True):
    """A parsed rule. `weekdays` contains pairs of an ordinal (0 for every week) and a weekday (0 is Monday)."""

    freq: str
    interval: int
    week_start: int
    weekdays: tuple[tuple[int, int], ...]
    month_days: tuple[int, ...]
    months: tuple[int, ...]
    positions: tuple[int, ...]

    @classmethod
    def of(cls, text: str) -> _Rule:
        parts = _parts(text)

        def numbers(name: str) -> tuple[int, ...]:
            return tuple(map(int, filter(None, parts.get(name, "").split(","))))

        days = [each for each in parts.get("BYDAY", "").split(",") if each]
        return cls(
            parts["FREQ"],
            int(parts.get("INTERVAL", "1")),
            _WEEK.index(parts.get("WKST", "MO")),
            tuple((int(each[:-2] or "0"), _WEEK.index(each[-2:])) for each in days),
            numbers("BYMONTHDAY"),
            numbers("BYMONTH"),
            numbers("BYSETPOS"),
        )


@lru_cache(maxsize=1024)
def _next_day(text: str, after: date, anchor: int) -> date | None:
    """Return the first day of the rule after `after`.

    `anchor` is the day of the month that the rule takes from its first occurrence.
    """
    rule = _Rule.of(text)
    for days in islice(_periods(rule, after, anchor), _STEPS[rule.freq]):
        chosen = _at_positions(sorted(days), rule.positions) if rule.positions else days
        if later := [each for each in chosen if each > after]:
            return min(later)
    return None


def _periods(rule: _Rule, start: date, anchor: int) -> Iterator[Collection[date]]:
    """Iterate over the rule's days in each period, from the period of `start` to the last one of the calendar."""
    if rule.freq == "DAILY":
        allowed = {weekday for _, weekday in rule.weekdays} or set(range(7))
        for day in _steps(start, timedelta(days=rule.interval)):
            yield [day] if day.weekday() in allowed else []
    elif rule.freq == "WEEKLY":
        allowed = {weekday for _, weekday in rule.weekdays} or {start.weekday()}
        first = start - timedelta(days=(start.weekday() - rule.week_start) % 7)
        for monday in _steps(first, timedelta(weeks=rule.interval)):
            days = (monday + timedelta(days=number) for number in range(7))
            yield [day for day in days if day.weekday() in allowed and (not rule.months or day.month in rule.months)]
    elif rule.freq == "MONTHLY":
        for number in range(start.year * 12 + start.month - 1, (_LAST_YEAR + 1) * 12, rule.interval):
            year, month = number // 12, number % 12 + 1
            is_month = not rule.months or month in rule.months
            yield _in_month(rule, year, month, anchor) if is_month else []
    else:
        for year in range(start.year, _LAST_YEAR + 1, rule.interval):
            yield _in_year(rule, year, start.month, anchor)


def _steps(first: date, step: timedelta) -> Iterator[date]:
    for number in range((date(_LAST_YEAR, 12, 31) - first) // step + 1):
        yield first + number * step


def _in_year(rule: _Rule, year: int, start_month: int, anchor: int) -> Collection[date]:
    if not rule.months and not rule.month_days and rule.weekdays:  # ordinals count within the year
        return _of_weekdays(rule.weekdays, date(year, 1, 1), 366 if isleap(year) else 365)
    months = rule.months or (range(1, 13) if rule.month_days else [start_month])
    days = {day for month in months for day in _in_month(rule, year, month, anchor)}
    if not rule.months and rule.weekdays:
        days &= _of_weekdays(rule.weekdays, date(year, 1, 1), 366 if isleap(year) else 365)
    return days


def _in_month(rule: _Rule, year: int, month: int, anchor: int) -> set[date]:
    first, last = date(year, month, 1), monthrange(year, month)[1]
    if not rule.month_days and not rule.weekdays:
        return {date(year, month, min(anchor, last))}
    counts_in_year = rule.freq == "YEARLY" and not rule.months
    found = None if counts_in_year or not rule.weekdays else _of_weekdays(rule.weekdays, first, last)
    if rule.month_days:
        numbers = (number if number > 0 else last + 1 + number for number in rule.month_days)
        by_number = {date(year, month, number) for number in numbers if 1 <= number <= last}
        found = by_number if found is None else found & by_number
    return found or set()


def _of_weekdays(weekdays: Iterable[tuple[int, int]], first: date, length: int) -> set[date]:
    """Return the dates of the weekdays within `length` days: all or, with an ordinal, the nth from the start or end."""
    found = set()
    for ordinal, weekday in weekdays:
        offsets = range((weekday - first.weekday()) % 7, length, 7)
        some = offsets if not ordinal else _at_positions(offsets, [ordinal])
        found |= {first + timedelta(days=offset) for offset in some}
    return found


def _at_positions(items: Sequence[T], positions: Iterable[int]) -> list[T]:
    """Return the items at the positions, counted from 1 at the start and from -1 at the end."""
    indexes = (number - 1 if number > 0 else len(items) + number for number in positions)
    return [items[index] for index in indexes if 0 <= index < len(items)]


# --- creating the next task -------------------------------------------------------------------------------------------
# When a task is completed, the next one is created in the same transaction. A task stores the ID of its next one, so
# completing it again does not create another.

TICKED, OPEN = "complete", "incomplete"  # the values of checklist items

_is_final = sa.or_(columns.c.finished, sa.func.coalesce(columns.c.stage, "") == "done")
_first_open = (
    sa.select(columns.c.id)
    .where(columns.c.repository_id == bigint_param("repository_id"))
    .order_by(sa.case((_is_final, 1), else_=0), columns.c.position, columns.c.id)
    .limit(1)
)
# Columns are locked in the order of their IDs, and others are already held, so waiting here could deadlock.
_free_column = with_access(
    sa.select(*queries.lockable_columns).where(columns.c.id == sa.bindparam("column_id")), columns.c.repository_id
).with_for_update(of=columns, key_share=True, skip_locked=True)


def occurrence_after(task: Task, now: int, zone: tzinfo) -> Occurrence | None:
    """Return when the next task is due: after this one's deadline or, without one, after today in the zone."""
    if task.repeat is None:
        return None
    after = midnight_of(day_in(now, zone)) if task.deadline is None else task.deadline
    return next_after(task.repeat, after, zone, task.repeat_since)


def require_next(task: Task, now: int, zone: tzinfo) -> None:
    """Raise `Invalid` if the task's rule has no further occurrence."""
    if task.repeat is not None and occurrence_after(task, now, zone) is None:
        raise Invalid.at("repeat", "repeat: this rule has no further dates; use one that continues, or null")


def with_next(before: Task | None, after: Task, now: int, zone: tzinfo) -> Task:
    """Return the task with the ID of its next one, if it repeats, is completed now and has none yet."""
    completed = before is not None and before.completed_at is None and after.completed_at is not None
    if not completed or after.next_id is not None or occurrence_after(after, now, zone) is None:
        return after
    return msgspec.structs.replace(after, next_id=new_id("tsk"))


async def lock_first_open(tx: Transaction, access: Access) -> LockedColumn:
    """Lock the project's first column that does not complete tasks. Raises `Busy`."""
    first = await tx.fetch_row(_first_open, {"repository_id": access.repository.id})
    params = {"column_id": first["id"], "user_id": access.user.id}
    row = await queries.fresh_row(tx, _free_column, params)
    if row is None:
        raise Busy("The column of the next task is being changed by other requests.")
    return queries.locked_column(row)


def next_of(task: Task, column: LockedColumn, now: int, zone: tzinfo) -> Task:
    """Return the next task, with all checklist items open."""
    assert task.next_id is not None, "`with_next` has found one"
    assert task.repeat is not None, "so it repeats"
    following = occurrence_after(task, now, zone)
    assert following is not None, "`with_next` has found one"
    sections = {
        name: {item: OPEN if value == TICKED else value for item, value in items.items()}
        for name, items in json.decode(task.sections).items()
    }
    return msgspec.structs.replace(
        task,
        id=task.next_id,
        column=column.column,
        position=0,
        deadline=following.at,
        repeat_since=following.since,
        sections=json.encode_text(sections),
        repeat=decrement_count(task.repeat),
        next_id=None,
        subtasks=type(task.subtasks)(0, 0),
        blocked_by=(),
        blocked=False,
        open_blockers=(),
        completed_at=now if column.completes else None,
        created_at=now,
        updated_at=now,
    )
