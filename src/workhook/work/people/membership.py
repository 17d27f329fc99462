"""Add, change, invite and remove members and collaborators, with the event and the audit log entry.

Invitation links are created here and sent to the invited address if a mail server is configured.

These functions do not check roles; that is up to their callers. `write.caller` is the sender of the event. It is None
on the command line, which adds people directly. Changing a role and inviting do not publish events.
"""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from workhook.identity import actions, invitations
from workhook.identity.context import Write
from workhook.identity.invitations import BY_EMAIL, Invitation, create_link
from workhook.identity.mail import recipients
from workhook.identity.mail.links import queue_invitation_link
from workhook.identity.queries import find_member_role
from workhook.identity.schemas import Account, Repository
from workhook.identity.tables import collaborators
from workhook.identity.tokens.one_time import SecretLink
from workhook.storage import Reader
from workhook.storage.metadata import bigint_param
from workhook.work.kernel.people import person_to_response
from workhook.work.kernel.record_events import publish_audited, record_audit

_collaborator = sa.select(collaborators.c.role).where(
    collaborators.c.repository_id == bigint_param("repository_id"), collaborators.c.user_id == bigint_param("user_id")
)


async def is_collaborator(reader: Reader, repository: Repository, user: Account) -> bool:
    params = {"repository_id": repository.id, "user_id": user.id}
    return await reader.fetch_one(_collaborator, params) is not None


async def set_member(write: Write, organization: Account, user: Account, role: str) -> None:
    """Add a member, or change their role. Raises `Invalid` if the last owner would lose the role."""
    was = await find_member_role(write.tx, organization.id, user.id)
    await actions.set_member(write.tx, organization, user, role, actor=write.caller, base=write.base)
    if was is None:
        invitations.withdraw_later(write.tx, organization, user)
        await publish_audited(write, organization, "member", "added", person_to_response(user), user.login)
    elif write.caller is not None and was != role:
        await record_audit(write, organization, "member.update", user.login, detail={"role": role})


async def remove_member(write: Write, organization: Account, user: Account) -> bool:
    """Remove a member. Returns False if the user is not one. Raises `Invalid` for the last owner."""
    removed = await actions.remove_member(write.tx, organization, user, actor=write.caller, base=write.base)
    if removed:
        await publish_audited(write, organization, "member", "removed", person_to_response(user), user.login)
    return removed


async def set_collaborator(write: Write, repository: Repository, user: Account, role: str) -> None:
    """Add a collaborator, or change their role."""
    was = await is_collaborator(write.tx, repository, user)
    await actions.set_collaborator(write.tx, repository, user, role, actor=write.caller, base=write.base)
    if not was:
        await record_added(write, repository, user)


async def record_added(write: Write, repository: Repository, user: Account) -> None:
    """Withdraw a new collaborator's invitations and publish the event."""
    invitations.withdraw_later(write.tx, repository, user)
    await publish_audited(write, repository, "member", "added", person_to_response(user), user.login)


async def remove_collaborator(write: Write, repository: Repository, user: Account) -> bool:
    """Remove a collaborator. Returns False if the user is not one."""
    removed = await actions.remove_collaborator(write.tx, repository, user, actor=write.caller, base=write.base)
    if removed:
        await publish_audited(write, repository, "member", "removed", person_to_response(user), user.login)
    return removed


async def invite(
    write: Write,
    place: Account | Repository,
    role: str,
    *,
    invitee: Account | None = None,
    email: str | None = None,
    is_known: bool = False,
    field: str = "username",
) -> Invitation:
    """Invite a user or the owner of an address; see `identity.invitations.invite`."""
    made = await invitations.invite(
        write.tx, place, write.actor.user, role, invitee=invitee, email=email, is_known=is_known, field=field,
        strangers=write.may_invite_strangers,
    )  # fmt: skip
    await record_invitation(write, made, "create", detail={"role": role})
    return made


async def record_invitation(
    write: Write, invitation: Invitation, verb: str, *, detail: Mapping[str, object] | None = None
) -> None:
    """Add an audit log entry about an invitation."""
    invitee = invitation.invitee.login if invitation.invitee else BY_EMAIL
    await record_audit(write, invitation.repository or invitation.account, f"invitation.{verb}", invitee, detail=detail)


async def withdraw_invitation(write: Write, place: Account | Repository, user: Account) -> bool:
    """Withdraw a user's invitation. Returns False if there is none."""
    if not await invitations.withdraw(write.tx, place, user):
        return False
    await record_audit(write, place, "invitation.delete", user.login)
    return True


def is_mailed(invitation: Invitation) -> bool:
    """Return whether a link is e-mailed. Users invited by login are notified in their account instead."""
    return recipients.sends_mail() and invitation.email is not None


async def add_link(write: Write, invitation: Invitation, language: str | None = None) -> SecretLink:
    """Create a link for an invitation of this transaction and e-mail it if possible, in the given language."""
    await record_invitation(write, invitation, "link", detail={"role": invitation.role})
    link = await create_link(write.tx, invitation)
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
    """E-mail a link if there is a mail server and the invitation is to an address. Returns whether it was sent."""
    if not is_mailed(invitation):
        return False
    await add_link(write, invitation, language)
    return True
