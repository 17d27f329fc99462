"""`/projects/{id}/clients` and `/clients/{id}`.

Members and owners of a project invite clients. There is no mail: the invitation is the record, and whoever runs
Workhook gives the client a token. Clients do not see one another.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, Meta, UnsetType

from workhook.core import json
from workhook.core.errors import Fault, Forbidden, Invalid, NotFound
from workhook.core.ids import new_id, slug
from workhook.core.records import Wire, to_response
from workhook.http import lists
from workhook.http.calls import Call
from workhook.http.endpoints import Listed, Retry, Routes
from workhook.http.operations import WORK_API
from workhook.http.parameters import Checked
from workhook.identity import removal, reserved
from workhook.identity.actions import create_account, lock_address
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.identity.queries import find_account, key_of
from workhook.identity.schemas import Account, Actor, Repository
from workhook.identity.tables import accounts, collaborators, memberships, projects
from workhook.storage import Reader, Row, Transaction
from workhook.storage.database import UniqueViolation
from workhook.storage.dialects import json_rows, upsert
from workhook.storage.metadata import big
from workhook.storage.record_rows import assigned, row_reader, selected, stored_names, values_of
from workhook.work.access import Access, access_of, find_access, find_with_access, role_in, with_access
from workhook.work.clients.schemas import Client, Email, clients
from workhook.work.record_events import publish_audited
from workhook.work.schemas import Done

routes = Routes(WORK_API, "Clients", read="work.read", write="work.write")


LOGIN_MAX_CHARS = 39
_LOGIN = r"[A-Za-z0-9](?:-?[A-Za-z0-9])*"


def _not_a_login(text: str) -> str | None:
    if len(text) <= LOGIN_MAX_CHARS and re.fullmatch(_LOGIN, text):
        return None
    return f"1 to {LOGIN_MAX_CHARS} letters, digits and single hyphens"


Username = Annotated[
    str,
    Meta(
        description="Name of the account, if one is made.",
        extra_json_schema={"pattern": f"^{_LOGIN}$", "maxLength": LOGIN_MAX_CHARS},
    ),
    Checked(_not_a_login),
]


class ClientCreate(msgspec.Struct):
    """The account with this e-mail address (upper and lower case are the same) becomes the client. Without one, an
    account is made."""

    email: Email
    username: Username | UnsetType = UNSET


class ClientAnswer(msgspec.Struct):
    client: Wire[Client]
    success: bool = True


class ClientsAnswer(msgspec.Struct):
    clients: list[Wire[Client]]
    success: bool = True


class Invitee(msgspec.Struct, frozen=True):
    """A user whom an invitation may mean. `client` is their record in this project."""

    account: Account
    is_member: bool
    client: Client | None


_person = accounts.alias("person")
_each = sa.select(*selected(Client, clients, "client_"), _person.c.login.label("client_username")).select_from(
    clients.join(_person, _person.c.id == clients.c.user_id)
)
_read = row_reader(Client)
_one = with_access(_each.where(clients.c.id == sa.bindparam("id")), clients.c.repository_id)
_locked = _one.with_for_update(of=clients)
_own_locked = with_access(
    _each.where(clients.c.repository_id == big("repository_id"), clients.c.user_id == big("user_id")),
    clients.c.repository_id,
).with_for_update(of=clients)
_own = sa.select(clients.c.id).where(
    clients.c.repository_id == big("repository_id"), clients.c.user_id == big("user_id")
)
_page = (
    _each.where(clients.c.repository_id == big("repository_id"), clients.c.id > sa.bindparam("after"))
    .order_by(clients.c.id)
    .limit(big("limit"))
)

# The users with an address or a name, and what they are in the project.
_place = projects.alias("place")
_here = clients.alias("here")
_organization_role = role_in(memberships, _place, _person.c.id)
_is_member = sa.or_(
    _person.c.id == _place.c.account_id,
    _organization_role == "owner",
    sa.and_(_organization_role.is_not(None), _place.c.private.is_(sa.false())),
    role_in(collaborators, _place, _person.c.id).is_not(None),
)
_people = (
    sa.select(
        json_rows(
            *(_person.c[name] for name in Account.__struct_fields__),
            sa.case((_is_member, 1), else_=0),
            *selected(Client, _here),
        )
    )
    .select_from(
        _person.outerjoin(
            _here, sa.and_(_here.c.repository_id == _place.c.repository_id, _here.c.user_id == _person.c.id)
        )
    )
    .where(
        _person.c.kind == "user",
        sa.or_(
            # The database's own `lower` on both sides: what each does with letters beyond ASCII differs.
            sa.func.lower(_person.c.email) == sa.func.lower(sa.bindparam("email", type_=sa.Text)),
            _person.c.login_key == sa.bindparam("login_key", type_=sa.Text),
        ),
    )
    .correlate(_place)
    .scalar_subquery()
)
_other = accounts.alias("other")
_taken = (
    sa.select(json_rows(_other.c.login_key))
    .where(_other.c.login_key.like(sa.bindparam("pattern", type_=sa.Text)))
    .scalar_subquery()
)
_invitation = with_access(
    sa.select(_people.label("people"), _taken.label("taken"))
    .select_from(_place)
    .where(_place.c.id == sa.bindparam("project_id")),
    _place.c.repository_id,
)

_insert = (
    upsert(clients)
    .values(assigned(("repository_id", *stored_names(Client))))
    .on_conflict_do_nothing(index_elements=["repository_id", "user_id"])
)
_delete = sa.delete(clients).where(clients.c.id == sa.bindparam("id"))
_OF_ACCOUNT = len(Account.__struct_fields__)
_read_linked = row_reader(Client, _OF_ACCOUNT + 1)


@routes.get("/projects/{id}/clients")
async def list_clients(call: Call, project_id: str, query: lists.ListQuery) -> Listed[ClientsAnswer]:
    """List the clients of a project.

    A client does not see the other clients.
    """
    key = lists.after(query, tuple[str])
    access = await find_access(call.database, actor_of(call), project_id)
    access.require_member("see who else is a client")
    params = {"repository_id": access.repository.id, "after": key[0] if key else "", "limit": query.limit + 1}
    found = [_client_of(row) for row in await call.database.fetch_all(_page, params)]
    page, headers = lists.page(call, found, query, lambda client: (client.id,))
    return Listed(ClientsAnswer([to_response(each) for each in page]), headers)


_names = (
    sa.select(clients.c.id, _person.c.name)
    .join_from(clients, _person, _person.c.id == clients.c.user_id)
    .where(clients.c.repository_id == big("repository_id"))
    .order_by(clients.c.id)
    .limit(big("limit"))
)


async def list_client_names(reader: Reader, access: Access, limit: int) -> dict[str, str | None]:
    """What the first clients of a project are called, by the ids of the clients. Raises `Forbidden` for a client."""
    access.require_member("see who else is a client")
    rows = await reader.fetch_all(_names, {"repository_id": access.repository.id, "limit": limit})
    return {row["id"]: row["name"] for row in rows}


def _client_of(row: Row) -> Client:
    return _read(row, row["client_username"])


async def _find_client(
    reader: Reader, statement: sa.Select[Any], actor: Actor, client_id: str
) -> tuple[Access, Client]:
    """A client finds itself only. Raises `NotFound`."""
    row, access = await find_with_access(reader, statement, actor, id=client_id)
    client = _client_of(row)
    if access.is_client and client.user_id != access.user.id:
        raise NotFound()
    return access, client


# The change is tried again where somebody else invited the same person, or took the login.
@routes.post("/projects/{id}/clients", retry=Retry(UniqueViolation))
async def add_client(write: Write, project_id: str, create: ClientCreate) -> ClientAnswer:
    """Invite a client to a project.

    For the team of the project, not for an app by itself. If an account has this e-mail address, it becomes the client.
    Otherwise an account without a token is made. No mail is sent: whoever runs the server gives the client a token
    (`workhook token create`). Inviting somebody again changes nothing.
    """
    return ClientAnswer(to_response(await invite_client(write, project_id, create)))


async def invite_client(write: Write, project_id: str, create: ClientCreate) -> Client:
    """A user who is a client already stays as they are: there is no event.

    Raises `NotFound`, `Forbidden`, `Conflict`, `Invalid`; `UniqueViolation` if somebody else took the login or invited
    the same person meanwhile: try again.
    """
    username = None if isinstance(create.username, UnsetType) else create.username
    login = username or login_from(create.email)
    await lock_address(write.tx, create.email)
    row, access = await find_with_access(
        write.tx,
        _invitation,
        write.actor,
        project_id=project_id,
        email=create.email,
        login_key=None if username is None else key_of(username),
        # A suffix can replace the last characters of a login of full length.
        pattern=key_of(login)[: LOGIN_MAX_CHARS - 8] + "%",
    )
    people = sorted(map(_invitee_of, json.decode(row["people"])), key=lambda each: each.account.id)
    taken = {login_key for (login_key,) in json.decode(row["taken"])}
    _require_person(write.actor, access, "invite clients")
    invitee = _choose_invitee(people, taken, create.email, username)
    if invitee is None:
        if username is not None and (reserved_because := reserved.login_fault(username, "username")):
            raise _invalid("username", reserved_because, "reserved")
        account = await _create_account(write.tx, username or first_free(login, taken | reserved.LOGINS), create.email)
    elif invitee.is_member:
        raise _invalid("email", f"{create.email} is in the project already, as a member", "is_member")
    elif invitee.client is not None:
        return invitee.client
    else:
        account = invitee.account
    client = await put_in(write, access.repository, account, create.email)
    if client is None:
        raise UniqueViolation("somebody else invited the same person meanwhile")
    return client


async def put_in(write: Write, repository: Repository, account: Account, email: str) -> Client | None:
    """Make a user a client, and tell of it. None: the user is one already. The caller has decided."""
    client = Client(new_id("cli"), account.login, email, write.now, write.now, account.id)
    if not await write.tx.execute(_insert, {"repository_id": repository.id, **values_of(client)}):
        return None
    await publish_audited(write, repository, "client", "added", to_response(client), client.id)
    return client


async def put_back(write: Write, project_id: str, login: str, email: str) -> Client:
    """Make somebody a client again whom the caller has just removed. Raises `NotFound`, `Forbidden`, `Conflict`."""
    access = await find_access(write.tx, write.actor, project_id)
    _require_person(write.actor, access, "invite clients")
    account = await find_account(write.tx, login)
    client = None if account is None else await put_in(write, access.repository, account, email)
    if client is None:
        raise NotFound()
    return client


async def is_client(reader: Reader, repository: Repository, user: Account) -> bool:
    """Whether the user is a client of the project."""
    return await reader.fetch_one(_own, {"repository_id": repository.id, "user_id": user.id}) is not None


@routes.get("/clients/{id}")
async def get_client(call: Call, client_id: str) -> ClientAnswer:
    """Get a client.

    A client sees only itself.
    """
    _, client = await _find_client(call.database, _one, actor_of(call), client_id)
    return ClientAnswer(to_response(client))


@routes.delete("/clients/{id}")
async def remove_client(write: Write, client_id: str) -> Done:
    """Remove a client from a project.

    For the team of the project, not for an app by itself; a client can leave. The account stays, with everything it
    made.
    """
    access, client = await lock_client(write, client_id)
    write.require_match(ClientAnswer(to_response(client)))
    await end_client(write, access, client)
    return Done()


async def lock_client(write: Write, client_id: str) -> tuple[Access, Client]:
    """The client, whom nobody else removes until the transaction ends, and the caller's access to the project. Raises
    `NotFound`."""
    return await _find_client(write.tx, _locked, write.actor, client_id)


async def lock_own(tx: Transaction, actor: Actor, repository_id: int) -> tuple[Access, Client] | None:
    """The caller as a client, whom nobody else removes until the transaction ends; None: the caller is no client."""
    row = await tx.fetch_one(_own_locked, {"repository_id": repository_id, "user_id": actor.user.id})
    return (access_of(row, actor), _client_of(row)) if row else None


async def end_client(write: Write, access: Access, client: Client) -> None:
    """Take the project away from the client, who is locked. The account stays. Raises `Forbidden`, `Conflict`."""
    if client.user_id != write.actor.user.id:  # anybody can leave
        _require_person(write.actor, access, "remove clients")
    await write.tx.execute(_delete, {"id": client.id})
    here = access.repository
    await removal.rights_lost(
        write.tx, here.owner.id, here.id, user_id=client.user_id, actor=write.actor, base=write.base
    )
    await publish_audited(write, here, "client", "removed", to_response(client), client.id)


def _require_person(actor: Actor, access: Access, doing: str) -> None:
    """An app by itself does not decide who is in a project: it adds no members, either (`work.members`)."""
    access.require_member(doing)
    if actor.installation_id is not None:
        message = f"An app by itself does not {doing}: somebody who is in {access.repository.full_name} has to."
        raise Forbidden(message, code="missing_role")
    access.require_writable()


def _invitee_of(row: Sequence[Any]) -> Invitee:
    account, is_member, client_id = Account(*row[:_OF_ACCOUNT]), *row[_OF_ACCOUNT : _OF_ACCOUNT + 2]
    return Invitee(account, bool(is_member), None if client_id is None else _read_linked(row, account.login))


def _choose_invitee(people: Sequence[Invitee], taken: set[str], email: str, username: str | None) -> Invitee | None:
    """The person with the name, or else the one with the address. Of several it is a member or client of the project,
    or else the oldest account. An account whose address is another is not given away by its name alone.
    """
    if username is not None:
        named = next((each for each in people if key_of(each.account.login) == key_of(username)), None)
        same = named is not None and (named.account.email or "").casefold() == email.casefold()
        if same:
            return named
        if named is not None or key_of(username) in taken:  # perhaps by an organization
            raise _invalid("username", f"username {username} is taken", "already_exists")
    in_project = [each for each in people if each.is_member or each.client is not None]
    return next(iter([*in_project, *people]), None)


async def _create_account(tx: Transaction, login: str, email: str) -> Account:
    try:
        return await create_account(tx, "user", login, name=None, email=email)
    except Invalid as taken:  # it was free when the invitation was looked at
        raise UniqueViolation(f"somebody took the login {login} meanwhile") from taken


def _invalid(field: str, message: str, code: str) -> Invalid:
    return Invalid(faults=[Fault(field=field, code=code, message=message)])


def login_from(email: str) -> str:
    """Make a login from what stands before the `@`: `Jo.Müller+x@…` gives `jo-muller-x`."""
    return slug(email.partition("@")[0], LOGIN_MAX_CHARS, otherwise="client")


def first_free(login: str, taken: set[str]) -> str:
    """`login`, or with the first suffix `-2`, `-3` … that is not taken."""
    if login not in taken:
        return login
    number = 2
    while (numbered := login[: LOGIN_MAX_CHARS - len(f"-{number}")].rstrip("-") + f"-{number}") in taken:
        number += 1
    return numbered
