"""`/projects/{id}/service_checkouts` and `/service_checkouts`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from workhook.core.clock import now_ms
from workhook.http import conditions, lists, parameters
from workhook.http.calls import Answer, Call
from workhook.http.lists import ListQuery
from workhook.http.operations import AREA_A, Operation
from workhook.identity.guard import actor_of
from workhook.storage import Transaction
from workhook.work.announce import base_of
from workhook.work.checkouts import actions
from workhook.work.checkouts.schemas import (
    Checkout,
    ServiceCheckoutAnswer,
    ServiceCheckoutCancel,
    ServiceCheckoutCreate,
    ServiceCheckoutsAnswer,
    checkout_shape,
)
from workhook.work.schemas import Done

TAG = "Service Checkouts"

Step = Callable[[Transaction, Checkout, int], Awaitable[None]]


def _shown(checkout: Checkout, now: int) -> ServiceCheckoutAnswer:
    return ServiceCheckoutAnswer(checkout_shape(checkout, now))


async def list_checkouts(call: Call) -> Answer:
    query = parameters.read_query(call, ListQuery)
    key = lists.after(query, tuple[str])
    found = await actions.list_checkouts(
        call.database, actor_of(call), call.path("id"), after=key[0] if key else None, limit=query.limit + 1
    )
    checkouts, headers = lists.page(call, found, query, lambda checkout: (checkout.id,))
    now = now_ms()
    return Answer(ServiceCheckoutsAnswer([checkout_shape(each, now) for each in checkouts]), headers=headers)


async def create_checkout(call: Call) -> Answer:
    create = await parameters.read(call, ServiceCheckoutCreate)

    async def change(tx: Transaction) -> Answer:
        now = now_ms()
        created = await actions.create_checkout(
            tx, actor_of(call), call.path("id"), create, now=now, base=base_of(call)
        )
        return Answer(_shown(created, now))

    return await call.write(change)


async def get_checkout(call: Call) -> Answer:
    return Answer(_shown(await actions.get_checkout(call.database, actor_of(call), call.path("id")), now_ms()))


async def complete_checkout(call: Call) -> Answer:
    async def change(tx: Transaction) -> Answer:
        checkout = await actions.take_checkout(tx, actor_of(call), call.path("id"))
        now = now_ms()
        completed = await actions.complete(tx, actor_of(call), checkout, now=now, base=base_of(call))
        return Answer(_shown(completed, now))

    return await call.write(change)


async def pause_checkout(call: Call) -> Answer:
    async def step(tx: Transaction, checkout: Checkout, now: int) -> None:
        await actions.pause(tx, actor_of(call), checkout, now=now, base=base_of(call))

    return await _done(call, step)


async def unpause_checkout(call: Call) -> Answer:
    async def step(tx: Transaction, checkout: Checkout, now: int) -> None:
        await actions.unpause(tx, actor_of(call), checkout, now=now, base=base_of(call))

    return await _done(call, step)


async def cancel_checkout(call: Call) -> Answer:
    why = await parameters.read(call, ServiceCheckoutCancel)

    async def step(tx: Transaction, checkout: Checkout, now: int) -> None:
        await actions.cancel(tx, actor_of(call), checkout, why, now=now, base=base_of(call))

    return await _done(call, step)


async def delete_checkout(call: Call) -> Answer:
    async def step(tx: Transaction, checkout: Checkout, now: int) -> None:
        conditions.require_match(call, _shown(checkout, now))
        await actions.delete(tx, actor_of(call), checkout, now=now, base=base_of(call))

    return await _done(call, step)


async def _done(call: Call, step: Step) -> Answer:
    """The time is told when the row is held: what waited for another change comes after it."""

    async def change(tx: Transaction) -> Answer:
        checkout = await actions.take_checkout(tx, actor_of(call), call.path("id"))
        await step(tx, checkout, now_ms())
        return Answer(Done())

    return await call.write(change)


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        AREA_A,
        "GET",
        "/projects/{id}/service_checkouts",
        list_checkouts,
        "list_service_checkouts",
        "List the service checkouts of a project",
        "work.read",
        tag=TAG,
        query=parameters.documented(ListQuery),
        answers={200: ServiceCheckoutsAnswer},
        problems=(404, 422),
    ),
    Operation(
        AREA_A,
        "POST",
        "/projects/{id}/service_checkouts",
        create_checkout,
        "create_service_checkout",
        "Choose a service for a project",
        "work.write",
        tag=TAG,
        body=ServiceCheckoutCreate,
        query=parameters.documented(ServiceCheckoutCreate, or_body=True),
        answers={200: ServiceCheckoutAnswer},
        problems=(400, 403, 404, 409, 413, 415, 422),
        description="It is pending, and costs nothing, until it is completed.",
    ),
    Operation(
        AREA_A,
        "GET",
        "/service_checkouts/{id}",
        get_checkout,
        "get_service_checkout",
        "Get a service checkout",
        "work.read",
        tag=TAG,
        answers={200: ServiceCheckoutAnswer},
        problems=(404,),
    ),
    Operation(
        AREA_A,
        "POST",
        "/service_checkouts/{id}/complete",
        complete_checkout,
        "complete_service_checkout",
        "Complete a service checkout: its first period begins",
        "work.write",
        tag=TAG,
        answers={200: ServiceCheckoutAnswer},
        problems=(403, 404, 409, 422),
        description="Its invoice and its task credits come at once, and again with each further period.",
    ),
    Operation(
        AREA_A,
        "POST",
        "/service_checkouts/{id}/pause",
        pause_checkout,
        "pause_service_checkout",
        "Pause a service checkout",
        "work.write",
        tag=TAG,
        answers={200: Done},
        problems=(403, 404, 409, 422),
        description="Its period stands still: neither invoices nor task credits come.",
    ),
    Operation(
        AREA_A,
        "POST",
        "/service_checkouts/{id}/unpause",
        unpause_checkout,
        "unpause_service_checkout",
        "Go on with a service checkout",
        "work.write",
        tag=TAG,
        answers={200: Done},
        problems=(403, 404, 409, 422),
        description="Its period ends later by the time of the pause.",
    ),
    Operation(
        AREA_A,
        "POST",
        "/service_checkouts/{id}/cancel",
        cancel_checkout,
        "cancel_service_checkout",
        "Cancel a service checkout",
        "work.write",
        tag=TAG,
        body=ServiceCheckoutCancel,
        query=parameters.documented(ServiceCheckoutCancel),
        answers={200: Done},
        problems=(400, 403, 404, 409, 413, 415, 422),
        description="It ends now or, if the service says so, with its period.",
    ),
    Operation(
        AREA_A,
        "DELETE",
        "/service_checkouts/{id}",
        delete_checkout,
        "delete_service_checkout",
        "Delete a service checkout",
        "work.write",
        tag=TAG,
        answers={200: Done},
        problems=(403, 404, 409, 412),
        description="It ends now. Its invoices stay.",
    ),
)
