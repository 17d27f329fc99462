"""`/projects/{id}/clients` and `/clients/{id}`.

Owners and admins of a project invite clients, who become clients when they accept. Clients cannot see one another.
"""

from __future__ import annotations

from typing import Any

import msgspec
import sqlalchemy as sa

from workhook.core.clock import to_millis_text
from workhook.core.errors import Forbidden, NotFound, require_found
from workhook.core.ids import new_id
from workhook.core.records import Wire, to_response
from workhook.http.calls import Call
from workhook.http.endpoints import Listed, Routes
from workhook.http.lists import ListQuery
from workhook.http.operations import WORK_API
from workhook.http.wire_types import Time
from workhook.identity import removal
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.identity.invitations import CLIENT
from workhook.identity.queries import find_account, find_repository_by_id
from workhook.identity.schemas import Account, Actor, Repository
from workhook.identity.tables import accounts, projects
from workhook.storage import Reader, Row, Transaction
from workhook.storage.dialects import upsert
from workhook.storage.metadata import bigint_param
from workhook.storage.record_rows import assigned, row_reader, selected, stored_names, values_of
from workhook.work.kernel.access import Access, find_access, find_with_access, to_access, with_access
from workhook.work.kernel.lists import Listing, cursor_of, read_for
from workhook.work.kernel.people import Email
from workhook.work.kernel.record_events import publish_audited
from workhook.work.kernel.schemas import Done
from workhook.work.kernel.scopes import source_of_project
from workhook.work.kernel.tables import Client, clients, without_address
from workhook.work.people.membership import invite, send_link

_own_client = sa.select(clients.c.id).where(
    clients.c.repository_id == bigint_param("repository_id"), clients.c.user_id == bigint_param("user_id")
)
_insert = (
    upsert(clients)
    .values(assigned(("repository_id", *stored_names(Client))))
    .on_conflict_do_nothing(index_elements=["repository_id", "user_id"])
)


async def add_client(write: Write, repository: Repository, account: Account, email: str) -> Client | None:
    """Make a user a client and publish the event, or return None if they already are one. Checks no rights."""
    client = Client(new_id("cli"), account.login, email, write.now, write.now, account.id)
    if not await write.tx.execute(_insert, {"repository_id": repository.id, **values_of(client)}):
        return None
    await publish_audited(write, repository, "client", "added", to_response(without_address(client)), client.id)
    return client


async def is_client(reader: Reader, repository: Repository, user: Account) -> bool:
    return await reader.fetch_one(_own_client, {"repository_id": repository.id, "user_id": user.id}) is not None


_read = row_reader(Client)
_person = accounts.alias("person")
_each = sa.select(*selected(Client, clients, "client_"), _person.c.login.label("client_username")).select_from(
    clients.join(_person, _person.c.id == clients.c.user_id)
)
_of_account = (
    _each.add_columns(clients.c.repository_id, projects.c.account_id)
    .join(projects, projects.c.repository_id == clients.c.repository_id)
    .where(clients.c.user_id == bigint_param("user_id"))
    .order_by(clients.c.id)
    .with_for_update(of=clients)
)
_delete = sa.delete(clients).where(clients.c.id == sa.bindparam("id"))


async def end_clients_of(write: Write, user: Account) -> None:
    """Remove a user from all projects in which they are a client."""
    for row in await write.tx.fetch_all(_of_account, {"user_id": user.id}):
        client = _client_of(row)
        repository = await find_repository_by_id(write.tx, row["repository_id"])
        await write.tx.execute(_delete, {"id": client.id})
        await removal.rights_lost(write.tx, row["account_id"], row["repository_id"], user_id=user.id, base=write.base)
        if repository is not None:  # None: the project is in the trash, where no events are published
            await publish_audited(
                write, repository, "client", "removed", to_response(without_address(client)), client.id
            )


routes = Routes(WORK_API, "Clients")


class ClientCreate(msgspec.Struct):
    """The address to invite. Case is ignored."""

    email: Email


class ClientInvitation(msgspec.Struct):
    """An invitation to become a client. Revoke it with `DELETE /repos/{owner}/{repo}/invitations/{invitation_id}`."""

    id: int
    email: str
    created_at: Time
    expires_at: Time


class InvitedAnswer(msgspec.Struct):
    """Contains the `client` if the address already belongs to a client of the project, or else the `invitation`."""

    client: Wire[Client] | None
    invitation: ClientInvitation | None
    success: bool = True


class ClientAnswer(msgspec.Struct):
    client: Wire[Client]
    success: bool = True


class ClientsAnswer(msgspec.Struct):
    clients: list[Wire[Client]]
    success: bool = True


_client_by_id = with_access(_each.where(clients.c.id == sa.bindparam("id")), clients.c.repository_id)
_locked = _client_by_id.with_for_update(of=clients)
_own_locked = with_access(
    _each.where(clients.c.repository_id == bigint_param("repository_id"), clients.c.user_id == bigint_param("user_id")),
    clients.c.repository_id,
).with_for_update(of=clients)
CLIENTS = Listing[Client](
    clients,
    lambda page, _: _each.join(page, page.c.id == clients.c.id),
    lambda row, _, __: _client_of(row),
)

_with_address = _each.where(
    clients.c.repository_id == bigint_param("repository_id"),
    # Matches the address the team entered, not the account's, so that the response reveals nothing about accounts.
    sa.func.lower(clients.c.email) == sa.func.lower(sa.bindparam("email", type_=sa.Text)),
).limit(sa.literal(1, sa.BigInteger))


