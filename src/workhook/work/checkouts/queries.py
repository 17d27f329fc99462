"""The SQL of service checkouts. Every query is confined to a project, but for those of the chore."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from workhook.http.lists import Found
from workhook.identity.queries import repository_of
from workhook.identity.tables import projects
from workhook.storage import Reader, Row, Transaction
from workhook.storage.metadata import big, insert_into
from workhook.storage.record_rows import assigned, row_reader, selected, stored_names, values_of
from workhook.work.access import with_access
from workhook.work.checkouts.rules import State
from workhook.work.checkouts.schemas import BoughtService, Checkout, service_checkout_periods, service_checkouts
from workhook.work.pages import bounded, fetch, length
from workhook.work.services.schemas import ServicePrice, prices_of_text, service_prices, services

_CHANGING = (*stored_names(State), "due_at", "unsubscribe_reason", "unsubscribed_feedback", "updated_at")
_FIXED = ("id", "repository_id", "service_id", "service_price_id", "user_id", "qty", "created_at")

_service_columns = selected(BoughtService, services, "service_")
_read_service = row_reader(BoughtService)
_parts = [
    *_service_columns,
    *selected(ServicePrice, service_prices, "price_"),
    *selected(State, service_checkouts),
    *selected(Checkout, service_checkouts),
]
_PRICE = len(_service_columns)
_STATE = _PRICE + len(stored_names(ServicePrice))
_read_price, _read_state = row_reader(ServicePrice, _PRICE), row_reader(State, _STATE)
_read = row_reader(Checkout, _STATE + len(stored_names(State)))
_alive = (
    sa.select(*_parts, services.c.prices)
    .join_from(service_checkouts, services, services.c.id == service_checkouts.c.service_id)
    .outerjoin(service_prices, service_prices.c.id == service_checkouts.c.service_price_id)
    .where(service_checkouts.c.deleted_at.is_(None))
)
_with_access = with_access(_alive, service_checkouts.c.repository_id)
by_id = _with_access.where(service_checkouts.c.id == sa.bindparam("id"))
locked = by_id.with_for_update(of=service_checkouts)
# Whoever holds the row begins the period, or ends what it is a period of.
_locked_if_due = by_id.where(service_checkouts.c.due_at <= big("now")).with_for_update(
    of=service_checkouts, skip_locked=True
)
_weight = length(service_checkouts.c.unsubscribe_reason, service_checkouts.c.unsubscribed_feedback, services.c.prices)


def _listed(*further: sa.ColumnElement[bool]) -> sa.Select[Any]:
    here = [service_checkouts.c.repository_id == big("repository_id"), service_checkouts.c.deleted_at.is_(None)]
    page = sa.select(service_checkouts.c.id, service_checkouts.c.service_id).where(*here, *further)
    first = page.order_by(service_checkouts.c.id).limit(big("limit")).subquery("first")
    listed = (
        sa.select(service_checkouts.c.id)
        .join(first, first.c.id == service_checkouts.c.id)
        .join(services, services.c.id == first.c.service_id)
        .order_by(service_checkouts.c.id)
    )
    return bounded(_with_access, listed, service_checkouts.c.id, _weight)


_in_project, _in_project_after = _listed(), _listed(service_checkouts.c.id > sa.bindparam("after"))
_by_due = (service_checkouts.c.due_at, service_checkouts.c.id)
_due = (
    sa.select(service_checkouts.c.id, service_checkouts.c.due_at)
    .join_from(service_checkouts, projects, projects.c.repository_id == service_checkouts.c.repository_id)
    .where(
        service_checkouts.c.due_at <= big("now"),
        projects.c.deleted_at.is_(None),
        service_checkouts.c.deleted_at.is_(None),
        sa.tuple_(*_by_due) > sa.tuple_(big("after_due_at"), sa.bindparam("after_id", type_=sa.Text)),
    )
    .order_by(*_by_due)
    .limit(big("limit"))
)
# A project, and a service of the account that it belongs to, if that has the service.
_there = projects.alias("there")
offered = with_access(
    sa.select(*_service_columns, services.c.prices)
    .select_from(_there)
    .outerjoin(
        services,
        sa.and_(services.c.id == sa.bindparam("service_id"), services.c.account_id == _there.c.account_id),
    )
    .where(_there.c.id == sa.bindparam("project_id")),
    _there.c.repository_id,
)
_insert = insert_into(service_checkouts, *_FIXED, *_CHANGING)
_update = (
    sa.update(service_checkouts)
    .where(service_checkouts.c.id == sa.bindparam("id"))
    .values(assigned((*_CHANGING, "deleted_at")))
)
_insert_period = insert_into(
    service_checkout_periods, "service_checkout_id", "number", "started_at", "invoice_id", "credit_id"
)


async def lock_if_due(tx: Transaction, checkout_id: str, now: int) -> Checkout | None:
    """None as well for a checkout that somebody else is at."""
    row = await tx.fetch_one(_locked_if_due, {"id": checkout_id, "user_id": 0, "now": now})
    return checkout_of(row) if row else None


async def due_checkouts(reader: Reader, now: int, after: tuple[int, str], limit: int) -> Sequence[tuple[int, str]]:
    """When the next period is due and the id, in that order, behind `after`."""
    params = {"now": now, "after_due_at": after[0], "after_id": after[1], "limit": limit}
    return [(row["due_at"], row["id"]) for row in await reader.fetch_all(_due, params)]


async def list_checkouts(
    reader: Reader, repository_id: int, user_id: int, *, after: str | None, limit: int
) -> Found[Checkout]:
    """By id, behind `after`."""
    params = {"repository_id": repository_id, "user_id": user_id, "limit": limit, "after": after}
    return await fetch(reader, _in_project if after is None else _in_project_after, params, checkout_of)


def offer_of(row: Row) -> BoughtService | None:
    """The service of a row of `offered`; None if it is not offered to the project."""
    service = _service_of(row) if row["service_id"] is not None else None
    return service if service and service.offered else None


async def insert_checkout(tx: Transaction, checkout: Checkout, user_id: int) -> None:
    owners = {
        "repository_id": checkout.repository.id,
        "service_id": checkout.service.id,
        "service_price_id": checkout.price.id if checkout.price else None,
        "user_id": user_id,
    }
    await tx.execute(_insert, {**_values(checkout), **owners})


async def update_checkout(tx: Transaction, checkout: Checkout, *, deleted_at: int | None = None) -> None:
    """`deleted_at`: its row stays, out of everybody's sight, for its invoices."""
    await tx.execute(_update, {**_values(checkout), "deleted_at": deleted_at})


async def insert_period(
    tx: Transaction, checkout_id: str, number: int, *, started_at: int, invoice_id: str | None, credit_id: str | None
) -> None:
    """Raises `UniqueViolation` for a period that began before."""
    params = {"service_checkout_id": checkout_id, "number": number, "started_at": started_at}
    await tx.execute(_insert_period, {**params, "invoice_id": invoice_id, "credit_id": credit_id})


def checkout_of(row: Row) -> Checkout:
    return _read(
        row,
        repository=repository_of(row, 0, "project_"),
        service=_service_of(row),
        price=_read_price(row) if row["price_id"] is not None else None,
        state=_read_state(row),
    )


def _service_of(row: Row) -> BoughtService:
    return _read_service(row, prices=prices_of_text(row["prices"]))


def _values(checkout: Checkout) -> dict[str, object]:
    return {**values_of(checkout), **values_of(checkout.state), "due_at": checkout.state.due_at}
