"""What can be done with the members of a project: authorise, decide, write, append the event.

Whoever is added may write there, whatever the organization gives. What the organization gives cannot be taken away
here: an owner sees every project, a member all that are not private.
"""

from __future__ import annotations

from workhook.core.errors import Conflict, Fault, Forbidden, Invalid, NotFound
from workhook.identity import audit
from workhook.identity.actions import remove_collaborator
from workhook.identity.audit_actions import verb_of
from workhook.identity.schemas import Account, Actor
from workhook.identity.tokens.reach import check_reach
from workhook.storage import Reader, Row, Transaction
from workhook.work.access import Access, find_access
from workhook.work.announce import announce
from workhook.work.members import queries
from workhook.work.people import PersonShape, person_shape


async def list_members(reader: Reader, actor: Actor, project_id: str, *, after: int, limit: int) -> list[Row]:
    """Raises `NotFound`, `Forbidden`."""
    access = await find_access(reader, actor, project_id)
    access.require_member("see who else is in a project")
    return list(await queries.list_members(reader, access.repository.id, after=after, limit=limit))


async def add_member(tx: Transaction, actor: Actor, project_id: str, username: str, *, base: str) -> PersonShape:
    """Somebody who was added already, or owns the project, stays as they are: no event.

    Raises `NotFound`, `Forbidden`, `Conflict`, and `Invalid` for a name that nobody has or a client has.
    """
    candidate = await queries.find_candidate(tx, actor, project_id, username)
    _require_admin(candidate.access, "add members")
    account = candidate.account
    if account is None:
        raise _wrong(f"username {username}: there is no such user")
    if candidate.is_client and not candidate.has_place and candidate.role is None:
        raise _wrong(f"username {username} is a client of the project; remove the client first", "is_client")
    if not candidate.owns and await queries.add_member(tx, candidate.access.repository, account):
        await _tell(tx, actor, candidate.access, account, "added", base)
    return person_shape(account)


async def remove_member(tx: Transaction, actor: Actor, project_id: str, username: str, *, base: str) -> None:
    """Raises `NotFound`, `Forbidden`, and `Conflict` for somebody whom the organization, not the project, gives the
    place."""
    candidate = await queries.find_candidate(tx, actor, project_id, username)
    access, account = candidate.access, candidate.account
    _require_admin(access, "remove members")
    if account is not None and await remove_collaborator(tx, access.repository, account, actor=actor, base=base):
        await _tell(tx, actor, access, account, "removed", base)
    elif account is not None and candidate.has_place:
        message = f"{account.login} is here through {access.repository.owner.login}, and was not added to the project."
        raise Conflict(message, code="not_added")
    else:
        raise NotFound()


async def list_people(reader: Reader, actor: Actor, login: str, *, after: int, limit: int) -> list[Row]:
    """Raises `NotFound` for an organization that the caller is not in, or its token does not reach."""
    organization_id = await queries.organization_of(reader, login, actor.user.id)
    if organization_id is None:
        raise NotFound()
    check_reach(actor, organization_id)
    return list(await queries.list_people(reader, login, actor.user.id, after=after, limit=limit))


def _require_admin(access: Access, doing: str) -> None:
    access.require_member(doing)
    if access.repository.role != "admin":
        message = f"You need the role admin in the project {access.repository.full_name} to {doing}."
        raise Forbidden(message, code="missing_role")
    access.require_writable()


def _wrong(message: str, code: str = "invalid") -> Invalid:
    return Invalid(faults=[Fault(field="username", code=code, message=message)])


async def _tell(tx: Transaction, actor: Actor, access: Access, account: Account, action: str, base: str) -> None:
    repository = access.repository
    await announce(tx, actor, repository, "member", action, person_shape(account), base=base)
    await audit.record(
        tx,
        actor,
        f"member.{verb_of(action)}",
        account.login,
        account_id=repository.owner.id,
        repository_id=repository.id,
    )
