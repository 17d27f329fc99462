"""The parts of an invoice as JSON shows them, made from the texts of its columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from workhook.core.clock import to_millis_text
from workhook.core.money import to_amount
from workhook.core.records import MOMENT, EventSchema, JsonForm
from workhook.work.kernel.settings import Category, percent_to_response, to_number
from workhook.work.money.invoices import rules
from workhook.work.money.invoices.rules import Item, rows_of

_NUMBER = EventSchema({"type": "number"})


_MAYBE_PERCENT = EventSchema({"type": "number", "description": "percent"}, optional=True)
_MAYBE = EventSchema(optional=True)


class InvoiceItemShape(msgspec.Struct, omit_defaults=True):
    """A line. What it does not say of discount and tax is not shown."""

    kind: Annotated[
        Literal["item", "time", "service"],
        Meta(description="Written by hand, made of time, or of a service checkout."),
        EventSchema({"description": "written by hand, made of time, or of a service checkout"}),
    ]
    description: str
    qty: Annotated[int | float, _NUMBER]
    unit_price: int | float
    timesheet_ids: Annotated[
        list[str],
        Meta(description="Whose time it is."),
        EventSchema({"description": "whose time it is"}),
    ]
    discount: Annotated[int | float | None, _MAYBE_PERCENT] = None
    discount_amount: Annotated[int | float | None, _MAYBE] = None
    tax: Annotated[int | float | None, _MAYBE_PERCENT] = None
    tax_category: Annotated[Category | None, _MAYBE] = None
    service_from: Annotated[
        str | None,
        Meta(description="First day of the time or the period; lines by hand have none."),
        EventSchema({"type": "string", "format": "date"}, optional=True),
    ] = None
    service_to: Annotated[str | None, EventSchema({"type": "string", "format": "date"}, optional=True)] = None


def _items_to_response(text: str, currency: str) -> list[InvoiceItemShape]:
    return [_item_to_response(each, each.kind, currency) for each in rules.items_of(text)]


def _recurring_to_response(text: str, currency: str) -> list[InvoiceItemShape]:
    return [_item_to_response(each, "service", currency) for each in rules.items_of(text)]


def _item_to_response(each: Item, kind: Literal["item", "time", "service"], currency: str) -> InvoiceItemShape:
    return InvoiceItemShape(
        kind,
        each.description,
        to_number(each.qty),
        to_amount(each.unit_price_minor, currency),
        list(each.timesheet_ids),
        None if each.discount_millionths is None else percent_to_response(each.discount_millionths),
        None if each.discount_minor is None else to_amount(each.discount_minor, currency),
        None if each.tax_millionths is None else percent_to_response(each.tax_millionths),
        each.tax_category,
        *(each.days or (None, None)),
    )


ItemsText = Annotated[str, JsonForm(list[InvoiceItemShape], _items_to_response, beside="currency")]
RecurringText = Annotated[str, JsonForm(list[InvoiceItemShape], _recurring_to_response, beside="currency")]


class TaxShape(msgspec.Struct):
    """The tax of one rate and category, and what it is of."""

    percent: Annotated[int | float, _NUMBER]
    category: Category
    base: int | float
    tax: int | float


def _taxes_to_response(text: str, currency: str) -> list[TaxShape]:
    return [
        TaxShape(
            percent_to_response(each.millionths),
            each.category,
            to_amount(each.base, currency),
            to_amount(each.tax, currency),
        )
        for each in rows_of(text)
    ]


TaxesText = Annotated[str, JsonForm(list[TaxShape], _taxes_to_response, beside="currency")]


class BookedShape(msgspec.Struct):
    """A payment, a refund (its amount is negative), or a credit note."""

    id: str
    amount: int | float
    date: Annotated[str, MOMENT]


class Booked(msgspec.Struct, frozen=True, array_like=True):
    """A payment, a refund or a credit note as the row of its invoice has it: `[id, minor units, milliseconds]`."""

    id: str
    amount_minor: int
    at_ms: int


def booked_of(text: str | None) -> list[Booked]:
    """Of a column; null stands for none."""
    return msgspec.json.decode(text, type=list[Booked]) if text else []


def booked_text(booked: Iterable[Booked]) -> str:
    return msgspec.json.encode(list(booked)).decode()


def _booked_to_response(text: str, currency: str) -> list[BookedShape]:
    return [BookedShape(e.id, to_amount(e.amount_minor, currency), to_millis_text(e.at_ms)) for e in booked_of(text)]


BookedText = Annotated[str, JsonForm(list[BookedShape], _booked_to_response, beside="currency")]
