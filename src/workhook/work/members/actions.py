"""What can be done with the members of a project: authorise, decide, write, append the event.

Whoever is added may write there, whatever the organization gives. What the organization gives cannot be taken away
here: an owner sees every project, a member all that are not private.
"""

from __future__ import annotations

from workhook.core.errors import Conflict, Fault, Forbidden, Invalid, NotFound
from workhook.identity import audit, invitations
from workhook.identity.actions import remove_collaborator
from workhook.identity.audit import verb_of
from workhook.identity.context import Write
from workhook.identity.schemas import Account, Actor, stand_in_address
from workhook.identity.tokens.lookup import check_reach
from workhook.storage import Reader, Row
from workhook.work.access import Access, find_access
from workhook.work.clients import actions as clients
from workhook.work.invitations.record import invite_collaborator, record_invitation
from workhook.work.members import queries
from workhook.work.members.schemas import MemberAnswer, MemberShape
from workhook.work.people import person_shape
from workhook.work.record_events import publish_event


async def list_members(reader: Reader, actor: Actor, project_id: str, *, after: int, limit: int) -> list[Row]:
    """Raises `NotFound`, `Forbidden`."""
    access = await find_access(reader, actor, project_id)
    access.require_member("see who else is in a project")
    return list(await queries.list_members(reader, access.repository.id, after=after, limit=limit))


async def add_member(write: Write, project_id: str, username: str) -> MemberAnswer:
    """Somebody who was added already, or owns the project, stays as they are: no event. Somebody who shares no
    organization with the project or the caller is invited.

    Raises `NotFound`, `Forbidden`, `Conflict`, and `Invalid` for a name that nobody has or a client has.
    """
    candidate = await queries.find_candidate(write.tx, write.actor, project_id, username)
    _require_admin(candidate.access, "add members")
    account = candidate.account
    if account is None:
        raise _wrong(f"username {username}: there is no such user")
    if candidate.is_client and not candidate.has_place and candidate.role is None:
        raise _wrong(f"username {username} is a client of the project; remove the client first", "is_client")
    repository = candidate.access.repository
    if candidate.role is None and not candidate.is_near:
        await invite_collaborator(write.tx, write.actor, repository, account, "write")
        invited = MemberShape(account.login, account.login, stand_in_address(account.login))
        return MemberAnswer(invited, pending=True)
    if not candidate.owns and await queries.add_member(write.tx, repository, account):
        invitations.withdraw_later(write.tx, repository, account)
        await _tell(write, candidate.access, account, "added")
    person = person_shape(account, organization_id=candidate.organization_id)
    return MemberAnswer(MemberShape(person.login, person.username, person.email, person.avatar, person.id))


async def remove_member(write: Write, project_id: str, username: str) -> None:
    """Anybody can leave, whatever the role, a client too, and also an archived project. Who was only invited is so no
    longer.

    Raises `NotFound`, `Forbidden`, and `Conflict` for somebody whom the organization, not the project, gives the
    place.
    """
    candidate = await queries.find_candidate(write.tx, write.actor, project_id, username)
    access, account = candidate.access, candidate.account
    own = None
    if account is None or account.id != write.actor.user.id:
        _require_admin(access, "remove members")
    elif candidate.is_client:
        own = await clients.lock_own(write.tx, write.actor, access.repository.id)
    if account is not None and await remove_collaborator(
        write.tx, access.repository, account, actor=write.actor, base=write.base
    ):
        await _tell(write, access, account, "removed")
    elif account is not None and await invitations.withdraw(write.tx, access.repository, account):
        await record_invitation(write.tx, write.actor, "delete", access.repository, account.login)
    elif own is None and account is not None and candidate.has_place:
        message = f"{account.login} is here through {access.repository.owner.login}, and was not added to the project."
        raise Conflict(message, code="not_added")
    elif own is None:
        raise NotFound()
    if own is not None:
        await clients.remove_client(write, own)


async def list_people(reader: Reader, actor: Actor, login: str, *, after: int, limit: int) -> list[Row]:
    """Raises `NotFound` for an organization that the caller is not in, or its token does not reach."""
    found = await queries.organization_of(reader, login, actor.user.id)
    if found is None:
        raise NotFound()
    organization_id, role = found
    check_reach(actor, organization_id)
    if role == "owner":
        actor.request.views_as_owner(organization_id)
    return list(await queries.list_people(reader, login, actor.user.id, after=after, limit=limit))


def _require_admin(access: Access, doing: str) -> None:
    access.require_member(doing)
    if access.repository.role != "admin":
        message = f"You need the role admin in the project {access.repository.full_name} to {doing}."
        raise Forbidden(message, code="missing_role")
    access.require_writable()


def _wrong(message: str, code: str = "invalid") -> Invalid:
    return Invalid(faults=[Fault(field="username", code=code, message=message)])


async def _tell(write: Write, access: Access, account: Account, action: str) -> None:
    repository = access.repository
    await publish_event(write, repository, "member", action, person_shape(account))
    await audit.record(
        write.tx,
        write.actor,
        f"member.{verb_of(action)}",
        account.login,
        account_id=repository.owner.id,
        repository_id=repository.id,
    )
