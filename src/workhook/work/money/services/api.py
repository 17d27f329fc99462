"""Services that organizations and users offer: `/services`.

Members of an organization can read its services; its owners create, change and delete them. A user's own services are
visible only to that user.
"""

from __future__ import annotations

import msgspec

from workhook.core.records import Wire, to_response
from workhook.http import lists
from workhook.http.calls import Call
from workhook.http.endpoints import Listed, Routes
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.work.money.services import actions
from workhook.work.money.services.schemas import Service, ServiceAnswer, ServiceQuery

routes = Routes(WORK_API, "Services", read="work.read", write="work.write")


class ServicesAnswer(msgspec.Struct):
    services: list[Wire[Service]]
    success: bool = True


@routes.get("/services")
async def list_services(call: Call, query: ServiceQuery) -> Listed[ServicesAnswer]:
    """List the services of the caller's organizations."""
    found = await actions.find_services(call.database, actor_of(call), query)
    shown, headers = lists.page(call, found, query, lambda service: (service.id,))
    return Listed(ServicesAnswer([to_response(each) for each in shown]), headers)


routes.post("/services")(actions.create_service)


@routes.get("/services/{id}")
async def get_service(call: Call, service_id: str) -> ServiceAnswer:
    """Get a service."""
    return ServiceAnswer(to_response(await actions.find_service(call.database, actor_of(call), service_id)))


routes.patch("/services/{id}", without=(409,))(actions.edit_service)
routes.delete("/services/{id}")(actions.delete_service)
