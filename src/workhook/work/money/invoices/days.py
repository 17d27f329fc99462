"""The days of an invoice: those of the zone of who bills. Of a draft as the settings say now, fixed when it is sent.
Pure."""

from __future__ import annotations

from datetime import date, tzinfo
from typing import NamedTuple

from workhook.core.zones import day_in, end_of, written_day
from workhook.work.kernel.settings import Seller, seller_of
from workhook.work.money.invoices.schemas import Invoice


class InvoiceDays(NamedTuple):
    """None: there is no such day yet."""

    issued: date | None
    due: date | None
    paid: date | None


def zone_of_seller(text: str | None) -> tzinfo:
    """Of a column. UTC of a draft, and where no zone is set."""
    return (seller_of(text) if text else Seller()).zone


def zone_of_invoice(invoice: Invoice) -> tzinfo:
    return zone_of_seller(invoice.seller_shown)


def due_day(at_ms: int | None, seller: str | None) -> date | None:
    return None if at_ms is None else written_day(at_ms, zone_of_seller(seller))


def overdue_at(invoice: Invoice) -> int | None:
    """When an issued invoice is overdue unless it is settled before; None of a draft, and without `due`."""
    return None if invoice.seller is None or invoice.due is None else end_of(invoice.due, zone_of_invoice(invoice))


def days_of(invoice: Invoice) -> InvoiceDays:
    """What is due or paid can be a day that somebody has written, which is the same in every zone."""
    zone = zone_of_invoice(invoice)
    return InvoiceDays(
        None if invoice.issued is None else day_in(invoice.issued, zone),
        due_day(invoice.due, invoice.seller_shown),
        None if invoice.paid_at is None else written_day(invoice.paid_at, zone),
    )
