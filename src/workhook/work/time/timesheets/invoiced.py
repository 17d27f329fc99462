"""Refuse changes of a timesheet that an invoice bills, and name that invoice."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa

from workhook.core.errors import Conflict
from workhook.storage import Reader
from workhook.work.money.invoices.schemas import invoices

_invoice = sa.select(invoices.c.invoice_number, invoices.c.status).where(invoices.c.id == sa.bindparam("invoice_id"))


async def find_conflict(reader: Reader, invoice_id: str, verb: Literal["changed", "deleted"]) -> Conflict:
    """Return the refusal, which states how to free the timesheet in the state of its invoice."""
    row = await reader.fetch_one(_invoice, {"invoice_id": invoice_id})
    name = (row and row["invoice_number"]) or invoice_id
    if row and row["status"] == "draft":
        message = f"The timesheet is on the draft invoice {name}; remove it there first, then it can be {verb}."
    else:
        message = f"The timesheet is on invoice {name}; void or credit that first, then it can be {verb}."
    return Conflict(message, code="invoiced")
