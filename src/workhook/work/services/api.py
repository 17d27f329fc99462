"""`/services`."""

from __future__ import annotations

from workhook.core.clock import now_ms
from workhook.core.records import to_response
from workhook.http import conditions, lists, parameters
from workhook.http.calls import Answer, Call
from workhook.http.operations import AREA_A, Operation
from workhook.identity.guard import actor_of
from workhook.storage import Transaction
from workhook.work.announce import base_of
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

TAG = "Services"


def _shown(service: Service) -> ServiceAnswer:
    return ServiceAnswer(to_response(service))


async def list_services(call: Call) -> Answer:
    query = parameters.read_query(call, ServiceQuery)
    key = lists.after(query, tuple[str])
    found = await queries.list_services(call.database, actor_of(call), query, after=key[0] if key else None)
    services, headers = lists.page(call, found, query, lambda service: (service.id,))
    return Answer(ServicesAnswer([to_response(each) for each in services]), headers=headers)


async def create_service(call: Call) -> Answer:
    create = await parameters.read(call, ServiceCreate)

    async def change(tx: Transaction) -> Answer:
        created = await actions.create_service(tx, actor_of(call), create, now=now_ms(), base=base_of(call))
        return Answer(_shown(created))

    return await call.write(change)


async def get_service(call: Call) -> Answer:
    return Answer(_shown(await actions.get_service(call.database, actor_of(call), call.path("id"))))


async def edit_service(call: Call) -> Answer:
    edit = await parameters.read(call, ServiceEdit)

    async def change(tx: Transaction) -> Answer:
        service = await actions.take_service(tx, actor_of(call), call.path("id"))
        conditions.require_match(call, _shown(service))
        edited = await actions.edit_service(tx, actor_of(call), service, edit, now=now_ms(), base=base_of(call))
        return Answer(_shown(edited))

    return await call.write(change)


async def delete_service(call: Call) -> Answer:
    async def change(tx: Transaction) -> Answer:
        service = await actions.take_service(tx, actor_of(call), call.path("id"))
        conditions.require_match(call, _shown(service))
        await actions.delete_service(tx, actor_of(call), service, now=now_ms(), base=base_of(call))
        return Answer(Done())

    return await call.write(change)


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        AREA_A,
        "GET",
        "/services",
        list_services,
        "list_services",
        "List the services that the caller's organizations offer",
        "work.read",
        tag=TAG,
        query=parameters.documented(ServiceQuery),
        answers={200: ServicesAnswer},
        problems=(422,),
    ),
    Operation(
        AREA_A,
        "POST",
        "/services",
        create_service,
        "create_service",
        "Offer a service",
        "work.write",
        tag=TAG,
        body=ServiceCreate,
        query=parameters.documented(ServiceCreate, or_body=True),
        answers={200: ServiceAnswer},
        problems=(400, 403, 409, 413, 415, 422),
        description="Only owners of the organization can.",
    ),
    Operation(
        AREA_A,
        "GET",
        "/services/{id}",
        get_service,
        "get_service",
        "Get a service",
        "work.read",
        tag=TAG,
        answers={200: ServiceAnswer},
        problems=(404,),
    ),
    Operation(
        AREA_A,
        "PATCH",
        "/services/{id}",
        edit_service,
        "edit_service",
        "Change a service",
        "work.write",
        tag=TAG,
        body=ServiceEdit,
        query=parameters.documented(ServiceEdit, or_body=True),
        answers={200: ServiceAnswer},
        problems=(400, 403, 404, 412, 413, 415, 422),
        description="`service_prices` replace the prices as a whole. Checkouts keep the price that they have.",
    ),
    Operation(
        AREA_A,
        "DELETE",
        "/services/{id}",
        delete_service,
        "delete_service",
        "Offer a service no longer",
        "work.write",
        tag=TAG,
        answers={200: Done},
        problems=(403, 404, 409, 412),
        description="Its checkouts go on. One on issued invoices stays (409 `has_invoices`): set `active` to false.",
    ),
)
