"""Invoice lines made of time: one per entry, or one per group and rate. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Annotated, Literal

import msgspec

from workhook.core.clock import HOUR_MS
from workhook.core.money import convert_minor
from workhook.core.records import NOT_STORED, Record, Stored
from workhook.core.zones import day_in, zone_or_utc
from workhook.work.kernel.billing_settings import DEFAULT_LANGUAGE, Language
from workhook.work.money.invoices.paper import DocumentLocale
from workhook.work.money.invoices.rules import QTY_DECIMALS, Days, Item
from workhook.work.time.rates import Rounding

NOTES_MAX_CHARS = 300
"""The limit for the notes or tasks in a line; a thousand lines must be printable."""

GroupBy = Literal["task", "person", "day"]


class InvoicedTime(Record, frozen=True):
    """A timesheet on an invoice. `title` is that of its task, and `person` is the name of its user."""

    id: str
    title: Annotated[str, NOT_STORED]
    person: Annotated[str, NOT_STORED]
    task_id: str | None
    user_id: int | None
    start_time: int
    duration_ms: int
    rate_minor: Annotated[int | None, Stored("billable_rate_minor")]
    billable: bool
    finished: bool
    invoice_id: str | None
    notes: str | None = None
    # The invoice's currency has too few decimal places for the rate.
    rate_lost: Annotated[bool, NOT_STORED] = False

    # The seller's time zone; None means UTC.
    timezone: Annotated[str | None, NOT_STORED] = None

    @property
    def day(self) -> str:
        """The day on which it started, as an ISO date."""
        return day_in(self.start_time, zone_or_utc(self.timezone)).isoformat()


def in_currency(time: InvoicedTime, before: str, after: str) -> InvoicedTime:
    """Return the time with an equal rate in another currency. An invoice's currency can differ from its project's."""
    if time.rate_minor is None:
        return time
    rate = convert_minor(time.rate_minor, before, after)
    return msgspec.structs.replace(time, rate_minor=rate or 0, rate_lost=rate is None)


def complaint(time: InvoicedTime | None, invoice_id: str | None) -> str | None:
    """Return why the time cannot be on the invoice (None for a new one), or None if it can."""
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
    """Return the lines in the order of the times, with a group at the place of its first entry.

    Each entry is rounded individually. `language` is that of the invoice.
    """
    groups: dict[tuple[object, int], list[InvoicedTime]] = {}
    for each in times:
        groups.setdefault((_group_of(each, group_by), each.rate_minor or 0), []).append(each)
    lines = []
    for (_, rate), group in groups.items():
        times_ms = tuple(rounding.of(each.duration_ms) for each in group)
        hours = (Decimal(sum(times_ms)) / HOUR_MS).quantize(Decimal(1).scaleb(-QTY_DECIMALS), ROUND_HALF_UP)
        ids, words = tuple(each.id for each in group), _words_of(group, group_by, DocumentLocale(language))
        lines.append(Item(words, hours.normalize(), rate, ids, times_ms, days=_days_of(group)))
    return lines


def in_language(
    items: Sequence[Item], times: Iterable[InvoicedTime], group_by: GroupBy | None, language: Language
) -> list[Item]:
    """Return the lines, with the texts of time lines translated into the language of the invoice."""
    known, reworded = {each.id: each for each in times}, list[Item]()
    for item in items:
        found = [known[each] for each in item.timesheet_ids if each in known]
        words = _words_of(found, group_by, DocumentLocale(language)) if found else item.description
        reworded.append(msgspec.structs.replace(item, description=words))
    return reworded


def _group_of(time: InvoicedTime, group_by: GroupBy | None) -> object:
    if group_by == "task":
        return time.task_id, time.title
    if group_by == "person":
        return time.user_id
    return time.day if group_by == "day" else time.id


def _days_of(times: Sequence[InvoicedTime]) -> Days:
    return min(each.day for each in times), max(each.day for each in times)


def _words_of(times: Sequence[InvoicedTime], group_by: GroupBy | None, paper: DocumentLocale) -> str:
    """Return the description: the task or person with the days, then the notes; a day lists its tasks instead."""
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
