"""Service checkouts (`/projects/{id}/service_checkouts` and `/service_checkouts`) and their periods.

A period starts in one transaction with its invoice, credits and row. A chore starts each due period once, including
missed ones. All queries except those of the chore are restricted to a project. Clients can only read checkouts.
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

from workhook.core.clock import now_ms
from workhook.core.errors import Fault, Invalid, say
from workhook.core.ids import new_id
from workhook.core.money import AMOUNT_MAX_MINOR, HUNDREDTHS_MAX, to_amount
from workhook.core.zones import day_in
from workhook.http import parameters
from workhook.http.calls import Call, Services
from workhook.http.endpoints import Listed, Routes
from workhook.http.lists import ListQuery
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.identity.queries import repository_of
from workhook.identity.removal import Loss
from workhook.identity.schemas import Actor
from workhook.identity.tables import projects
from workhook.storage import Reader, Row, Transaction
from workhook.storage.metadata import bigint_param, insert_into
from workhook.storage.record_rows import assigned, row_reader, selected, stored_names, values_of
from workhook.storage.sweeping import is_database_failure
from workhook.work.kernel.access import Access, find_access, find_with_access, with_access
from workhook.work.kernel.billing_settings import DEFAULT_LANGUAGE, account_billing, project_billing
from workhook.work.kernel.list_statements import length
from workhook.work.kernel.lists import Listing, cursor_of, read_for
from workhook.work.kernel.record_events import publish_event
from workhook.work.kernel.schemas import Done, if_set
from workhook.work.kernel.scopes import source_of_project
from workhook.work.money.checkouts import rules
from workhook.work.money.checkouts.rules import State
from workhook.work.money.checkouts.schemas import (
    BoughtService,
    Checkout,
    ServiceCheckoutAnswer,
    ServiceCheckoutCancel,
    ServiceCheckoutCreate,
    ServiceCheckoutsAnswer,
    checkout_to_response,
    service_checkout_periods,
    service_checkouts,
)
from workhook.work.money.credits import actions as task_credits
from workhook.work.money.invoices.actions import issue, lock_project, notify_invoice
from workhook.work.money.invoices.paper import DocumentLocale
from workhook.work.money.invoices.rules import Days, Item
from workhook.work.money.services.schemas import ServicePrice, prices_of_text, service_prices, services

EVERY_S = 20.0
BATCH = 200

TROUBLE = Counter(
    "workhook_checkout_periods_failed_total", "Subscription periods that could not begin and are retried."
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
# The row lock is required to start a period, and to end the checkout.
_locked_if_due = by_id.where(service_checkouts.c.due_at <= bigint_param("now")).with_for_update(
    of=service_checkouts, skip_locked=True
)
_weight_of_prices = (
    sa.select(length(services.c.prices)).where(services.c.id == service_checkouts.c.service_id).scalar_subquery()
)
CHECKOUTS = Listing[Checkout](
    service_checkouts,
    lambda page, _: with_project.join(page, page.c.id == service_checkouts.c.id),
    lambda row, _, __: checkout_of(row),
    length(service_checkouts.c.unsubscribe_reason, service_checkouts.c.unsubscribed_feedback) + _weight_of_prices,
    index_condition=lambda row: row.c.deleted_at.is_(None),
)
_by_due = (service_checkouts.c.due_at, service_checkouts.c.id)
_due = (
    sa.select(service_checkouts.c.id, service_checkouts.c.due_at)
    .join_from(service_checkouts, projects, projects.c.repository_id == service_checkouts.c.repository_id)
    .where(
        service_checkouts.c.due_at <= bigint_param("now"),
        projects.c.deleted_at.is_(None),
        projects.c.archive.is_(sa.false()),
        service_checkouts.c.deleted_at.is_(None),
        sa.tuple_(*_by_due) > sa.tuple_(bigint_param("after_due_at"), sa.bindparam("after_id", type_=sa.Text)),
    )
    .order_by(*_by_due)
    .limit(bigint_param("limit"))
)
# A project, and the service if it belongs to the project's account.
_project = projects.alias("there")
offered = with_access(
    sa.select(*_service_columns, services.c.prices)
    .select_from(_project)
    .outerjoin(
        services,
        sa.and_(services.c.id == sa.bindparam("service_id"), services.c.account_id == _project.c.account_id),
    )
    .where(_project.c.id == sa.bindparam("project_id")),
    _project.c.repository_id,
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


async def update_checkout(tx: Transaction, checkout: Checkout, *, deleted_at: int | None = None) -> None:
    """Update a checkout. With `deleted_at`, the row is hidden from all users but kept for its invoices."""
    await tx.execute(_update, {**_values(checkout), "deleted_at": deleted_at})


def checkout_of(row: Row) -> Checkout:
    return _read(
        row,
        repository=repository_of(row, 0, "project_"),
        service=_read_service(row, prices=prices_of_text(row["prices"])),
        price=_read_price(row) if row["price_id"] is not None else None,
        state=_read_state(row),
        timezone=row["timezone"],
        language=row["language"] or DEFAULT_LANGUAGE,
    )


def _values(checkout: Checkout) -> dict[str, object]:
    return {**values_of(checkout), **values_of(checkout.state), "due_at": checkout.state.due_at}


async def start_due_periods(write: Write, checkout: Checkout) -> Checkout:
    """Start every period that is due, before a locked checkout is changed."""
    while checkout.state.is_due(write.now):
        checkout = await begin_period(write.by_itself(), checkout, rules.next_period(checkout.state, checkout.terms))
    return checkout


async def begin_period(write: Write, checkout: Checkout, state: State) -> Checkout:
    """Start the period of `state`. Raises `UniqueViolation` if it has started, `NotFound` if the project is deleted."""
    started_at = checkout.state.period_end or state.completed_at or write.now
    description, days = checkout.service.title, _days(checkout, started_at, state.period_end)
    if days is not None:
        description = f"{description}, {DocumentLocale(checkout.language).days(days)}"
    begun = changed(checkout, state, write.now)
    price, invoice_id, credit_id = checkout.price, None, None
    credits_minor = (price.credits_minor or 0) * checkout.qty if price else 0
    writer = await task_credits.lock_ledger(write, checkout.repository) if credits_minor else None
    if writer is None and price and price.amount_minor:
        await lock_project(write.tx, checkout.repository.id)
    await update_checkout(write.tx, begun)
    if price and price.amount_minor:  # a free period has no invoice
        items = [Item(description, Decimal(checkout.qty), price.amount_minor, days=days)]
        invoice_id = await issue(
            write, checkout.repository, service_checkout_id=checkout.id, items=items, currency=price.currency
        )
    if writer:
        credit_id = await writer.grant(credits_minor, description)
    period = {"service_checkout_id": checkout.id, "number": state.periods, "started_at": started_at}
    await write.tx.execute(_insert_period, {**period, "invoice_id": invoice_id, "credit_id": credit_id})
    if invoice_id is not None:  # last, because it is sent with the commit
        notify_invoice(write, checkout.repository, invoice_id, "sent")
    return begun


def changed(checkout: Checkout, state: State, now: int) -> Checkout:
    return replace(checkout, state=state, updated_at=max(now, checkout.updated_at + 1))


def _days(checkout: Checkout, start: int, end: int | None) -> Days | None:
    """Return the first and last day of the period in the seller's time zone, or None for a period without an end."""
    if end is None:
        return None
    first = day_in(start, checkout.zone)
    return first.isoformat(), max(first, day_in(end, checkout.zone) - timedelta(days=1)).isoformat()


