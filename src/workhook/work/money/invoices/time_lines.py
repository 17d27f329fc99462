"""What lines an invoice has of the time that is on it: one for each entry, or one for each group and rate. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Annotated, Literal

import msgspec

from workhook.core.clock import HOUR_MS
from workhook.core.money import rescaled
from workhook.core.records import COMPUTED, Record, Stored
from workhook.core.zones import day_in, stored_zone
from workhook.work.kernel.settings import DEFAULT_LANGUAGE, Language
from workhook.work.money.invoices.paper import Paper
from workhook.work.money.invoices.rules import QTY_DECIMALS, Days, Item
from workhook.work.time.rates.terms import Rounding

NOTES_MAX_CHARS = 300
"""How much of its notes or tasks a line has: a thousand lines have to be printed."""

GroupBy = Literal["task", "person", "day"]


class InvoicedTime(Record, frozen=True):
    """A timesheet as a line is made from it. `title` is the task's, `person` the name of whose time it is."""

    id: str
    title: Annotated[str, COMPUTED]
    person: Annotated[str, COMPUTED]
    task_id: str | None
    user_id: int | None
    start_time: int
    duration_ms: int
    rate_minor: Annotated[int | None, Stored("billable_rate_minor")]
    billable: bool
    finished: bool
    invoice_id: str | None
    notes: str | None = None
    # The rate is one that the invoice's currency has too few decimals for.
    rate_lost: Annotated[bool, COMPUTED] = False

    # The zone of the studio's days; None: UTC.
    timezone: Annotated[str | None, COMPUTED] = None

    @property
    def day(self) -> str:
        """On which it started, such as `2026-11-27`."""
        return day_in(self.start_time, stored_zone(self.timezone)).isoformat()


def in_currency(time: InvoicedTime, before: str, after: str) -> InvoicedTime:
    """With the same rate in another currency: that of an invoice can be another than that of its project."""
    if time.rate_minor is None:
        return time
    rate = rescaled(time.rate_minor, before, after)
    return msgspec.structs.replace(time, rate_minor=rate or 0, rate_lost=rate is None)


def complaint(time: InvoicedTime | None, invoice_id: str | None) -> str | None:
    """Why the time cannot be on the invoice (None: a new one), or None."""
    if time is None:
        return "the project has no such timesheet"
    if time.invoice_id is not None and time.invoice_id != invoice_id:
        return "it is on another invoice"
    if not time.finished:
        return "it is not finished"
    return None if time.billable else "it is not billable"


def lines_of(
    times: Iterable[InvoicedTime],
    group_by: GroupBy | None,
    rounding: Rounding,
    language: Language = DEFAULT_LANGUAGE,
) -> list[Item]:
    """In the order of the times; those of a group stand where its first one is. Each entry is rounded by itself.
    `language`: of the invoice."""
    groups: dict[tuple[object, ...], list[InvoicedTime]] = {}
    for each in times:
        groups.setdefault((_group_of(each, group_by), each.rate_minor or 0), []).append(each)
    return [_line_of(each, group_by, rounding, Paper(language)) for each in groups.values()]


def in_language(
    items: Sequence[Item], times: Iterable[InvoicedTime], group_by: GroupBy | None, language: Language
) -> list[Item]:
    """The lines, those of time with their texts in the language of the invoice."""
    known = {each.id: each for each in times}

    def reworded(item: Item) -> Item:
        found = [known[each] for each in item.timesheet_ids if each in known]
        if not found:
            return item
        return msgspec.structs.replace(item, description=_words_of(found, group_by, Paper(language)))

    return [reworded(each) for each in items]


def with_times(
    items: Sequence[Item],
    times: Iterable[InvoicedTime],
    group_by: GroupBy | None,
    rounding: Rounding,
    language: Language = DEFAULT_LANGUAGE,
) -> list[Item]:
    """The lines that were written by hand, and behind them those of the times."""
    return [*(each for each in items if each.kind == "item"), *lines_of(times, group_by, rounding, language)]


def with_entries(
    items: Sequence[Item],
    released: Collection[str],
    added: Iterable[InvoicedTime],
    rounding: Rounding,
    language: Language = DEFAULT_LANGUAGE,
) -> list[Item]:
    """Where each entry has a line: without those of what was released, and with those of what was added. The others
    stay as they are, although the rounding may be another one now."""
    kept = (each for each in items if not set(each.timesheet_ids) & set(released))
    return [*kept, *lines_of(added, None, rounding, language)]


def _group_of(time: InvoicedTime, group_by: GroupBy | None) -> object:
    if group_by == "task":
        return time.task_id, time.title
    if group_by == "person":
        return time.user_id
    return time.day if group_by == "day" else time.id


def _line_of(times: Sequence[InvoicedTime], group_by: GroupBy | None, rounding: Rounding, paper: Paper) -> Item:
    """Of times at one rate."""
    times_ms = tuple(rounding.of(each.duration_ms) for each in times)
    hours = (Decimal(sum(times_ms)) / HOUR_MS).quantize(Decimal(1).scaleb(-QTY_DECIMALS), ROUND_HALF_UP)
    ids = tuple(each.id for each in times)
    words, rate = _words_of(times, group_by, paper), times[0].rate_minor or 0
    return Item(words, hours.normalize(), rate, ids, times_ms, days=_days_of(times))


def _days_of(times: Sequence[InvoicedTime]) -> Days:
    return min(each.day for each in times), max(each.day for each in times)


def _words_of(times: Sequence[InvoicedTime], group_by: GroupBy | None, paper: Paper) -> str:
    """What was done and when, and what was noted of it. A day names its tasks instead of notes."""
    first, span = times[0], paper.days(_days_of(times))
    if group_by == "day":
        return _with_more(span, (each.title for each in times))
    name = first.person if group_by == "person" else first.title
    return _with_more(f"{name} ({span})", (each.notes for each in times))


def _with_more(words: str, parts: Iterable[str | None]) -> str:
    more = "; ".join(dict.fromkeys(text for each in parts if (text := (each or "").strip())))
    if not more:
        return words
    return f"{words}: " + (more if len(more) <= NOTES_MAX_CHARS else more[: NOTES_MAX_CHARS - 1].rstrip() + "\u2026")
