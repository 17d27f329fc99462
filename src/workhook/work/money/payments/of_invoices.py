"""Statements over what is booked on invoices: payments and credit notes are found in the same way."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import sqlalchemy as sa

from workhook.core.records import Record
from workhook.http.lists import Found
from workhook.identity.tables import accounts
from workhook.storage import Reader, Row
from workhook.storage.metadata import big
from workhook.storage.record_rows import row_reader, selected
from workhook.work.kernel.access import with_access
from workhook.work.kernel.people import membership_of, person_columns, person_of_row
from workhook.work.money.invoices.schemas import invoices
from workhook.work.money.payments.schemas import BookedOn

R = TypeVar("R", bound=Record)
_people = accounts.alias("people")


class OfInvoices(Generic[R]):
    """`table` holds the record. It has an invoice, a user who may be nobody, and a position within the invoice.
    `of_invoice`: fields that come from the row of the invoice."""

    def __init__(self, record: type[R], table: sa.Table, **of_invoice: sa.ColumnElement[Any]) -> None:
        every = (
            sa.select(
                *selected(record, table),
                *person_columns(membership_of(table.c.repository_id, _people), _people),
                table.c.invoice_id,
                invoices.c.invoice_number,
                *(column.label(f"invoice_{name}") for name, column in of_invoice.items()),
            )
            .join_from(table, invoices, invoices.c.id == table.c.invoice_id)
            .outerjoin(_people, _people.c.id == table.c.user_id)
        )
        of_one = every.where(table.c.invoice_id == sa.bindparam("invoice_id")).order_by(table.c.position)
        self.by_id = with_access(every.where(table.c.id == sa.bindparam("id")), table.c.repository_id)
        self.page = of_one.limit(big("limit"))
        self.page_after = of_one.where(table.c.position > big("after")).limit(big("limit"))
        self._read, self._of_invoice = row_reader(record), tuple(of_invoice)

    def of_row(self, row: Row) -> R:
        user = person_of_row(row) if row["user_id"] is not None else None
        more = {name: row[f"invoice_{name}"] for name in self._of_invoice}
        return self._read(row, invoice=BookedOn(row["invoice_id"], row["invoice_number"]), user=user, **more)

    async def listed(self, reader: Reader, invoice_id: str, *, after: int | None, limit: int) -> Found[R]:
        """By position, behind `after`: the newest is the last."""
        params: dict[str, Any] = {"invoice_id": invoice_id, "limit": limit}
        if after is not None:
            params["after"] = after
        rows = await reader.fetch_all(self.page if after is None else self.page_after, params)
        return Found(map(self.of_row, rows), cut=False)
