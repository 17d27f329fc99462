"""What time comes to on an invoice, where it is rounded, beside what was worked: by the lines that are made of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from workhook.storage import Reader
from workhook.work.kernel.access import Access
from workhook.work.money.invoices import drafting, presets, rules, time_lines
from workhook.work.money.invoices.rules import Item
from workhook.work.money.invoices.schemas import Invoice
from workhook.work.money.invoices.time_lines import InvoicedTime
from workhook.work.time.rates.terms import Rounding, find_rounding


class TimeOnInvoice(msgspec.Struct, frozen=True):
    """`worked_ms`: what was spent; `duration_ms` and `amount_minor`: what the lines have of it, before tax and the
    discount of the whole. `rounding`: how each entry was rounded; None: as settings said that are others now."""

    worked_ms: int
    duration_ms: int
    amount_minor: int
    currency: str
    rounding: Rounding | None


async def foresee(reader: Reader, access: Access, timesheet_ids: Sequence[str], rounding: Rounding) -> TimeOnInvoice:
    """What a new invoice would have, a line for each of these finished timesheets of the project."""
    currency, found = await asyncio.gather(
        presets.find_currency(reader, access), drafting.find_times(reader, access.repository.id, timesheet_ids)
    )
    times = [time_lines.in_currency(each, access.repository.currency, currency) for each in found]
    return _of(times, time_lines.lines_of(times, None, rounding), currency, rounding)


async def find_rounded(reader: Reader, repository_id: int, invoice: Invoice) -> TimeOnInvoice | None:
    """Of a draft; None where no time is rounded, or there is none."""
    lines = [each for each in rules.items_of(invoice.items) if each.kind == "time"]
    if not lines:
        return None
    rounding, times = await asyncio.gather(
        find_rounding(reader, repository_id), drafting.find_times(reader, repository_id, [], invoice.id)
    )
    found = _of(times, lines, invoice.currency, rounding)
    again = time_lines.lines_of(times, invoice.group_by, rounding)
    if sorted(each.duration_ms or 0 for each in lines) == sorted(each.duration_ms or 0 for each in again):
        return found if rounding.minutes else None
    # A line that was made before the settings were others stays as it is.
    return None if found.duration_ms == found.worked_ms else msgspec.structs.replace(found, rounding=None)


def _of(
    times: Sequence[InvoicedTime], lines: Sequence[Item], currency: str, rounding: Rounding | None
) -> TimeOnInvoice:
    return TimeOnInvoice(
        sum(each.duration_ms for each in times),
        sum(each.duration_ms or 0 for each in lines),
        sum(each.amount_minor for each in lines),
        currency,
        rounding,
    )
