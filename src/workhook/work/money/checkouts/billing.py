"""Service checkouts in the database, and how their periods begin: each with its invoice, its credits and the row that
says so, in one transaction.

A chore begins the periods that are due: each once, whoever is at it and however long nobody was. Every query is
confined to a project, but for those of the chore.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

import sqlalchemy as sa
import structlog
from msgspec.structs import replace
from prometheus_client import Counter

from workhook.core.zones import day_in
from workhook.http.calls import Services
from workhook.http.lists import Found
from workhook.identity.context import Write
from workhook.identity.queries import repository_of
from workhook.identity.removal import Loss
from workhook.identity.tables import projects
from workhook.storage import Reader, Row, Transaction
from workhook.storage.metadata import big, insert_into
from workhook.storage.record_rows import assigned, row_reader, selected, stored_names, values_of
from workhook.storage.sweeping import concerns_all
from workhook.work.kernel.access import with_access
from workhook.work.kernel.pages import bounded, fetch, length
from workhook.work.kernel.record_events import publish_event
from workhook.work.kernel.settings.parties import DEFAULT_LANGUAGE
from workhook.work.kernel.settings.schemas import account_billing, project_billing
from workhook.work.money.checkouts import billing, rules
from workhook.work.money.checkouts.rules import State
from workhook.work.money.checkouts.schemas import (
    BoughtService,
    Checkout,
    checkout_to_response,
    service_checkout_periods,
    service_checkouts,
)
from workhook.work.money.credits import ledger
from workhook.work.money.invoices import drafting
from workhook.work.money.invoices.changing import lock_project, tell_of_invoice
from workhook.work.money.invoices.paper import Paper
from workhook.work.money.invoices.rules import Days, Item
from workhook.work.money.services.schemas import ServicePrice, prices_of_text, service_prices, services

EVERY_S = 20.0
BATCH = 200

TROUBLE = Counter(
    "workhook_checkout_periods_failed_total", "Periods of subscriptions that could not begin and are tried again."
)

log = structlog.get_logger(__name__)

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
    sa.select(
        *_parts,
        services.c.prices,
        account_billing.c.timezone,
        sa.func.coalesce(project_billing.c.language, account_billing.c.language).label("language"),
    )
    .join_from(service_checkouts, services, services.c.id == service_checkouts.c.service_id)
    .outerjoin(account_billing, account_billing.c.account_id == services.c.account_id)
    .outerjoin(project_billing, project_billing.c.repository_id == service_checkouts.c.repository_id)
    .outerjoin(service_prices, service_prices.c.id == service_checkouts.c.service_price_id)
    .where(service_checkouts.c.deleted_at.is_(None))
)
with_project = with_access(_alive, service_checkouts.c.repository_id)
by_id = with_project.where(service_checkouts.c.id == sa.bindparam("id"))
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
    return bounded(with_project, listed, service_checkouts.c.id, _weight)


_in_project, _in_project_after = _listed(), _listed(service_checkouts.c.id > sa.bindparam("after"))
_by_due = (service_checkouts.c.due_at, service_checkouts.c.id)
_due = (
    sa.select(service_checkouts.c.id, service_checkouts.c.due_at)
    .join_from(service_checkouts, projects, projects.c.repository_id == service_checkouts.c.repository_id)
    .where(
        service_checkouts.c.due_at <= big("now"),
        projects.c.deleted_at.is_(None),
        projects.c.archive.is_(sa.false()),
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


def checkout_of(row: Row) -> Checkout:
    return _read(
        row,
        repository=repository_of(row, 0, "project_"),
        service=_service_of(row),
        price=_read_price(row) if row["price_id"] is not None else None,
        state=_read_state(row),
        timezone=row["timezone"],
        language=row["language"] or DEFAULT_LANGUAGE,
    )


def _service_of(row: Row) -> BoughtService:
    return _read_service(row, prices=prices_of_text(row["prices"]))


def _values(checkout: Checkout) -> dict[str, object]:
    return {**values_of(checkout), **values_of(checkout.state), "due_at": checkout.state.due_at}


async def catch_up(write: Write, checkout: Checkout) -> Checkout:
    """Begin every period that is due by `now`, by Workhook itself. The row of the checkout is locked.

    So that a change finds what it would have found if the chore had come by a moment before.
    """
    while checkout.state.is_due(write.now):
        checkout = await begin_next(write, checkout)
    return checkout


async def begin_next(write: Write, checkout: Checkout) -> Checkout:
    """The checkout in its next period, which begins where the last one ended. Its row is locked."""
    return await begin_period(write.by_itself(), checkout, rules.next_period(checkout.state, checkout.terms))


async def begin_period(write: Write, checkout: Checkout, state: State) -> Checkout:
    """`state` is the one in the new period. Raises `UniqueViolation` for a period that began before,
    `NotFound` for a project that was deleted."""
    started_at = checkout.state.period_end or state.completed_at or write.now
    days = _days(checkout, started_at, state.period_end)
    description = _describe(checkout, days)
    begun = changed(checkout, state, write.now)
    price, invoice_id, credit_id = checkout.price, None, None
    credits_minor = (price.credits_minor or 0) * checkout.qty if price else 0
    writer = await ledger.lock_ledger(write, checkout.repository) if credits_minor else None
    if writer is None and price and price.amount_minor:
        await lock_project(write.tx, checkout.repository.id)
    await update_checkout(write.tx, begun)
    if price and price.amount_minor:  # what costs nothing has no invoice
        items = [Item(description, Decimal(checkout.qty), price.amount_minor, days=days)]
        invoice_id = await drafting.issue(
            write, checkout.repository, service_checkout_id=checkout.id, items=items, currency=price.currency
        )
    if writer:
        credit_id = await writer.grant(credits_minor, description)
    period = {"service_checkout_id": checkout.id, "number": state.periods, "started_at": started_at}
    await write.tx.execute(_insert_period, {**period, "invoice_id": invoice_id, "credit_id": credit_id})
    if invoice_id is not None:  # here, so that it goes along with the end
        tell_of_invoice(write, checkout.repository, invoice_id, "sent")
    return begun


def changed(checkout: Checkout, state: State, now: int) -> Checkout:
    """The checkout in another state, with an `updated_at` that grew."""
    return replace(checkout, state=state, updated_at=max(now, checkout.updated_at + 1))


def _days(checkout: Checkout, start: int, end: int | None) -> Days | None:
    """The first and the last day of the period, in the zone of the studio. None for what is paid once. The next period
    begins on the day after the last."""
    if end is None:
        return None
    first = day_in(start, checkout.zone)
    return first.isoformat(), max(first, day_in(end, checkout.zone) - timedelta(days=1)).isoformat()


def _describe(checkout: Checkout, days: Days | None) -> str:
    """`Design retainer, 31 Jan 2026 \u2013 27 Feb 2026`, in the language of the project's invoices; the title alone for
    what is paid once."""
    title = checkout.service.title
    return title if days is None else f"{title}, {Paper(checkout.language).days(days)}"


async def begin_due_periods(services: Services, now: int) -> int:
    """The chore: begin the periods that are due by `now` (milliseconds); returns how many did. A period that was missed
    comes late, with its own invoice and credits. One checkout that fails does not keep the others waiting.

    Raises `Unavailable` if the database cannot be used.
    """
    begun, after = 0, (-1, "")
    while True:
        params = {"now": now, "after_due_at": after[0], "after_id": after[1], "limit": BATCH}
        due = await services.database.fetch_all(_due, params)
        for row in due:
            begun += await _begin_all(services, row["id"], now)
        if len(due) < BATCH:
            return begun
        after = due[-1]["due_at"], due[-1]["id"]


async def _begin_all(services: Services, checkout_id: str, now: int) -> int:
    async def begin_one(tx: Transaction) -> bool:
        """One period in one transaction. Returns False if none is due, or somebody else is at the checkout."""
        row = await tx.fetch_one(_locked_if_due, {"id": checkout_id, "user_id": 0, "now": now})
        if row is not None:
            await begin_next(Write(tx, None, services.base, moment=now), checkout_of(row))
        return row is not None

    begun = 0
    try:
        while await services.database.in_transaction(begin_one):
            begun += 1
    except Exception as error:
        if concerns_all(error):
            raise
        TROUBLE.inc()
        log.exception("period_failed", service_checkout_id=checkout_id)
    return begun


def _locked(*where: sa.ColumnElement[bool]) -> sa.Select[Any]:
    return billing.with_project.where(*where).order_by(service_checkouts.c.id).with_for_update(of=service_checkouts)


_of_project = _locked(projects.c.id == sa.bindparam("project_id", type_=sa.Text))
_of_owner = _locked(projects.c.account_id == big("account_id"))


async def lock_checkouts(tx: Transaction, project_id: str) -> list[Checkout]:
    """Return the project's checkouts, pending ones too. Call it before the project is locked (decision 13)."""
    rows = await tx.fetch_all(_of_project, {"project_id": project_id, "user_id": 0})
    return [billing.checkout_of(row) for row in rows]


async def stop(write: Write, checkouts: Sequence[Checkout]) -> None:
    """Pause those whose next period would begin, with an event `paused` for each. They are locked."""
    for each in checkouts:
        state = rules.stop(each.state, write.now)
        if state != each.state:
            stopped = billing.changed(each, state, write.now)
            await billing.update_checkout(write.tx, stopped)
            record = checkout_to_response(stopped, write.now)
            await publish_event(write, stopped.repository, "service_checkout", "paused", record)


async def rights_lost(tx: Transaction, loss: Loss) -> None:
    """Stop the subscriptions in the projects of a disabled user; an `identity.removal.OnLoss`."""
    if loss.app_id is not None or loss.account_id is not None:
        return
    rows = await tx.fetch_all(_of_owner, {"account_id": loss.user_id, "user_id": 0})
    await stop(Write(tx, loss.actor, loss.base), [billing.checkout_of(row) for row in rows])
