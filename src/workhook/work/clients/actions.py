"""What can be done with clients: authorise, decide, write, append the event.

Members and owners of a project invite clients. There is no mail: the invitation is the record, and whoever runs
Workhook gives the client a token. Clients do not see one another.
"""

from __future__ import annotations

from msgspec import UnsetType

from workhook.core.errors import Fault, Forbidden, Invalid, NotFound
from workhook.core.ids import new_id
from workhook.core.records import to_response
from workhook.identity import audit, removal
from workhook.identity.actions import create_account, lock_address
from workhook.identity.audit import verb_of
from workhook.identity.context import Write
from workhook.identity.queries import key_of
from workhook.identity.schemas import Account, Actor
from workhook.storage import Reader, Transaction
from workhook.storage.database import UniqueViolation
from workhook.work.access import Access, find_access
from workhook.work.clients import queries
from workhook.work.clients.queries import FoundClient, Invitation, Person
from workhook.work.clients.schemas import (
    Client,
    ClientCreate,
    first_free,
    login_from,
)
from workhook.work.record_events import publish_event


async def list_clients(reader: Reader, actor: Actor, project_id: str, *, after: str, limit: int) -> list[Client]:
    """Raises `NotFound`, `Forbidden`."""
    access = await find_access(reader, actor, project_id)
    access.require_member("see who else is a client")
    return await queries.list_clients(reader, access.repository.id, after=after, limit=limit)


async def get_client(reader: Reader, actor: Actor, client_id: str) -> FoundClient:
    """A client finds itself only. Raises `NotFound`."""
    return _visible(await queries.find_client(reader, actor, client_id))


async def lock_client(tx: Transaction, actor: Actor, client_id: str) -> FoundClient:
    """A client that is to be changed: nobody else removes it until the transaction ends."""
    return _visible(await queries.lock_client(tx, actor, client_id))


async def lock_own(tx: Transaction, actor: Actor, repository_id: int) -> FoundClient | None:
    """The caller as a client, whom nobody else removes until the transaction ends; None: the caller is no client."""
    return await queries.lock_own(tx, actor, repository_id)


async def add_client(write: Write, project_id: str, create: ClientCreate) -> Client:
    """Who is a client already stays as they are: no event.

    Raises `NotFound`, `Forbidden`, `Conflict`, `Invalid`; `UniqueViolation` if somebody else took the login meanwhile:
    the same again finds another.
    """
    username = None if isinstance(create.username, UnsetType) else create.username
    login = username or login_from(create.email)
    await lock_address(write.tx, create.email)
    invitation = await queries.find_invitation(
        write.tx, write.actor, project_id, email=create.email, username=username, login=key_of(login)
    )
    access = invitation.access
    _require_person(write.actor, access, "invite clients")
    person = _meant(invitation, create.email, username)
    if person is not None and person.has_place:
        raise _wrong("email", f"{create.email} is in the project already, as a member", "is_member")
    if person is not None and person.client is not None:
        return person.client
    if person is not None:
        account = person.account
    else:
        account = await _invite(write.tx, username or first_free(login, invitation.taken), create.email)
    return await _link(write, access, account, create.email)


async def remove_client(write: Write, found: FoundClient) -> None:
    """The account stays. `found` is what `lock_client` or `lock_own` gave. Raises `Forbidden`, `Conflict`."""
    access, client = found.access, found.client
    if client.user_id != write.actor.user.id:  # anybody can leave
        _require_person(write.actor, access, "remove clients")
    await queries.delete_client(write.tx, client.id)
    here = access.repository
    await removal.rights_lost(
        write.tx, here.owner.id, here.id, user_id=client.user_id, actor=write.actor, base=write.base
    )
    await _tell(write, access, client, "removed")


def _require_person(actor: Actor, access: Access, doing: str) -> None:
    """An app by itself does not decide who is in a project: it adds no members, either (`work.members`)."""
    access.require_member(doing)
    if actor.installation_id is not None:
        message = f"An app by itself does not {doing}: somebody who is in {access.repository.full_name} has to."
        raise Forbidden(message, code="missing_role")
    access.require_writable()


def _visible(found: FoundClient) -> FoundClient:
    if found.access.is_client and found.client.user_id != found.access.user.id:
        raise NotFound()
    return found


def _meant(invitation: Invitation, email: str, username: str | None) -> Person | None:
    """The person with the name, or else the one with the address; of several the client, or else the oldest account.

    An account whose address is another is not given away by its name alone.
    """
    if username is not None:
        named = [each for each in invitation.people if key_of(each.account.login) == key_of(username)]
        if named and not _same(named[0].account.email, email):
            raise _wrong("username", f"username {username} is taken", "already_exists")
        if named:
            return named[0]
        if key_of(username) in invitation.taken:  # by an organization
            raise _wrong("username", f"username {username} is taken", "already_exists")
    with_place = [each for each in invitation.people if each.has_place or each.client is not None]
    return next(iter([*with_place, *invitation.people]), None)


async def _invite(tx: Transaction, login: str, email: str) -> Account:
    try:
        return await create_account(tx, "user", login, name=None, email=email)
    except Invalid as taken:  # it was free when the invitation was looked at
        raise UniqueViolation(f"somebody took the login {login} meanwhile") from taken


def _same(one: str | None, other: str) -> bool:
    return one is not None and one.casefold() == other.casefold()


async def _link(write: Write, access: Access, account: Account, email: str) -> Client:
    client = Client(new_id("cli"), account.login, email, write.now, write.now, account.id)
    if not await queries.insert_client(write.tx, access.repository.id, client):
        raise UniqueViolation("somebody else invited the same person meanwhile")
    await _tell(write, access, client, "added")
    return client


def _wrong(field: str, message: str, code: str) -> Invalid:
    return Invalid(faults=[Fault(field=field, code=code, message=message)])


async def _tell(write: Write, access: Access, client: Client, action: str) -> None:
    repository = access.repository
    await publish_event(write, repository, "client", action, to_response(client))
    await audit.record(
        write.tx,
        write.actor,
        f"client.{verb_of(action)}",
        client.id,
        account_id=repository.owner.id,
        repository_id=repository.id,
    )
