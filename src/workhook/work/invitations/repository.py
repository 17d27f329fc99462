"""Who is added to a repository: admins invite and remove, everybody accepts, declines and leaves."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.core.errors import Forbidden, NotFound
from workhook.http import parameters
from workhook.http.calls import Answer, Call
from workhook.http.paging import page_link, page_of
from workhook.identity import invitations
from workhook.identity.context import Write
from workhook.identity.guard import actor_of, caller_of
from workhook.identity.invitation_schemas import repository_invitation
from workhook.identity.invitations import Invitation, shares_organization
from workhook.identity.queries import account_columns, find_member_role, key_of
from workhook.identity.schemas import Account, Repository, account_of
from workhook.identity.tables import accounts
from workhook.storage import Reader, Transaction
from workhook.work.invitations.bodies import CollaboratorBody, RepositoryInvitationBody
from workhook.work.invitations.record import invite_collaborator, record_invitation
from workhook.work.members import by_hand, queries

ROLES = {"pull": "read", "push": "write", "admin": "admin"}

_by_login = sa.select(*account_columns(), shares_organization(accounts.c.id).label("is_near")).where(
    accounts.c.kind == "user", accounts.c.login_key == sa.bindparam("login_key")
)


def _repository(call: Call) -> Repository:
    found = caller_of(call).repository
    assert found is not None, "the operation's rule names a repository"
    return found


async def _find_person(reader: Reader, call: Call) -> tuple[Account, bool]:
    """The user whom the path names, and whether they are in an organization together with the caller. Raises
    `NotFound`."""
    params = {"user_id": actor_of(call).user.id, "login_key": key_of(call.path("username"))}
    row = await reader.fetch_one(_by_login, params)
    if row is None:
        raise NotFound()
    return account_of(row), bool(row["is_near"])


async def set_collaborator(call: Call) -> Answer:
    """204: the person is in the repository; 201: was invited."""
    body = parameters.gather(CollaboratorBody, {}, await call.json_object(), resource="Collaborator")
    role = ROLES[body.permission]

    async def step(tx: Transaction) -> Invitation | None:
        repository, actor = _repository(call), actor_of(call)
        person, is_near = await _find_person(tx, call)
        place = await find_member_role(tx, repository.owner.id, person.id)
        if person.id == repository.owner.id or place == "owner":
            return None
        is_near = is_near or place is not None or await queries.is_collaborator(tx, repository, person)
        if not is_near:
            return await invite_collaborator(tx, actor, repository, person, role)
        await by_hand.set_collaborator(Write.for_call(call, tx), repository, person, role)
        return None

    invitation = await call.database.in_transaction(step)
    if invitation is None:
        return Answer(status=204)
    shape = repository_invitation(invitation, call.base)
    return Answer(shape, status=201, headers={"Location": f"{shape.repository.url}/invitations"})


async def remove_collaborator(call: Call) -> Answer:
    """Takes an invitation back, too. Anybody can leave."""

    async def step(tx: Transaction) -> None:
        repository, actor = _repository(call), actor_of(call)
        if key_of(call.path("username")) != key_of(actor.user.login) and repository.role != "admin":
            raise Forbidden("Must have admin rights to Repository.", code="missing_role")
        person, _ = await _find_person(tx, call)
        if await by_hand.remove_collaborator(Write.for_call(call, tx), repository, person):
            return
        if not await invitations.withdraw(tx, repository, person):
            raise NotFound()
        await record_invitation(tx, actor, "delete", repository, person.login)

    await call.database.in_transaction(step)
    return Answer(status=204)


async def list_invitations(call: Call) -> Answer:
    page, per_page = page_of(call)
    found, total = await invitations.list_of_repository(
        call.database, _repository(call), actor_of(call).user, limit=per_page, offset=(page - 1) * per_page
    )
    shapes = [repository_invitation(each, call.base) for each in found]
    return Answer(shapes, headers=page_link(call, page=page, per_page=per_page, total=total))


async def _of_repository(tx: Transaction, call: Call) -> Invitation:
    number = call.path_integer("invitation_id")
    found = await invitations.find_of_repository(tx, _repository(call), number, actor_of(call).user)
    if found is None:
        raise NotFound()
    return found


async def update_invitation(call: Call) -> Answer:
    body = parameters.gather(RepositoryInvitationBody, {}, await call.json_object(), resource="RepositoryInvitation")

    async def step(tx: Transaction) -> Invitation:
        changed = await invitations.change_role(tx, await _of_repository(tx, call), body.permissions)
        if changed is None:
            raise NotFound()
        assert changed.invitee is not None, "nobody is invited to a repository by e-mail"
        await record_invitation(
            tx, actor_of(call), "update", _repository(call), changed.invitee.login, body.permissions
        )
        return changed

    return Answer(repository_invitation(await call.database.in_transaction(step), call.base))


async def cancel_invitation(call: Call) -> Answer:
    async def step(tx: Transaction) -> None:
        await _delete(tx, call, await _of_repository(tx, call))

    await call.database.in_transaction(step)
    return Answer(status=204)


async def _delete(tx: Transaction, call: Call, invitation: Invitation) -> None:
    if not await invitations.delete(tx, invitation):
        raise NotFound()
    assert invitation.repository is not None, "it is to a repository"
    assert invitation.invitee is not None, "nobody is invited to a repository by e-mail"
    await record_invitation(tx, actor_of(call), "delete", invitation.repository, invitation.invitee.login)


# --- the caller's own ------------------------------------------------------------------------------------------------


async def list_own(call: Call) -> Answer:
    page, per_page = page_of(call)
    found, total = await invitations.list_to_repositories(
        call.database, actor_of(call).user, limit=per_page, offset=(page - 1) * per_page
    )
    shapes = [repository_invitation(each, call.base) for each in found]
    return Answer(shapes, headers=page_link(call, page=page, per_page=per_page, total=total))


async def _own(tx: Transaction, call: Call) -> Invitation:
    found = await invitations.find_to_repository(tx, actor_of(call).user, call.path_integer("invitation_id"))
    if found is None:
        raise NotFound()
    return found


async def accept(call: Call) -> Answer:
    async def step(tx: Transaction) -> None:
        await join(Write.for_call(call, tx), await _own(tx, call))

    await call.database.in_transaction(step)
    return Answer(status=204)


async def join(write: Write, invitation: Invitation) -> None:
    """Somebody who has been added meanwhile stays as they are. Raises `NotFound` for an invitation that has gone."""
    taken = await invitations.take(write.tx, invitation)
    if taken is None:
        raise NotFound()
    assert taken.repository is not None, "it is to a repository"
    if not await queries.is_collaborator(write.tx, taken.repository, write.actor.user):
        await by_hand.set_collaborator(write, taken.repository, write.actor.user, taken.role)


async def decline(call: Call) -> Answer:
    async def step(tx: Transaction) -> None:
        await _delete(tx, call, await _own(tx, call))

    await call.database.in_transaction(step)
    return Answer(status=204)
