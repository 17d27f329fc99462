"""Links to invitations: made, and sent to the address that is invited where there is a mail server."""

from __future__ import annotations

from workhook.identity.context import Write
from workhook.identity.invitations import BY_EMAIL, Invitation, InvitationLink, make_link
from workhook.identity.mail import recipients
from workhook.identity.mail.links import queue_invitation_link
from workhook.work.kernel.record_events import record_audit


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
