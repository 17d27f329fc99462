"""`/projects/{id}/service_checkouts` and `/service_checkouts`."""

from __future__ import annotations

from workhook.core.clock import now_ms
from workhook.http import lists, parameters
from workhook.http.calls import Call
from workhook.http.endpoints import Listed, Routes
from workhook.http.lists import ListQuery
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
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

routes = Routes(WORK_API, "Service Checkouts", read="work.read", write="work.write")


def _shown(checkout: Checkout, now: int) -> ServiceCheckoutAnswer:
    return ServiceCheckoutAnswer(checkout_shape(checkout, now))


@routes.get("/projects/{id}/service_checkouts")
async def list_service_checkouts(call: Call, project_id: str, query: ListQuery) -> Listed[ServiceCheckoutsAnswer]:
    """List the service checkouts of a project."""
    key = lists.after(query, tuple[str])
    found = await actions.list_checkouts(
        call.database, actor_of(call), project_id, after=key[0] if key else None, limit=query.limit + 1
    )
    checkouts, headers = lists.page(call, found, query, lambda checkout: (checkout.id,))
    now = now_ms()
    return Listed(ServiceCheckoutsAnswer([checkout_shape(each, now) for each in checkouts]), headers)


@routes.post("/projects/{id}/service_checkouts")
async def create_service_checkout(
    write: Write, project_id: str, create: ServiceCheckoutCreate
) -> ServiceCheckoutAnswer:
    """Choose a service for a project.

    It is pending, and costs nothing, until it is completed.
    """
    created = await actions.create_checkout(write, project_id, create)
    return _shown(created, write.now)


@routes.get("/service_checkouts/{id}")
async def get_service_checkout(call: Call, service_checkout_id: str) -> ServiceCheckoutAnswer:
    """Get a service checkout."""
    return _shown(await actions.get_checkout(call.database, actor_of(call), service_checkout_id), now_ms())


@routes.post("/service_checkouts/{id}/complete")
async def complete_service_checkout(write: Write, service_checkout_id: str) -> ServiceCheckoutAnswer:
    """Complete a service checkout: its first period begins.

    Its invoice and its task credits come at once, and again with each further period.
    """
    checkout = await actions.lock_checkout(write.tx, write.actor, service_checkout_id)
    completed = await actions.complete(write, checkout)
    return _shown(completed, write.now)


@routes.post("/service_checkouts/{id}/pause")
async def pause_service_checkout(write: Write, service_checkout_id: str) -> Done:
    """Pause a service checkout.

    Its period stands still: neither invoices nor task credits come.
    """
    checkout = await actions.lock_checkout(write.tx, write.actor, service_checkout_id)
    await actions.pause(write, checkout)
    return Done()


@routes.post("/service_checkouts/{id}/unpause")
async def unpause_service_checkout(write: Write, service_checkout_id: str) -> Done:
    """Go on with a service checkout.

    Its period ends later by the time of the pause.
    """
    checkout = await actions.lock_checkout(write.tx, write.actor, service_checkout_id)
    await actions.unpause(write, checkout)
    return Done()


@routes.post("/service_checkouts/{id}/cancel", query=parameters.documented(ServiceCheckoutCancel))
async def cancel_service_checkout(write: Write, service_checkout_id: str, why: ServiceCheckoutCancel) -> Done:
    """Cancel a service checkout.

    It ends now or, if the service says so, with its period.
    """
    checkout = await actions.lock_checkout(write.tx, write.actor, service_checkout_id)
    await actions.cancel(write, checkout, why)
    return Done()


@routes.delete("/service_checkouts/{id}")
async def delete_service_checkout(write: Write, service_checkout_id: str) -> Done:
    """Delete a service checkout.

    It ends now. Its invoices stay.
    """
    checkout = await actions.lock_checkout(write.tx, write.actor, service_checkout_id)
    write.require_match(_shown(checkout, write.now))
    await actions.delete(write, checkout)
    return Done()
