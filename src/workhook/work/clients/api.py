"""`/projects/{id}/clients` and `/clients/{id}`."""

from __future__ import annotations

from workhook.core.records import to_response
from workhook.http import conditions, lists, parameters
from workhook.http.calls import Answer, Call
from workhook.http.lists import ListQuery
from workhook.http.operations import AREA_A, Operation
from workhook.identity.guard import actor_of
from workhook.storage import Transaction
from workhook.storage.database import UniqueViolation
from workhook.work.announce import base_of
from workhook.work.clients import actions
from workhook.work.clients.schemas import ClientAnswer, ClientCreate, ClientsAnswer
from workhook.work.schemas import Done

TAG = "Clients"


async def list_clients(call: Call) -> Answer:
    query = parameters.read_query(call, ListQuery)
    key = lists.after(query, tuple[str])
    found = await actions.list_clients(
        call.database, actor_of(call), call.path("id"), after=key[0] if key else "", limit=query.limit + 1
    )
    clients, headers = lists.page(call, found, query, lambda client: (client.id,))
    return Answer(ClientsAnswer([to_response(each) for each in clients]), headers=headers)


async def add_client(call: Call) -> Answer:
    create = await parameters.read(call, ClientCreate)

    async def change(tx: Transaction) -> Answer:
        added = await actions.add_client(tx, actor_of(call), call.path("id"), create, base=base_of(call))
        return Answer(ClientAnswer(to_response(added)))

    try:
        return await call.write(change)
    except UniqueViolation:  # somebody was invited, or took the login, at the same time: now that is seen
        return await call.write(change)


async def get_client(call: Call) -> Answer:
    found = await actions.get_client(call.database, actor_of(call), call.path("id"))
    return Answer(ClientAnswer(to_response(found.client)))


async def remove_client(call: Call) -> Answer:
    async def change(tx: Transaction) -> Answer:
        found = await actions.take_client(tx, actor_of(call), call.path("id"))
        conditions.require_match(call, ClientAnswer(to_response(found.client)))
        await actions.remove_client(tx, actor_of(call), found, base=base_of(call))
        return Answer(Done())

    return await call.write(change)


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        AREA_A,
        "GET",
        "/projects/{id}/clients",
        list_clients,
        "list_clients",
        "List the clients of a project",
        "work.read",
        tag=TAG,
        query=parameters.documented(ListQuery),
        answers={200: ClientsAnswer},
        problems=(403, 404, 422),
        description="Clients do not see who else is one.",
    ),
    Operation(
        AREA_A,
        "POST",
        "/projects/{id}/clients",
        add_client,
        "add_client",
        "Invite a client to a project",
        "work.write",
        tag=TAG,
        body=ClientCreate,
        query=parameters.documented(ClientCreate, or_body=True),
        answers={200: ClientAnswer},
        problems=(400, 403, 404, 409, 413, 415, 422),
        description="For the team of the project, not for an app by itself. Somebody who has an account with the "
        "e-mail address is linked; else an account is made, without a token. No mail is sent: "
        "whoever runs the server gives the client a token (`workhook token create`). Inviting somebody again changes "
        "nothing.",
    ),
    Operation(
        AREA_A,
        "GET",
        "/clients/{id}",
        get_client,
        "get_client",
        "Get a client",
        "work.read",
        tag=TAG,
        answers={200: ClientAnswer},
        problems=(404,),
        description="A client sees itself only.",
    ),
    Operation(
        AREA_A,
        "DELETE",
        "/clients/{id}",
        remove_client,
        "remove_client",
        "Take a project away from a client",
        "work.write",
        tag=TAG,
        answers={200: Done},
        problems=(403, 404, 409, 412),
        description="For the team of the project, not for an app by itself; a client can leave. The account stays, "
        "with what it made.",
    ),
)
