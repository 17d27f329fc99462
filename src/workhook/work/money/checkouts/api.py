"""Service checkouts: `/projects/{id}/service_checkouts` and `/service_checkouts`.

Owners and members create, pause, cancel and delete checkouts; clients can read them.
"""

from __future__ import annotations

from workhook.core.clock import now_ms
from workhook.http import parameters
from workhook.http.calls import Call
from workhook.http.endpoints import Listed, Routes
from workhook.http.lists import ListQuery
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.work.kernel.access import find_access
from workhook.work.kernel.lists import cursor_of, read_for
from workhook.work.kernel.scopes import source_of_project
from workhook.work.money.checkouts import billing
from workhook.work.money.checkouts.schemas import (
    ServiceCheckoutAnswer,
    ServiceCheckoutCancel,
    ServiceCheckoutsAnswer,
    checkout_to_response,
)

routes = Routes(WORK_API, "Service Checkouts", read="work.read", write="work.write")


@routes.get("/projects/{id}/service_checkouts")
async def list_service_checkouts(call: Call, project_id: str, query: ListQuery) -> Listed[ServiceCheckoutsAnswer]:
    """List the service checkouts of a project."""
    after = cursor_of(query)
    source = source_of_project(await find_access(call.database, actor_of(call), project_id))
    checkouts, headers = await read_for(call, billing.CHECKOUTS, source, query, after)
    now = now_ms()
    return Listed(ServiceCheckoutsAnswer([checkout_to_response(each, now) for each in checkouts]), headers)


routes.post("/projects/{id}/service_checkouts")(billing.create_service_checkout)


@routes.get("/service_checkouts/{id}")
async def get_service_checkout(call: Call, service_checkout_id: str) -> ServiceCheckoutAnswer:
    """Get a service checkout."""
    _, checkout = await billing.find_checkout(call.database, actor_of(call), service_checkout_id)
    return ServiceCheckoutAnswer(checkout_to_response(checkout, now_ms()))


routes.post("/service_checkouts/{id}/complete")(billing.complete_service_checkout)
routes.post("/service_checkouts/{id}/pause")(billing.pause_service_checkout)
routes.post("/service_checkouts/{id}/unpause")(billing.unpause_service_checkout)
routes.post("/service_checkouts/{id}/cancel", query=parameters.documented(ServiceCheckoutCancel))(
    billing.cancel_service_checkout
)

routes.delete("/service_checkouts/{id}")(billing.delete_service_checkout)
