"""Amounts, numbers and states of invoices: pure functions.

An item's amount is quantity times unit price (of a timesheet: its exact time, times the rate), rounded half up to a
minor unit; an invoice's is the sum of those, so that whoever adds up the lines gets it. The tax is a part of the sum,
rounded half up once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Annotated

import msgspec

from workhook.core import json
from workhook.core.clock import HOUR_MS, to_millis_text
from workhook.core.records import COMPUTED, Record, Stored
from workhook.work.timesheets.rules import amount_minor as worth_of

DEFAULT_CURRENCY = "USD"
QTY_DECIMALS = 6
QTY_MAX = 999_999_999
TAX_DECIMALS = 4
NUMBER_MAX_CHARS = 64
PRINTED_MAX_CHARS = 100_000
"""The longest that an invoice's texts may be, all together. The worst text of that length (each character of another
script) takes 5 s to print on the machine where it was measured; 1,000 lines of 100 letters take 1 s."""
NOTES_MAX_CHARS = 300
"""How much of the notes of a timesheet its line has: a thousand lines have to be printed."""

_MILLION = 10**6


class Item(msgspec.Struct, frozen=True):
    """A line of an invoice. `qty` has at most six decimals.

    `timesheet_id`: whose time it is; `duration_ms` is that time then, which hours of six decimals are not exactly.
    """

    description: str
    qty: Decimal
    unit_price_minor: int
    timesheet_id: str | None = None
    duration_ms: int | None = None

    @property
    def amount_minor(self) -> int:
        if self.duration_ms is not None:
            return worth_of(self.duration_ms, self.unit_price_minor)
        return _half_up(int(self.qty * _MILLION) * self.unit_price_minor)


def items_text(items: Iterable[Item]) -> str:
    """As the columns hold them."""
    rows = [(e.description, f"{e.qty:f}", e.unit_price_minor, e.timesheet_id, e.duration_ms) for e in items]
    return json.encode_text(rows)


def items_of(text: str) -> tuple[Item, ...]:
    return tuple(Item(each[0], Decimal(each[1]), *each[2:]) for each in json.decode(text))


def amount_minor(items: Iterable[Item]) -> int:
    """Before tax."""
    return sum(each.amount_minor for each in items)


def tax_minor(amount: int, tax_millionths: int | None) -> int:
    return _half_up(amount * (tax_millionths or 0))


def printed_chars(texts: Iterable[str | None], items: Iterable[Item]) -> int:
    """How much there is to lay out. A line counts its description alone: its numbers are short."""
    return sum(len(each) for each in texts if each) + sum(len(each.description) for each in items)


def number_text(number: int) -> str:
    """`INV-00001`."""
    return f"INV-{number:05d}"


def read_qty(raw: object) -> Decimal:
    """Of a parameter. Raises `ValueError` that says what it has to be."""
    wanted = f"a number of more than 0 and at most {QTY_MAX}, with at most six decimals"
    qty = _decimal(raw, wanted)
    if not 0 < qty <= QTY_MAX or qty != round(qty, QTY_DECIMALS):
        raise ValueError(wanted)
    return qty.normalize()


def read_percent(raw: object) -> int:
    """Millionths of a parameter. Raises `ValueError` that says what it has to be."""
    wanted = "a number from 0 to 100 with at most four decimals"
    percent = _decimal(raw, wanted)
    if not 0 <= percent <= 100 or percent != round(percent, TAX_DECIMALS):
        raise ValueError(wanted)
    return int(percent * 10_000)


def read_number(raw: object) -> str:
    """Text of a parameter; a JSON number becomes its digits. Raises `ValueError` that says what it has to be."""
    wanted = f"a number, or text of 1 to {NUMBER_MAX_CHARS} characters"
    if isinstance(raw, bool) or not isinstance(raw, (str, int, float)):
        raise ValueError(wanted)
    if not isinstance(raw, str) and not abs(raw) < 10**15:  # nor is what is no number; an integer may be of any size
        raise ValueError(wanted)
    text = raw.strip() if isinstance(raw, str) else f"{Decimal(str(raw)):f}".removesuffix(".0")
    if not 1 <= len(text) <= NUMBER_MAX_CHARS or not text.isprintable():
        raise ValueError(wanted)
    return text


def _decimal(raw: object, wanted: str) -> Decimal:
    if isinstance(raw, bool) or not isinstance(raw, (int, float, str)):
        raise ValueError(wanted)
    try:
        text = str(raw).strip()
        found = Decimal(text)
    except (InvalidOperation, ValueError):  # the latter: an integer of thousands of digits
        raise ValueError(wanted) from None
    if len(text) > 40:
        raise ValueError(wanted)
    if not found.is_finite() or abs(found.adjusted()) > 20:
        raise ValueError(wanted)
    return found


class InvoicedTime(Record, frozen=True):
    """A timesheet as an item of an invoice is made from it. `title` is the task's."""

    id: str
    title: Annotated[str, COMPUTED]
    start_time: int
    duration_ms: int
    rate_minor: Annotated[int | None, Stored("billable_rate_minor")]
    billable: bool
    finished: bool
    invoice_id: str | None
    notes: str | None = None


def complaint(time: InvoicedTime | None, invoice_id: str | None) -> str | None:
    """Why the time cannot be on the invoice (None: a new one), or None."""
    if time is None:
        return "the project has no such timesheet"
    if time.invoice_id is not None and time.invoice_id != invoice_id:
        return "it is on another invoice"
    if not time.finished:
        return "it is not finished"
    return None if time.billable else "it is not billable"


def item_of(time: InvoicedTime) -> Item:
    """Its hours at its rate, and what was noted. One without a rate costs nothing until somebody says what it costs."""
    hours = (Decimal(time.duration_ms) / HOUR_MS).quantize(Decimal(1).scaleb(-QTY_DECIMALS), ROUND_HALF_UP)
    description = f"{time.title} ({to_millis_text(time.start_time)[:10]})"
    if notes := (time.notes or "").strip():
        is_short = len(notes) <= NOTES_MAX_CHARS
        description += ": " + (notes if is_short else notes[: NOTES_MAX_CHARS - 1].rstrip() + "\u2026")
    return Item(description, hours.normalize(), time.rate_minor or 0, time.id, time.duration_ms)


def replaced(items: Sequence[Item], given: Iterable[Item]) -> list[Item]:
    """`given`, of which those that are like an item that was there before go on being of its timesheet."""
    known: dict[tuple[str, Decimal, int], list[Item]] = {}
    for each in items:
        known.setdefault(_looks(each), []).append(each)
    return [same.pop(0) if (same := known.get(_looks(each))) else each for each in given]


def _looks(item: Item) -> tuple[str, Decimal, int]:
    return item.description, item.qty, item.unit_price_minor


def with_times(items: Sequence[Item], released: Iterable[str], added: Iterable[InvoicedTime]) -> list[Item]:
    """Without the items of timesheets that were `released`, and with those of timesheets that were `added`."""
    gone = set(released)
    return [*(each for each in items if each.timesheet_id not in gone), *map(item_of, added)]


def _half_up(millionths: int) -> int:
    """Of an amount that is not negative."""
    return (millionths + _MILLION // 2) // _MILLION
