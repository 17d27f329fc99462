"""The SQL of service checkouts. Every query is confined to a project, but for those of the chore."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from workhook.http.lists import Found
from workhook.identity.queries import repository_of
from workhook.identity.tables import projects
from workhook.storage import Reader, Row, Transaction
from workhook.storage.metadata import big, insert_into
from workhook.work.access import with_access
from workhook.work.checkouts.rules import State, Terms
from workhook.work.checkouts.schemas import BoughtService, Checkout, service_checkout_periods, service_checkouts
from workhook.work.pages import bounded, fetch, length
from workhook.work.services.schemas import ServicePrice, prices_of_text, service_prices, services

_STATE = State.__struct_fields__
_CHANGING = (*_STATE, "due_at", "unsubscribe_reason", "unsubscribed_feedback", "updated_at")
_SERVICE = ("id", "title", "active", "deleted_at", "prices", "disable_quantity")
_TERMS = ("disable_pause", "limit_pausing", "minimum_months", "cancel_at_period_end")


def _service_columns() -> list[sa.Label[Any]]:
    return [services.c[name].label("service_" + name) for name in (*_SERVICE, *_TERMS)]


_alive = (
    sa.select(
        service_checkouts,
        *_service_columns(),
        *(service_prices.c[name].label("price_" + name) for name in ServicePrice.__struct_fields__),
    )
    .join_from(service_checkouts, services, services.c.id == service_checkouts.c.service_id)
    .outerjoin(service_prices, service_prices.c.id == service_checkouts.c.service_price_id)
    .where(service_checkouts.c.deleted_at.is_(None))
)
_with_access = with_access(_alive, service_checkouts.c.repository_id)
_one = _with_access.where(service_checkouts.c.id == sa.bindparam("id"))
_locked = _one.with_for_update(of=service_checkouts)
# Whoever holds the row begins the period, or ends what it is a period of.
_locked_if_due = _one.where(service_checkouts.c.due_at <= big("now")).with_for_update(
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
_due = (
    sa.select(service_checkouts.c.id, service_checkouts.c.due_at)
    .join_from(service_checkouts, projects, projects.c.repository_id == service_checkouts.c.repository_id)
    .where(
        service_checkouts.c.due_at <= big("now"),
        projects.c.deleted_at.is_(None),
        service_checkouts.c.deleted_at.is_(None),
        sa.or_(
            service_checkouts.c.due_at > big("after_due_at"),
            sa.and_(
                service_checkouts.c.due_at == big("after_due_at"), service_checkouts.c.id > sa.bindparam("after_id")
            ),
        ),
    )
    .order_by(service_checkouts.c.due_at, service_checkouts.c.id)
    .limit(big("limit"))
)
# A project, and a service of the account that it belongs to, if that has the service.
_there = projects.alias("there")
_offered = with_access(
    sa.select(*_service_columns())
    .select_from(_there)
    .outerjoin(
        services,
        sa.and_(services.c.id == sa.bindparam("service_id"), services.c.account_id == _there.c.account_id),
    )
    .where(_there.c.id == sa.bindparam("project_id")),
    _there.c.repository_id,
)
_insert = insert_into(
    service_checkouts,
    "id", "repository_id", "service_id", "service_price_id", "user_id", "qty", *_CHANGING, "created_at",
)  # fmt: skip
_update = (
    sa.update(service_checkouts)
    .where(service_checkouts.c.id == sa.bindparam("id"))
    .values({name: sa.bindparam(name) for name in (*_CHANGING, "deleted_at")})
)
_insert_period = insert_into(
    service_checkout_periods, "service_checkout_id", "number", "started_at", "invoice_id", "credit_id"
)


async def find_checkout(reader: Reader, checkout_id: str, user_id: int) -> Row | None:
    """For `access_of` and `checkout_of`."""
    return await reader.fetch_one(_one, {"id": checkout_id, "user_id": user_id})


async def lock_checkout(tx: Transaction, checkout_id: str, user_id: int) -> Row | None:
    """`find_checkout`; until the transaction ends nobody else changes it, and no period of it begins."""
    return await tx.fetch_one(_locked, {"id": checkout_id, "user_id": user_id})


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


async def find_offer(reader: Reader, project_id: str, service_id: str, user_id: int) -> Row | None:
    """For `access_of` to the project, and for `offer_of`."""
    params = {"project_id": project_id, "service_id": service_id, "user_id": user_id}
    return await reader.fetch_one(_offered, params)


def offer_of(row: Row) -> tuple[BoughtService, Terms] | None:
    """The service and its terms, without a price; None if it is not offered to the project."""
    if row["service_id"] is None:
        return None
    service = _bought(row)
    return (service, _terms(row, None)) if service.offered else None


async def insert_checkout(tx: Transaction, checkout: Checkout, user_id: int) -> None:
    values = {
        "id": checkout.id,
        "repository_id": checkout.repository.id,
        "service_id": checkout.service.id,
        "service_price_id": checkout.price.id if checkout.price else None,
        "user_id": user_id,
        "qty": checkout.qty,
        "created_at": checkout.created_at,
    }
    await tx.execute(_insert, {**values, **_changing(checkout)})


async def update_checkout(tx: Transaction, checkout: Checkout, *, deleted_at: int | None = None) -> None:
    """`deleted_at`: its row stays, out of everybody's sight, for its invoices."""
    await tx.execute(_update, {**_changing(checkout), "id": checkout.id, "deleted_at": deleted_at})


async def insert_period(
    tx: Transaction, checkout_id: str, number: int, *, started_at: int, invoice_id: str | None, credit_id: str | None
) -> None:
    """Raises `UniqueViolation` for a period that began before."""
    params = {"service_checkout_id": checkout_id, "number": number, "started_at": started_at}
    await tx.execute(_insert_period, {**params, "invoice_id": invoice_id, "credit_id": credit_id})


def checkout_of(row: Row) -> Checkout:
    price = None
    if row["price_id"] is not None:
        price = ServicePrice(*(row["price_" + name] for name in ServicePrice.__struct_fields__))
    return Checkout(
        id=row["id"],
        repository=repository_of(row, 0, "project_"),
        service=_bought(row),
        terms=_terms(row, price),
        price=price,
        qty=row["qty"],
        state=State(*(row[name] for name in _STATE)),
        unsubscribe_reason=row["unsubscribe_reason"],
        unsubscribed_feedback=row["unsubscribed_feedback"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def _changing(checkout: Checkout) -> dict[str, object]:
    return {
        **msgspec.structs.asdict(checkout.state),
        "due_at": checkout.state.due_at,
        "unsubscribe_reason": checkout.unsubscribe_reason,
        "unsubscribed_feedback": checkout.unsubscribed_feedback,
        "updated_at": checkout.updated_at,
    }


def _bought(row: Row) -> BoughtService:
    return BoughtService(
        id=row["service_id"],
        title=row["service_title"],
        offered=bool(row["service_active"]) and row["service_deleted_at"] is None,
        disable_quantity=bool(row["service_disable_quantity"]),
        prices=prices_of_text(row["service_prices"]),
    )


def _terms(row: Row, price: ServicePrice | None) -> Terms:
    return Terms(
        interval=price.interval if price else None,
        disable_pause=bool(row["service_disable_pause"]),
        limit_pausing=row["service_limit_pausing"],
        minimum_months=row["service_minimum_months"],
        cancel_at_period_end=bool(row["service_cancel_at_period_end"]),
    )
