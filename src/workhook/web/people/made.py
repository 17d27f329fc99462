"""A link to an invitation that was just made: the one page that shows it."""

from __future__ import annotations

import msgspec

from workhook.core.disclosure import Secretive
from workhook.http.calls import Answer
from workhook.identity.context import Write
from workhook.identity.invitation_links import InvitationLink
from workhook.identity.invitations import Invitation
from workhook.identity.schemas import Account, Repository
from workhook.web.frame.places import Visit
from workhook.web.frame.texts import language
from workhook.work.people.invitations import links
from workhook.work.people.invitations.sending import add_link, is_mailed, send_link


class MadeLink(Secretive, msgspec.Struct, frozen=True):
    """`who`: the login or the address that is invited. `is_sent`: the link goes there by mail."""

    who: str
    role: str
    is_bound: bool
    is_sent: bool
    link: InvitationLink


async def link_of(visit: Visit, write: Write, invitation: Invitation) -> MadeLink | None:
    """To an invitation that was made in this transaction; it is sent by mail if it can be. None: the form does not ask
    to see it."""
    if "link" not in visit.fields:
        await send_link(write, invitation, language())
        return None
    return _made(invitation, await add_link(write, invitation, language()))


async def renewed_link(write: Write, invitation: Invitation) -> MadeLink:
    """In place of an earlier one."""
    return _made(invitation, await links.renew_link(write, invitation, language()))


def _made(invitation: Invitation, link: InvitationLink) -> MadeLink:
    who = invitation.invitee.login if invitation.invitee else invitation.email or ""
    return MadeLink(who, invitation.role, invitation.invitee is not None, is_mailed(invitation), link)


def link_page(visit: Visit, place: Account | Repository, made: MadeLink, back: str) -> Answer:
    """This page alone shows the link. `back`: where one goes on."""
    base = visit.call.base_for_others.removesuffix(visit.call.prefix)
    return visit.page(
        "people/link_made.html", has_secret=True, place=place, made=made, link=base + made.link.path, back=back
    )
