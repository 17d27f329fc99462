"""The list of invoices: of a project, and across projects. Clients do not see drafts."""

from __future__ import annotations

from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, UnsetType

from workhook.http.lists import Found, Key
from workhook.storage import Reader, Row
from workhook.work.board.tasks.matching import matches, words_of
from workhook.work.kernel import lists
from workhook.work.kernel.lists import BY_ID, BY_USER, NEWEST_FIRST, Condition, Filter, Listing, Words, with_place
from workhook.work.kernel.schemas import RecordPlace
from workhook.work.kernel.scopes import Place, Scope, Source
from workhook.work.money.invoices.queries import invoice_of, invoices_with_people, weight
from workhook.work.money.invoices.schemas import IS_OPEN, Invoice, InvoiceList, PlacedInvoice, invoices, is_late


def _late(row: Any) -> Condition:
    """Of a row that has the name of the table, or another that is written here: the index knows it by these words."""
    is_open: Condition = sa.literal_column(f"{row.name}.{IS_OPEN}", sa.Boolean)
    return sa.and_(is_open, is_late(row))


def _whole(page: sa.CTE, scope: Scope) -> sa.Select[Any]:
    return with_place(invoices_with_people.join(page, page.c.id == invoices.c.id), page, scope)


def _make(row: Row, place: Place, _: Source) -> Invoice:
    invoice = invoice_of(row)
    if place.repository is not None:
        return invoice
    return PlacedInvoice(**msgspec.structs.asdict(invoice), project=RecordPlace(place.id, place.title))


INVOICES = Listing(
    invoices,
    _whole,
    _make,
    weight,
    {
        "status": Filter(lambda row: row.c.status == sa.bindparam("status"), indexed=True),
        "user": BY_USER,
        "late": Filter(_late, indexed=True),
        "not_late": Filter(lambda row: sa.not_(_late(row)), ["status", "overdue_at"], common=True),
    },
    Words(matches(invoices)),
    seen=lambda row, insider: sa.or_(insider, row.c.status != "draft"),
    reads=["status"],
)


async def list_invoices(
    reader: Reader, source: Source, query: InvoiceList, *, now: int, after: Key | None, newest: bool = False
) -> Found[Invoice]:
    """By id, one more than the page shows; `after` is the key behind which to start. `newest`: the last that was made
    comes first."""
    filters = INVOICES.given(query, source)
    if not isinstance(query.overdue, UnsetType):
        filters["late" if query.overdue else "not_late"] = query.overdue
    if (words := getattr(query, "q", UNSET)) is not UNSET:
        filters["q"] = words_of(words)
    order = NEWEST_FIRST if newest else BY_ID
    return await lists.read(
        reader, INVOICES, source, {**filters, "now": now}, order=order, after=after, limit=query.limit + 1
    )
