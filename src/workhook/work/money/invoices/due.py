"""What is asked to be paid: the invoices of projects in which somebody is a client and nothing else, and the sums of a
project."""

from __future__ import annotations

from datetime import date

import msgspec
import sqlalchemy as sa

from workhook.identity.queries import repository_of
from workhook.identity.schemas import Account, Repository
from workhook.storage import Reader
from workhook.storage.metadata import big
from workhook.work.kernel.access import Access, is_insider, with_access
from workhook.work.kernel.tables import clients
from workhook.work.money.invoices.days import due_day
from workhook.work.money.invoices.drafting import is_open
from workhook.work.money.invoices.schemas import invoices

OPEN_MAX = 1000


class DueInvoice(msgspec.Struct, frozen=True):
    """`amount_due_minor`: what is still to be paid, in the currency's minor units. `due`: milliseconds since the epoch,
    or None; `day`: the day that this is to who bills; `overdue_at`: when it is over there."""

    id: str
    invoice_number: str
    status: str
    amount_due_minor: int
    currency: str
    due: int | None
    overdue_at: int | None
    day: date | None
    repository: Repository


_amount_due = (
    invoices.c.total_minor - sa.func.coalesce(invoices.c.credited_minor, 0) - sa.func.coalesce(invoices.c.paid_minor, 0)
)
_SHOWN = ("id", "invoice_number", "status", "currency", "due", "overdue_at")
_person = big("user_id")
_mine = clients.alias("mine")
_open = (
    with_access(
        sa.select(
            *(invoices.c[name].label(f"invoice_{name}") for name in (*_SHOWN, "seller")),
            _amount_due.label("amount_due_minor"),
        )
        .select_from(_mine.join(invoices, invoices.c.repository_id == _mine.c.repository_id))
        .where(_mine.c.user_id == _person, is_open),
        invoices.c.repository_id,
    )
    .where(sa.not_(is_insider(_person)))
    .order_by(invoices.c.due.is_(None), invoices.c.due, invoices.c.id)
    .limit(big("limit"))
)


_newest_open = (
    sa.select(invoices.c.currency, _amount_due.label("amount_due_minor"))
    .where(invoices.c.repository_id == big("repository_id"), is_open)
    .order_by(invoices.c.id.desc())
    .limit(big("limit"))
    .subquery("newest_open")
)
_sums = (
    sa.select(
        _newest_open.c.currency,
        sa.func.count().label("number"),
        sa.cast(sa.func.sum(_newest_open.c.amount_due_minor), sa.BigInteger).label("amount_due_minor"),
    )
    .group_by(_newest_open.c.currency)
    .order_by(_newest_open.c.currency)
)


async def open_sums(reader: Reader, access: Access) -> dict[str, int]:
    """What is still to be paid in a project, by currency, in minor units; empty where that is more invoices than
    are looked at. Everybody in the project sees what was issued."""
    params = {"repository_id": access.repository.id, "limit": OPEN_MAX + 1}
    rows = await reader.fetch_all(_sums, params)
    if sum(row["number"] for row in rows) > OPEN_MAX:
        return {}
    return {row["currency"]: row["amount_due_minor"] for row in rows}


async def list_due(reader: Reader, user: Account, limit: int) -> list[DueInvoice]:
    """What is due first comes first, and what has no date last. A draft is nobody's to pay."""
    rows = await reader.fetch_all(_open, {"user_id": user.id, "limit": limit})
    return [
        DueInvoice(
            **{name: row[f"invoice_{name}"] for name in _SHOWN},
            amount_due_minor=row["amount_due_minor"],
            day=due_day(row["invoice_due"], row["invoice_seller"]),
            repository=repository_of(row, user.id, "project_"),
        )
        for row in rows
    ]
