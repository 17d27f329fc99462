"""Add, change and remove members and collaborators: the write, its event and its entry in the audit log. Links to
invitations are made, and sent to the address that is invited where there is a mail server.

These functions check no role: the caller has decided. `write.caller` is the sender of the event; on the command line it
is None, since those who run Workhook add people directly. A changed role has no event.
"""

from __future__ import annotations

import sqlalchemy as sa

from workhook.identity import actions, invitations
from workhook.identity.context import Write
from workhook.identity.invitations import BY_EMAIL, Invitation, InvitationLink, make_link
from workhook.identity.mail import recipients
from workhook.identity.mail.links import queue_invitation_link
from workhook.identity.queries import find_member_role
from workhook.identity.schemas import Account, Repository
from workhook.identity.tables import collaborators
from workhook.storage import Reader
from workhook.storage.metadata import big
from workhook.work.kernel.people import person_shape
from workhook.work.kernel.record_events import publish_audited, record_audit

_collaborator = sa.select(collaborators.c.role).where(
    collaborators.c.repository_id == big("repository_id"), collaborators.c.user_id == big("user_id")
)


async def is_collaborator(reader: Reader, repository: Repository, user: Account) -> bool:
    params = {"repository_id": repository.id, "user_id": user.id}
    return await reader.fetch_one(_collaborator, params) is not None


async def set_member(write: Write, organization: Account, user: Account, role: str) -> None:
    """Add to an organization, or change the role. Raises `Invalid` where the last owner would lose the role."""
    was = await find_member_role(write.tx, organization.id, user.id)
    await actions.set_member(write.tx, organization, user, role, actor=write.caller, base=write.base)
    if was is None:
        invitations.withdraw_later(write.tx, organization, user)
        await publish_audited(write, organization, "member", "added", person_shape(user), user.login)
    elif write.caller is not None and was != role:
        await record_audit(write, organization, "member.update", user.login, detail={"role": role})


async def remove_member(write: Write, organization: Account, user: Account) -> bool:
    """Answers whether the user was a member. Raises `Invalid` for the last owner."""
    removed = await actions.remove_member(write.tx, organization, user, actor=write.caller, base=write.base)
    if removed:
        await publish_audited(write, organization, "member", "removed", person_shape(user), user.login)
    return removed


async def set_collaborator(write: Write, repository: Repository, user: Account, role: str) -> None:
    """Add to a project, or change the role."""
    was = await is_collaborator(write.tx, repository, user)
    await actions.set_collaborator(write.tx, repository, user, role, actor=write.caller, base=write.base)
    if not was:
        await note_added(write, repository, user)


async def note_added(write: Write, repository: Repository, user: Account) -> None:
    """What follows when a user was added to a project."""
    invitations.withdraw_later(write.tx, repository, user)
    await publish_audited(write, repository, "member", "added", person_shape(user), user.login)


async def remove_collaborator(write: Write, repository: Repository, user: Account) -> bool:
    """Answers whether the user was a collaborator."""
    removed = await actions.remove_collaborator(write.tx, repository, user, actor=write.caller, base=write.base)
    if removed:
        await publish_audited(write, repository, "member", "removed", person_shape(user), user.login)
    return removed


async def invite_collaborator(write: Write, repository: Repository, invitee: Account, role: str) -> Invitation:
    """Invite a user who shares no organization with the project: they are in it only after accepting. There is no
    event, since nothing has happened yet."""
    made = await invitations.invite(
        write.tx, repository, write.actor.user, role, invitee=invitee, strangers=write.may_invite_strangers
    )
    await record_audit(write, repository, "invitation.create", invitee.login, detail={"role": role})
    return made


def is_mailed(invitation: Invitation) -> bool:
    """Whether a link to it is sent: to an address. Who is invited by login has an account that is told of it."""
    return recipients.sends_mail() and invitation.email is not None


async def add_link(write: Write, invitation: Invitation, language: str | None = None) -> InvitationLink:
    """A link to an invitation that was made in this transaction. `language`: of the message, if one is sent."""
    invitee = invitation.invitee.login if invitation.invitee else BY_EMAIL
    place = invitation.repository or invitation.account
    await record_audit(write, place, "invitation.link", invitee, detail={"role": invitation.role})
    link = await make_link(write.tx, invitation)
    if recipients.sends_mail() and invitation.email is not None:
        about = {
            "invitation_id": invitation.id,
            "account_id": invitation.account.id,
            "repository_id": invitation.repository.id if invitation.repository else None,
            "actor_id": invitation.inviter.id,
        }
        vault = write.call.services.vault
        await queue_invitation_link(
            write.tx, vault, about, invitation.email, link.path, language=language, now=write.now
        )
    return link


async def send_link(write: Write, invitation: Invitation, language: str | None = None) -> bool:
    """Send one, if there is a mail server and the invitation is to an address. Answers whether it is sent."""
    if not is_mailed(invitation):
        return False
    await add_link(write, invitation, language)
    return True
