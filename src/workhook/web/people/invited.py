"""The invitations that wait for the visitor's answer: they are on `/`, and each form there leads back to it."""

from __future__ import annotations

import asyncio

from workhook.core.errors import existing
from workhook.http.calls import Answer
from workhook.identity import invitations
from workhook.identity.context import Write
from workhook.identity.invitations import Invitation
from workhook.identity.schemas import Account, Repository
from workhook.storage.pages import Page
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext
from workhook.work.people.invitations import organization, repository

places = Places("invitations")

SHOWN_MAX = 20


async def find_invitations(visit: Visit) -> list[Invitation]:
    """To organizations, then to projects; of each kind the oldest twenty."""
    reader, user, page = visit.database, visit.actor.user, Page(SHOWN_MAX)
    found = await asyncio.gather(
        invitations.list_for(reader, user, Account, page), invitations.list_for(reader, user, Repository, page)
    )
    return [each for some, _ in found for each in some]


@places.post("/invitations/organizations/{org}/accept", action="member.add")
async def accept_organization(visit: Visit) -> Answer:
    """Become a member of an organization."""
    body = organization.AcceptBody(state="active")
    joined = await visit.change(lambda write: organization.user_memberships_accept(write, visit.path("org"), body))
    login = joined.organization.login
    return visit.done(f"/{login}", gettext("You are in %(organization)s now.") % {"organization": login})


@places.post("/invitations/organizations/{org}/decline", action="invitation.delete")
async def decline_organization(visit: Visit) -> Answer:
    """Decline the invitations to an organization."""
    await visit.change(lambda write: organization.decline(write, visit.path("org")))
    return visit.done("/", gettext("You declined the invitation."))


@places.post("/invitations/projects/{invitation_id}/accept", action="member.add")
async def accept_project(visit: Visit) -> Answer:
    """Join a project."""
    invitation_id = visit.call.path_integer("invitation_id")

    async def accept(write: Write) -> Invitation:
        found = existing(await invitations.find_to_repository(write.tx, write.actor.user, invitation_id))
        await repository.join(write, found)
        return found

    joined = (await visit.change(accept)).repository
    assert joined is not None, "it is to a project"
    return visit.done(f"/{joined.full_name}", gettext("You are in the project now."))


@places.post("/invitations/projects/{invitation_id}/decline", action="invitation.delete")
async def decline_project(visit: Visit) -> Answer:
    """Decline an invitation to a project."""
    invitation_id = visit.call.path_integer("invitation_id")
    await visit.change(lambda write: repository.user_repository_invitations_decline(write, invitation_id))
    return visit.done("/", gettext("You declined the invitation."))
