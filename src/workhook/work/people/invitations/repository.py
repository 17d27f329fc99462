"""Collaborators of a repository. Admins invite and remove people; everyone can accept, decline and leave."""

from __future__ import annotations

from typing import Literal

import msgspec

from workhook.core.errors import Forbidden, NotFound, require_found
from workhook.http.calls import Call, Response
from workhook.http.endpoints import Paged, Routes
from workhook.http.operations import WEBHOOK_API
from workhook.identity import invitations
from workhook.identity.authenticator import actor_of, named_repository
from workhook.identity.context import Write
from workhook.identity.invitations import CLIENT, Invitation
from workhook.identity.profile_schemas import RepositoryInvitation, repository_invitation
from workhook.identity.queries import find_member_role, key_of
from workhook.identity.schemas import Repository
from workhook.storage.pages import Page
from workhook.work.people.clients import add_client
from workhook.work.people.invitations.links import is_in
from workhook.work.people.invitations.organization import INVITED, end_invitation, find_user
from workhook.work.people.membership import (
    invite,
    is_collaborator,
    record_invitation,
    remove_collaborator,
    set_collaborator,
    withdraw_invitation,
)

ROLES = {"pull": "read", "push": "write", "admin": "admin"}

routes = Routes(
    WEBHOOK_API, "people", read="repository.people", write="repository.people", resource="RepositoryInvitation"
)


class CollaboratorBody(msgspec.Struct):
    """The permission to grant in the repository."""

    permission: Literal["pull", "push", "admin"] = "push"


class RepositoryInvitationBody(msgspec.Struct):
    """The permission that the invitation grants in the repository."""

    permissions: Literal["read", "write", "admin"]


@routes.put(
    "/repos/{owner}/{repo}/collaborators/{username}",
    resource="Collaborator",
    answers={201: RepositoryInvitation, 204: None},
    description="Returns 204 if the person now has the role: people who are in the organization or the repository, or "
    f"share another organization with the caller. Returns 201 if the person was invited. {INVITED}.",
    action="member.add",
)
async def repository_collaborators_set(write: Write, username: str, body: CollaboratorBody) -> Response:
    """Add a collaborator to a repository, or invite them."""
    role, repository = ROLES[body.permission], named_repository(write.call)
    user = await find_user(write, username)
    person = user.account
    place = await find_member_role(write.tx, repository.owner.id, person.id)
    if person.id == repository.owner.id or place == "owner":
        return Response(status=204)
    if user.is_known or place is not None or await is_collaborator(write.tx, repository, person):
        await set_collaborator(write, repository, person, role)
        return Response(status=204)
    made = await invite(write, repository, role, invitee=person)
    shape = repository_invitation(made, write.call.base)
    return Response(shape, 201, {"Location": f"{shape.repository.url}/invitations"})


@routes.delete("/repos/{owner}/{repo}/collaborators/{username}", access="repository.leave", action="member.remove")
async def repository_collaborators_remove(write: Write, username: str) -> None:
    """Remove a collaborator from a repository, or leave it.

    Admins can remove others and revoke invitations; everyone can leave. Access through the organization is not
    affected.
    """
    repository = named_repository(write.call)
    if key_of(username) != key_of(write.actor.user.login) and repository.role != "admin":
        raise Forbidden("Must have admin rights to Repository.", code="missing_role")
    person = (await find_user(write, username)).account
    removed = await remove_collaborator(write, repository, person)
    if not removed and not await withdraw_invitation(write, repository, person):
        raise NotFound()


@routes.get("/repos/{owner}/{repo}/invitations")
async def repository_invitations_list(call: Call, page: Page) -> Paged[list[RepositoryInvitation]]:
    """List the invitations to a repository."""
    found, total = await invitations.list_of(call.database, named_repository(call), actor_of(call).user, page)
    return Paged([repository_invitation(each, call.base) for each in found], total)


@routes.patch("/repos/{owner}/{repo}/invitations/{invitation_id}")
async def repository_invitations_update(
    write: Write, invitation_id: int, body: RepositoryInvitationBody
) -> RepositoryInvitation:
    """Change the permission that a repository invitation grants."""
    found = await invitations.get(write.tx, named_repository(write.call), invitation_id, write.actor.user)
    changed = await invitations.change_role(write.tx, found, body.permissions) if found.role != CLIENT else None
    if changed is None:
        raise NotFound()
    await record_invitation(write, changed, "update", detail={"role": body.permissions})
    return repository_invitation(changed, write.call.base)


@routes.delete("/repos/{owner}/{repo}/invitations/{invitation_id}", action="invitation.delete")
async def repository_invitations_cancel(write: Write, invitation_id: int) -> None:
    """Revoke an invitation to a repository, including one for a client."""
    await _delete(write, await invitations.get(write.tx, named_repository(write.call), invitation_id, write.actor.user))


async def _delete(write: Write, invitation: Invitation) -> None:
    if not await end_invitation(write, invitation):
        raise NotFound()


@routes.get("/user/repository_invitations", access="user.invitations", action="invitation.list")
async def user_repository_invitations_list(call: Call, page: Page) -> Paged[list[RepositoryInvitation]]:
    """List the caller's repository invitations."""
    found, total = await invitations.list_for(call.database, actor_of(call).user, Repository, page)
    return Paged([repository_invitation(each, call.base) for each in found], total)


async def _get_own_invitation(write: Write, number: int) -> Invitation:
    return require_found(await invitations.find_to_repository(write.tx, write.actor.user, number))


@routes.patch("/user/repository_invitations/{invitation_id}", access="user.invitations", action="member.add")
async def user_repository_invitations_accept(write: Write, invitation_id: int) -> None:
    """Accept an invitation to a repository."""
    await join(write, await _get_own_invitation(write, invitation_id))


async def join(write: Write, invitation: Invitation) -> None:
    """Accept an invitation. People who were added in the meantime keep their role.

    Raises `NotFound` if the invitation no longer exists.
    """
    taken = require_found(await invitations.take(write.tx, invitation))
    assert taken.repository is not None, "it is to a repository"
    if taken.role == CLIENT:
        assert taken.email is not None, "a client is invited by an address"
        if not await is_in(write.tx, taken, write.actor.user):
            await add_client(write, taken.repository, write.actor.user, taken.email)
    elif not await is_collaborator(write.tx, taken.repository, write.actor.user):
        await set_collaborator(write, taken.repository, write.actor.user, taken.role)


@routes.delete("/user/repository_invitations/{invitation_id}", access="user.invitations", action="invitation.delete")
async def user_repository_invitations_decline(write: Write, invitation_id: int) -> None:
    """Decline an invitation to a repository."""
    await _delete(write, await _get_own_invitation(write, invitation_id))