@routes.get("/projects/{id}/clients")
async def list_clients(call: Call, project_id: str, query: ListQuery) -> Listed[ClientsAnswer]:
    """List the clients of a project.

    Clients cannot see the other clients.
    """
    after = cursor_of(query)
    access = await find_access(call.database, actor_of(call), project_id)
    access.require_member("see other clients")
    page, headers = await read_for(call, CLIENTS, source_of_project(access), query, after)
    return Listed(ClientsAnswer([to_response(_as_seen(access, each)) for each in page]), headers)


def _as_seen(access: Access, client: Client) -> Client:
    """Return the client, without its address unless the caller is that client or has write access to the project."""
    is_seen = client.user_id == access.user.id or not (access.is_client or access.reads_only)
    return client if is_seen else without_address(client)


_names = (
    sa.select(clients.c.id, _person.c.name)
    .join_from(clients, _person, _person.c.id == clients.c.user_id)
    .where(clients.c.repository_id == bigint_param("repository_id"))
    .order_by(clients.c.id)
    .limit(bigint_param("limit"))
)


async def list_client_names(reader: Reader, access: Access, limit: int) -> dict[str, str | None]:
    """Return the names of the project's first clients, by client ID. Raises `Forbidden` for a client."""
    access.require_member("see other clients")
    rows = await reader.fetch_all(_names, {"repository_id": access.repository.id, "limit": limit})
    return {row["id"]: row["name"] for row in rows}


def _client_of(row: Row) -> Client:
    return _read(row, row["client_username"])


async def _find_client(
    reader: Reader, statement: sa.Select[Any], actor: Actor, client_id: str
) -> tuple[Access, Client]:
    """Return a client and the caller's access. Raises `NotFound`, also if a client requests another one."""
    row, access = await find_with_access(reader, statement, actor, id=client_id)
    client = _client_of(row)
    if access.is_client and client.user_id != access.user.id:
        raise NotFound()
    return access, client


@routes.post("/projects/{id}/clients")
async def invite_client(write: Write, project_id: str, create: ClientCreate) -> InvitedAnswer:
    """Invite a client to a project.

    Only owners and admins of the project can call this, not an app acting on its own. The invited person becomes a
    client when they accept: through the link that is e-mailed to them or, if they have an account with the address, on
    their start page or with `PATCH /user/repository_invitations/{id}`. On a server without e-mail, create a link in the
    project's settings and send it yourself. Inviting a person again renews the invitation. The response never reveals
    whether the address has an account.
    """
    access = await find_access(write.tx, write.actor, project_id)
    _require_person(write.actor, access, "invite clients")
    if access.repository.role != "admin":
        raise Forbidden("Only owners and admins of a project can invite clients.", code="missing_role")
    repository = access.repository
    row = await write.tx.fetch_one(_with_address, {"repository_id": repository.id, "email": create.email})
    if row is not None:
        return InvitedAnswer(to_response(_client_of(row)), None)
    made = await invite(write, repository, CLIENT, email=create.email, field="email")
    await send_link(write, made)
    return InvitedAnswer(
        None, ClientInvitation(made.id, create.email, to_millis_text(made.created_at), to_millis_text(made.expires_at))
    )


async def restore_client(write: Write, project_id: str, login: str, email: str) -> Client:
    """Undo a removal of a client by the caller. Raises `NotFound`, `Forbidden` and `Conflict`."""
    access = await find_access(write.tx, write.actor, project_id)
    _require_person(write.actor, access, "invite clients")
    account = require_found(await find_account(write.tx, login))
    return require_found(await add_client(write, access.repository, account, email))


@routes.get("/clients/{id}")
async def get_client(call: Call, client_id: str) -> ClientAnswer:
    """Get a client.

    Clients can only get themselves.
    """
    access, client = await _find_client(call.database, _client_by_id, actor_of(call), client_id)
    return ClientAnswer(to_response(_as_seen(access, client)))


@routes.delete("/clients/{id}")
async def remove_client(write: Write, client_id: str) -> Done:
    """Remove a client from a project.

    Only the project's team can remove clients, not an app acting on its own; clients can leave. The account and
    everything it created are kept.
    """
    access, client = await lock_client(write, client_id)
    write.require_match(ClientAnswer(to_response(_as_seen(access, client))))
    await delete_client(write, access, client)
    return Done()


async def lock_client(write: Write, client_id: str) -> tuple[Access, Client]:
    """Lock a client and return it with the caller's access to the project. Raises `NotFound`."""
    return await _find_client(write.tx, _locked, write.actor, client_id)


async def lock_own(tx: Transaction, actor: Actor, repository_id: int) -> tuple[Access, Client] | None:
    """Lock the caller as a client. Returns None if the caller is not a client."""
    row = await tx.fetch_one(_own_locked, {"repository_id": repository_id, "user_id": actor.user.id})
    return (to_access(row, actor), _client_of(row)) if row else None


async def delete_client(write: Write, access: Access, client: Client) -> None:
    """Remove a locked client from the project, keeping the account. Raises `Forbidden` and `Conflict`."""
    if client.user_id != write.actor.user.id:  # everyone can leave
        _require_person(write.actor, access, "remove clients")
    await write.tx.execute(_delete, {"id": client.id})
    repository = access.repository
    await removal.rights_lost(
        write.tx, repository.owner.id, repository.id, user_id=client.user_id, actor=write.actor, base=write.base
    )
    await publish_audited(write, repository, "client", "removed", to_response(without_address(client)), client.id)


def _require_person(actor: Actor, access: Access, doing: str) -> None:
    """Raise `Forbidden` for an app acting on its own, which must not decide who is in a project."""
    access.require_member(doing)
    if actor.installation_id is not None:
        message = f"Apps acting on their own cannot {doing}. A member of {access.repository.full_name} must do this."
        raise Forbidden(message, code="missing_role")
    access.require_writable()