async def begin_due_periods(services: Services, now: int) -> int:
    """Start the periods that are due at `now`, and return their number. This is a chore.

    A missed period starts late, with its own invoice and credits. A checkout that fails does not stop the others.
    Raises `Unavailable`.
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
        """Return False if no period is due, or if another transaction has locked the checkout."""
        row = await tx.fetch_one(_locked_if_due, {"id": checkout_id, "user_id": 0, "now": now})
        if row is not None:
            checkout = checkout_of(row)
            state = rules.next_period(checkout.state, checkout.terms)
            await begin_period(Write(tx, None, services.base, moment=now), checkout, state)
        return row is not None

    begun = 0
    try:
        while await services.database.in_transaction(begin_one):
            begun += 1
    except Exception as error:
        if is_database_failure(error):
            raise
        TROUBLE.inc()
        log.exception("billing_period_failed", service_checkout_id=checkout_id)
    return begun


def _locked(*where: sa.ColumnElement[bool]) -> sa.Select[Any]:
    return with_project.where(*where).order_by(service_checkouts.c.id).with_for_update(of=service_checkouts)


_of_project = _locked(projects.c.id == sa.bindparam("project_id", type_=sa.Text))
_of_owner = _locked(projects.c.account_id == bigint_param("account_id"))


async def lock_checkouts(tx: Transaction, project_id: str) -> list[Checkout]:
    """Lock and return the project's checkouts, including pending ones.

    Call this before locking the project (decision 13).
    """
    rows = await tx.fetch_all(_of_project, {"project_id": project_id, "user_id": 0})
    return [checkout_of(row) for row in rows]


async def pause_renewals(write: Write, checkouts: Sequence[Checkout]) -> None:
    """Pause the locked checkouts that would start another period, and publish a `paused` event for each."""
    for each in checkouts:
        await _change(write, each, rules.stop(each.state, write.now), "paused")


async def rights_lost(tx: Transaction, loss: Loss) -> None:
    """Stop the subscriptions in the projects of a disabled user. This is an `identity.removal.OnLoss`."""
    if loss.app_id is not None or loss.account_id is not None:
        return
    rows = await tx.fetch_all(_of_owner, {"account_id": loss.user_id, "user_id": 0})
    await pause_renewals(Write(tx, loss.actor, loss.base), [checkout_of(row) for row in rows])


routes = Routes(WORK_API, "Service Checkouts")


@routes.get("/projects/{id}/service_checkouts")
async def list_service_checkouts(call: Call, project_id: str, query: ListQuery) -> Listed[ServiceCheckoutsAnswer]:
    """List the service checkouts of a project."""
    after = cursor_of(query)
    source = source_of_project(await find_access(call.database, actor_of(call), project_id))
    checkouts, headers = await read_for(call, CHECKOUTS, source, query, after)
    now = now_ms()
    return Listed(ServiceCheckoutsAnswer([checkout_to_response(each, now) for each in checkouts]), headers)


@routes.post("/projects/{id}/service_checkouts")
async def create_service_checkout(
    write: Write, project_id: str, create: ServiceCheckoutCreate
) -> ServiceCheckoutAnswer:
    """Create a service checkout in a project.

    It is pending, and free of charge, until it is completed.
    """
    ids = {"project_id": project_id, "service_id": create.service_id}
    row, access = await find_with_access(write.tx, offered, write.actor, **ids)
    _require_may_change(access)
    service = _read_service(row, prices=prices_of_text(row["prices"])) if row["service_id"] is not None else None
    if service is None or not service.offered:
        raise Invalid(faults=[_not_offered(create.service_id)])
    checkout = Checkout(
        id=new_id("sco"),
        repository=access.repository,
        service=service,
        price=_choose_price(service, create),
        qty=create.qty,
        state=State(),
        unsubscribe_reason=None,
        unsubscribed_feedback=None,
        created_at=write.now,
        updated_at=write.now,
    )
    owners = {
        "repository_id": access.repository.id,
        "service_id": service.id,
        "service_price_id": checkout.price.id if checkout.price else None,
        "user_id": write.actor.user.id,
    }
    await write.tx.execute(_insert, {**_values(checkout), **owners})
    return await _publish(write, checkout, "created")


@routes.get("/service_checkouts/{id}")
async def get_service_checkout(call: Call, service_checkout_id: str) -> ServiceCheckoutAnswer:
    """Get a service checkout."""
    _, checkout = await find_checkout(call.database, actor_of(call), service_checkout_id)
    return ServiceCheckoutAnswer(checkout_to_response(checkout, now_ms()))


@routes.post("/service_checkouts/{id}/complete")
async def complete_service_checkout(write: Write, service_checkout_id: str) -> ServiceCheckoutAnswer:
    """Complete a service checkout, which starts its first period.

    The first invoice and task credits are created immediately, and again at the start of every further period.
    """
    checkout = await _lock(write, service_checkout_id)
    state = rules.complete(checkout.state, checkout.terms, write.now)
    if state != checkout.state:
        if not checkout.service.offered:
            raise Invalid(faults=[_not_offered(checkout.service.id)])
        await _publish(write, changed(checkout, state, write.now), "completed")
        checkout = await begin_period(write, checkout, state)
    return ServiceCheckoutAnswer(checkout_to_response(checkout, write.now))


@routes.post("/service_checkouts/{id}/pause")
async def pause_service_checkout(write: Write, service_checkout_id: str) -> Done:
    """Pause a service checkout.

    While it is paused, its period does not advance, and no invoices or task credits are created.
    """
    checkout = await start_due_periods(write, await _lock(write, service_checkout_id))
    state = rules.pause(checkout.state, checkout.terms, write.now)
    return await _change(write, checkout, state, "paused")


@routes.post("/service_checkouts/{id}/unpause")
async def unpause_service_checkout(write: Write, service_checkout_id: str) -> Done:
    """Resume a paused service checkout.

    Its current period is extended by the duration of the pause.
    """
    checkout = await _lock(write, service_checkout_id)
    return await _change(write, checkout, rules.unpause(checkout.state, checkout.terms, write.now), "unpaused")


@routes.post("/service_checkouts/{id}/cancel", query=parameters.documented(ServiceCheckoutCancel))
async def cancel_service_checkout(write: Write, service_checkout_id: str, why: ServiceCheckoutCancel) -> Done:
    """Cancel a service checkout.

    It ends immediately or, if the service says so, at the end of its period.
    """
    checkout = await start_due_periods(write, await _lock(write, service_checkout_id))
    state = rules.cancel(checkout.state, checkout.terms, write.now)
    # The event is published now even if the checkout ends with its period; `cancel_date` states when.
    explained = replace(checkout, unsubscribe_reason=why.reason, unsubscribed_feedback=why.feedback)
    return await _change(write, explained, state, "canceled")


@routes.delete("/service_checkouts/{id}")
async def delete_service_checkout(write: Write, service_checkout_id: str) -> Done:
    """Delete a service checkout.

    It ends immediately. Its invoices are kept.
    """
    checkout = await _lock(write, service_checkout_id)
    write.require_match(ServiceCheckoutAnswer(checkout_to_response(checkout, write.now)))
    checkout = await start_due_periods(write, checkout)
    over = checkout.state.status(write.now) == "canceled"
    deleted = changed(checkout, checkout.state if over else rules.end(checkout.state, write.now), write.now)
    await update_checkout(write.tx, deleted, deleted_at=write.now)
    await _publish(write, deleted, "deleted")
    return Done()


async def find_checkout(
    reader: Reader, actor: Actor, checkout_id: str, statement: sa.Select[Any] = by_id
) -> tuple[Access, Checkout]:
    """Find the checkout, with its project as the actor sees it. Raises `NotFound`."""
    row, access = await find_with_access(reader, statement, actor, id=checkout_id)
    return access, replace(checkout_of(row), repository=access.repository)


async def _lock(write: Write, checkout_id: str) -> Checkout:
    """Lock the checkout for a change. Raises `NotFound`, `Forbidden` or `Conflict`."""
    access, checkout = await find_checkout(write.tx, write.actor, checkout_id, locked)
    _require_may_change(access)
    return checkout


def _require_may_change(access: Access) -> None:
    access.require_writable()
    access.require_member("change service checkouts")


def _not_offered(service_id: str) -> Fault:
    message = say("service_id {} is not an active service of the project's owner", service_id)
    return Fault(field="service_id", code="not_offered", message=message)


def _choose_price(service: BoughtService, create: ServiceCheckoutCreate) -> ServicePrice | None:
    """Return the price of a new checkout, or None if the service has no prices. Raises `Invalid`."""
    faults: list[Fault] = []
    price = service.prices[0] if service.prices else None
    if (wanted := if_set(create.service_price_id)) is not None:
        price = next((each for each in service.prices if each.id == wanted), None)
        if price is None:
            message = say("service_price_id {} is not a price of the service", wanted)
            faults.append(Fault(field="service_price_id", message=message))
    if service.disable_quantity and create.qty != 1:
        faults.append(Fault(field="qty", message="qty must be 1: this is a one-time service"))
    elif price and create.qty * price.amount_minor > AMOUNT_MAX_MINOR:
        most = f"{to_amount(AMOUNT_MAX_MINOR, price.currency)} {price.currency}"
        faults.append(Fault(field="qty", message=say("qty: an invoice can be at most {} before tax", most)))
    elif price and create.qty * (price.credits_minor or 0) > AMOUNT_MAX_MINOR:
        faults.append(Fault(field="qty", message=say("qty: a grant can be at most {} credits", HUNDREDTHS_MAX)))
    if faults:
        raise Invalid(faults=faults)
    return price


async def _change(write: Write, checkout: Checkout, state: State, action: str) -> Done:
    """Change the checkout to `state`. Do nothing if it is already in that state."""
    if state != checkout.state:
        after = changed(checkout, state, write.now)
        await update_checkout(write.tx, after)
        await _publish(write, after, action)
    return Done()


async def _publish(write: Write, checkout: Checkout, action: str) -> ServiceCheckoutAnswer:
    record = checkout_to_response(checkout, write.now)
    await publish_event(write, checkout.repository, "service_checkout", action, record)
    return ServiceCheckoutAnswer(record)
