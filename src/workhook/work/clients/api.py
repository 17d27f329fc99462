"""`/projects/{id}/clients` and `/clients/{id}`."""

from __future__ import annotations

from workhook.core.records import to_response
from workhook.http import lists
from workhook.http.calls import Call
from workhook.http.endpoints import Listed, Retry, Routes
from workhook.http.lists import ListQuery
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.storage.database import UniqueViolation
from workhook.work.clients import actions
from workhook.work.clients.schemas import ClientAnswer, ClientCreate, ClientsAnswer
from workhook.work.schemas import Done

routes = Routes(WORK_API, "Clients", read="work.read", write="work.write")


@routes.get("/projects/{id}/clients")
async def list_clients(call: Call, project_id: str, query: ListQuery) -> Listed[ClientsAnswer]:
    """List the clients of a project.

    Clients do not see who else is one.
    """
    key = lists.after(query, tuple[str])
    found = await actions.list_clients(
        call.database, actor_of(call), project_id, after=key[0] if key else "", limit=query.limit + 1
    )
    clients, headers = lists.page(call, found, query, lambda client: (client.id,))
    return Listed(ClientsAnswer([to_response(each) for each in clients]), headers)


@routes.post(
    "/projects/{id}/clients", retry=Retry(UniqueViolation)
)  # somebody else invited them, or took the login, too
async def add_client(write: Write, project_id: str, create: ClientCreate) -> ClientAnswer:
    """Invite a client to a project.

    For the team of the project, not for an app by itself. Somebody who has an account with the e-mail address is
    linked; else an account is made, without a token. No mail is sent: whoever runs the server gives the client a
    token (`workhook token create`). Inviting somebody again changes nothing.
    """
    return ClientAnswer(to_response(await actions.add_client(write, project_id, create)))


@routes.get("/clients/{id}")
async def get_client(call: Call, client_id: str) -> ClientAnswer:
    """Get a client.

    A client sees itself only.
    """
    found = await actions.get_client(call.database, actor_of(call), client_id)
    return ClientAnswer(to_response(found.client))


@routes.delete("/clients/{id}")
async def remove_client(write: Write, client_id: str) -> Done:
    """Take a project away from a client.

    For the team of the project, not for an app by itself; a client can leave. The account stays, with what it made.
    """
    found = await actions.lock_client(write.tx, write.actor, client_id)
    write.require_match(ClientAnswer(to_response(found.client)))
    await actions.remove_client(write, found)
    return Done()
