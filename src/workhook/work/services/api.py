"""`/services`."""

from __future__ import annotations

from workhook.core.records import to_response
from workhook.http import lists
from workhook.http.calls import Call
from workhook.http.endpoints import Listed, Routes
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.work.schemas import Done
from workhook.work.services import actions, queries
from workhook.work.services.schemas import (
    Service,
    ServiceAnswer,
    ServiceCreate,
    ServiceEdit,
    ServiceQuery,
    ServicesAnswer,
)

routes = Routes(WORK_API, "Services", read="work.read", write="work.write")


def _shown(service: Service) -> ServiceAnswer:
    return ServiceAnswer(to_response(service))


@routes.get("/services")
async def list_services(call: Call, query: ServiceQuery) -> Listed[ServicesAnswer]:
    """List the services that the caller's organizations offer."""
    key = lists.after(query, tuple[str])
    found = await queries.list_services(call.database, actor_of(call), query, after=key[0] if key else None)
    services, headers = lists.page(call, found, query, lambda service: (service.id,))
    return Listed(ServicesAnswer([to_response(each) for each in services]), headers)


@routes.post("/services")
async def create_service(write: Write, create: ServiceCreate) -> ServiceAnswer:
    """Offer a service.

    Only owners of the organization can.
    """
    created = await actions.create_service(write, create)
    return _shown(created)


@routes.get("/services/{id}")
async def get_service(call: Call, service_id: str) -> ServiceAnswer:
    """Get a service."""
    return _shown(await actions.get_service(call.database, actor_of(call), service_id))


@routes.patch("/services/{id}", without=(409,))
async def edit_service(write: Write, service_id: str, edit: ServiceEdit) -> ServiceAnswer:
    """Change a service.

    `service_prices` replace the prices as a whole. Checkouts keep the price that they have.
    """
    service = await actions.lock_service(write.tx, write.actor, service_id)
    write.require_match(_shown(service))
    edited = await actions.edit_service(write, service, edit)
    return _shown(edited)


@routes.delete("/services/{id}")
async def delete_service(write: Write, service_id: str) -> Done:
    """Offer a service no longer.

    Its checkouts go on. One on issued invoices stays (409 `has_invoices`): set `active` to false.
    """
    service = await actions.lock_service(write.tx, write.actor, service_id)
    write.require_match(_shown(service))
    await actions.delete_service(write, service)
    return Done()
