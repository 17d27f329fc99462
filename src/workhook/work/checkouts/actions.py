"""What can be done with service checkouts: authorise, decide, write, append the event.

Owners and members take them out, pause, cancel and delete them; clients read them.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UnsetType
from msgspec.structs import replace

from workhook.core.errors import Fault, Invalid
from workhook.core.ids import new_id
from workhook.http.wire_types import AMOUNT_MAX_MINOR
from workhook.identity.context import Write
from workhook.identity.schemas import Actor, Repository
from workhook.storage import Reader, Transaction
from workhook.work.access import Access, access_of, find_access
from workhook.work.checkouts import billing, queries, rules
from workhook.work.checkouts.rules import State
from workhook.work.checkouts.schemas import (
    Bought,
    Checkout,
    ServiceCheckoutCancel,
    ServiceCheckoutCreate,
    checkout_shape,
)
from workhook.work.record_events import publish_event
from workhook.work.services.rules import ServicePrice

_NOUN = "service_checkout"


async def list_checkouts(
    reader: Reader, actor: Actor, project_id: str, *, after: str | None, limit: int
) -> Sequence[Checkout]:
    """Raises `NotFound`."""
    access = await find_access(reader, actor, project_id)
    return await queries.list_checkouts(reader, access.repository.id, actor.user.id, after=after, limit=limit)


async def get_checkout(reader: Reader, actor: Actor, checkout_id: str) -> Checkout:
    """Raises `NotFound`."""
    row = await queries.find_checkout(reader, checkout_id, actor.user.id)
    access = access_of(row, actor)
    assert row is not None, "access_of found it"
    return _seen(queries.checkout_of(row), access.repository)


async def lock_checkout(tx: Transaction, actor: Actor, checkout_id: str) -> Checkout:
    """For a change: nobody else changes it until the transaction ends. Raises `NotFound`, `Forbidden`, `Conflict`."""
    row = await queries.lock_checkout(tx, checkout_id, actor.user.id)
    access = access_of(row, actor)
    assert row is not None, "access_of found it"
    _require_may_change(access)
    return _seen(queries.checkout_of(row), access.repository)


async def create_checkout(write: Write, project_id: str, create: ServiceCheckoutCreate) -> Checkout:
    """Raises `NotFound`, `Forbidden`, `Conflict`, `Invalid`."""
    row = await queries.find_offer(write.tx, project_id, create.service_id, write.actor.user.id)
    access = access_of(row, write.actor)
    assert row is not None, "access_of found it"
    _require_may_change(access)
    if (offer := queries.offer_of(row)) is None:
        raise Invalid(faults=[_not_offered(create.service_id)])
    service, terms = offer
    price = _choose(service, create)
    checkout = Checkout(
        id=new_id("sco"),
        repository=access.repository,
        service=service,
        terms=replace(terms, interval=price.interval if price else None),
        price=price,
        qty=create.qty,
        state=State(),
        unsubscribe_reason=None,
        unsubscribed_feedback=None,
        created_at=write.now,
        updated_at=write.now,
    )
    await queries.insert_checkout(write.tx, checkout, write.actor.user.id)
    await _announce(write, checkout, "created")
    return checkout


async def complete(write: Write, checkout: Checkout) -> Checkout:
    """The first period begins, with its invoice and its credits. Raises `Conflict`, `Invalid`."""
    state = rules.complete(checkout.state, checkout.terms, write.now)
    if state == checkout.state:
        return checkout
    if not checkout.service.offered:
        raise Invalid(faults=[_not_offered(checkout.service.id)])
    completed = billing.changed(checkout, state, write.now)
    await _announce(write, completed, "completed")
    return await billing.begin_period(write, checkout, state)


async def pause(write: Write, checkout: Checkout) -> None:
    """Raises `Conflict`."""
    checkout = await billing.catch_up(write, checkout)
    state = rules.pause(checkout.state, checkout.terms, write.now)
    await _change(write, checkout, state, "paused")


async def unpause(write: Write, checkout: Checkout) -> None:
    """Raises `Conflict`."""
    await _change(write, checkout, rules.unpause(checkout.state, write.now), "unpaused")


async def cancel(write: Write, checkout: Checkout, why: ServiceCheckoutCancel) -> None:
    """The event comes at once, also if it ends with its period: `cancel_date` says when. Raises `Conflict`."""
    checkout = await billing.catch_up(write, checkout)
    state = rules.cancel(checkout.state, checkout.terms, write.now)
    told = replace(checkout, unsubscribe_reason=why.reason, unsubscribed_feedback=why.feedback)
    await _change(write, told, state, "canceled")


async def delete(write: Write, checkout: Checkout) -> None:
    """Ends now, whatever state it is in; its invoices stay."""
    checkout = await billing.catch_up(write, checkout)
    over = checkout.state.status(write.now) == "canceled"
    deleted = billing.changed(checkout, checkout.state if over else rules.end(checkout.state, write.now), write.now)
    await queries.update_checkout(write.tx, deleted, deleted_at=write.now)
    await _announce(write, deleted, "deleted")


def _seen(checkout: Checkout, repository: Repository) -> Checkout:
    """With the project as the caller sees it."""
    return replace(checkout, repository=repository)


def _require_may_change(access: Access) -> None:
    access.require_writable()
    access.require_member("change service checkouts")


def _not_offered(service_id: str) -> Fault:
    message = f"service_id {service_id} is no active service of the project's owner"
    return Fault(field="service_id", code="not_offered", message=message)


def _choose(service: Bought, create: ServiceCheckoutCreate) -> ServicePrice | None:
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
    elif price and create.qty * max(price.amount_minor, price.credits_minor or 0) > AMOUNT_MAX_MINOR:
        message = f"qty must be less: an invoice and a grant are at most {AMOUNT_MAX_MINOR // 100}"
        faults.append(Fault(field="qty", message=message))
    if faults:
        raise Invalid(faults=faults)
    return price


async def _change(write: Write, checkout: Checkout, state: State, action: str) -> None:
    """What is in that state already is left alone."""
    if state == checkout.state:
        return
    changed = billing.changed(checkout, state, write.now)
    await queries.update_checkout(write.tx, changed)
    await _announce(write, changed, action)


async def _announce(write: Write, checkout: Checkout, action: str) -> None:
    record = checkout_shape(checkout, write.now)
    await publish_event(write, checkout.repository, _NOUN, action, record)
