"""`/projects/{id}/service_checkouts` and `/service_checkouts`.

Owners and members take checkouts out, pause, cancel and delete them; clients read them.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from msgspec import UnsetType
from msgspec.structs import replace

from workhook.core.clock import now_ms
from workhook.core.errors import Fault, Invalid
from workhook.core.ids import new_id
from workhook.core.money import AMOUNT_MAX_MINOR, HUNDREDTHS_MAX, to_amount
from workhook.http import lists, parameters
from workhook.http.calls import Call
from workhook.http.endpoints import Listed, Routes
from workhook.http.lists import ListQuery
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.identity.schemas import Actor
from workhook.storage import Reader
from workhook.work.kernel.access import Access, find_access, find_with_access
from workhook.work.kernel.record_events import publish_event
from workhook.work.kernel.schemas import Done
from workhook.work.money.checkouts import billing, rules
from workhook.work.money.checkouts.rules import State
from workhook.work.money.checkouts.schemas import (
    BoughtService,
    Checkout,
    ServiceCheckoutAnswer,
    ServiceCheckoutCancel,
    ServiceCheckoutCreate,
    ServiceCheckoutsAnswer,
    checkout_to_response,
)
from workhook.work.money.services.schemas import ServicePrice

routes = Routes(WORK_API, "Service Checkouts", read="work.read", write="work.write")


@routes.get("/projects/{id}/service_checkouts")
async def list_service_checkouts(call: Call, project_id: str, query: ListQuery) -> Listed[ServiceCheckoutsAnswer]:
    """List the service checkouts of a project."""
    actor, key = actor_of(call), lists.after(query, tuple[str])
    access = await find_access(call.database, actor, project_id)
    after, limit = key[0] if key else None, query.limit + 1
    found = await billing.list_checkouts(call.database, access.repository.id, actor.user.id, after=after, limit=limit)
    checkouts, headers = lists.page(call, found, query, lambda checkout: (checkout.id,))
    now = now_ms()
    return Listed(ServiceCheckoutsAnswer([checkout_to_response(each, now) for each in checkouts]), headers)


@routes.post("/projects/{id}/service_checkouts")
async def create_service_checkout(
    write: Write, project_id: str, create: ServiceCheckoutCreate
) -> ServiceCheckoutAnswer:
    """Choose a service for a project.

    It is pending, and costs nothing, until it is completed.
    """
    ids = {"project_id": project_id, "service_id": create.service_id}
    row, access = await find_with_access(write.tx, billing.offered, write.actor, **ids)
    _require_may_change(access)
    if (service := billing.offer_of(row)) is None:
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
    await billing.insert_checkout(write.tx, checkout, write.actor.user.id)
    return await _publish(write, checkout, "created")


@routes.get("/service_checkouts/{id}")
async def get_service_checkout(call: Call, service_checkout_id: str) -> ServiceCheckoutAnswer:
    """Get a service checkout."""
    _, checkout = await find_checkout(call.database, actor_of(call), service_checkout_id)
    return ServiceCheckoutAnswer(checkout_to_response(checkout, now_ms()))


@routes.post("/service_checkouts/{id}/complete")
async def complete_service_checkout(write: Write, service_checkout_id: str) -> ServiceCheckoutAnswer:
    """Complete a service checkout: its first period begins.

    Its invoice and its task credits come at once, and again with each further period.
    """
    checkout = await _lock(write, service_checkout_id)
    state = rules.complete(checkout.state, checkout.terms, write.now)
    if state != checkout.state:
        if not checkout.service.offered:
            raise Invalid(faults=[_not_offered(checkout.service.id)])
        await _publish(write, billing.changed(checkout, state, write.now), "completed")
        checkout = await billing.begin_period(write, checkout, state)
    return ServiceCheckoutAnswer(checkout_to_response(checkout, write.now))


@routes.post("/service_checkouts/{id}/pause")
async def pause_service_checkout(write: Write, service_checkout_id: str) -> Done:
    """Pause a service checkout.

    Its period stands still: neither invoices nor task credits come.
    """
    checkout = await billing.catch_up(write, await _lock(write, service_checkout_id))
    state = rules.pause(checkout.state, checkout.terms, write.now)
    return await _change(write, checkout, state, "paused")


@routes.post("/service_checkouts/{id}/unpause")
async def unpause_service_checkout(write: Write, service_checkout_id: str) -> Done:
    """Resume a paused service checkout.

    Its period is extended by the time of the pause.
    """
    checkout = await _lock(write, service_checkout_id)
    return await _change(write, checkout, rules.unpause(checkout.state, checkout.terms, write.now), "unpaused")


@routes.post("/service_checkouts/{id}/cancel", query=parameters.documented(ServiceCheckoutCancel))
async def cancel_service_checkout(write: Write, service_checkout_id: str, why: ServiceCheckoutCancel) -> Done:
    """Cancel a service checkout.

    It ends now or, if the service says so, with its period.
    """
    checkout = await billing.catch_up(write, await _lock(write, service_checkout_id))
    state = rules.cancel(checkout.state, checkout.terms, write.now)
    # The event comes at once, also if it ends with its period: `cancel_date` says when.
    explained = replace(checkout, unsubscribe_reason=why.reason, unsubscribed_feedback=why.feedback)
    return await _change(write, explained, state, "canceled")


@routes.delete("/service_checkouts/{id}")
async def delete_service_checkout(write: Write, service_checkout_id: str) -> Done:
    """Delete a service checkout.

    It ends now. Its invoices stay.
    """
    checkout = await _lock(write, service_checkout_id)
    write.require_match(ServiceCheckoutAnswer(checkout_to_response(checkout, write.now)))
    checkout = await billing.catch_up(write, checkout)
    over = checkout.state.status(write.now) == "canceled"
    deleted = billing.changed(checkout, checkout.state if over else rules.end(checkout.state, write.now), write.now)
    await billing.update_checkout(write.tx, deleted, deleted_at=write.now)
    await _publish(write, deleted, "deleted")
    return Done()


async def find_checkout(reader: Reader, actor: Actor, checkout_id: str) -> tuple[Access, Checkout]:
    """The checkout, with what the actor may do in its project. Raises `NotFound`."""
    return await _find(reader, billing.by_id, actor, checkout_id)


async def _lock(write: Write, checkout_id: str) -> Checkout:
    """For a change: nobody else changes it until the transaction ends. Raises `NotFound`, `Forbidden`, `Conflict`."""
    access, checkout = await _find(write.tx, billing.locked, write.actor, checkout_id)
    _require_may_change(access)
    return checkout


async def _find(reader: Reader, statement: sa.Select[Any], actor: Actor, checkout_id: str) -> tuple[Access, Checkout]:
    """The checkout with its project as the caller sees it. Raises `NotFound`."""
    row, access = await find_with_access(reader, statement, actor, id=checkout_id)
    return access, replace(billing.checkout_of(row), repository=access.repository)


def _require_may_change(access: Access) -> None:
    access.require_writable()
    access.require_member("change service checkouts")


def _not_offered(service_id: str) -> Fault:
    message = f"service_id {service_id} is no active service of the project's owner"
    return Fault(field="service_id", code="not_offered", message=message)


def _choose_price(service: BoughtService, create: ServiceCheckoutCreate) -> ServicePrice | None:
    """The price of a new checkout; None if the service has none. Raises `Invalid`."""
    faults: list[Fault] = []
    price = service.prices[0] if service.prices else None
    if not isinstance(create.service_price_id, UnsetType) and create.service_price_id is not None:
        price = next((each for each in service.prices if each.id == create.service_price_id), None)
        if price is None:
            message = f"service_price_id {create.service_price_id} is no price of the service"
            faults.append(Fault(field="service_price_id", message=message))
    if service.disable_quantity and create.qty != 1:
        faults.append(Fault(field="qty", message="qty must be 1: the service is sold one at a time"))
    elif price and create.qty * price.amount_minor > AMOUNT_MAX_MINOR:
        most = f"{to_amount(AMOUNT_MAX_MINOR, price.currency)} {price.currency}"
        faults.append(Fault(field="qty", message=f"qty must be less: an invoice is at most {most} before tax"))
    elif price and create.qty * (price.credits_minor or 0) > AMOUNT_MAX_MINOR:
        faults.append(Fault(field="qty", message=f"qty must be less: a grant is at most {HUNDREDTHS_MAX} credits"))
    if faults:
        raise Invalid(faults=faults)
    return price


async def _change(write: Write, checkout: Checkout, state: State, action: str) -> Done:
    """A checkout that is in that state already is left alone."""
    if state != checkout.state:
        changed = billing.changed(checkout, state, write.now)
        await billing.update_checkout(write.tx, changed)
        await _publish(write, changed, action)
    return Done()


async def _publish(write: Write, checkout: Checkout, action: str) -> ServiceCheckoutAnswer:
    record = checkout_to_response(checkout, write.now)
    await publish_event(write, checkout.repository, "service_checkout", action, record)
    return ServiceCheckoutAnswer(record)
