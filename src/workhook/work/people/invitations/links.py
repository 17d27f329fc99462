"""Invitations by link: owners and admins make them, and whoever has the link accepts or declines.

What may be invited to by whom is the API's rule; only pages make links. What a link gives, and to whom, is decision 40.
"""

from __future__ import annotations

import msgspec

from workhook.core.errors import Conflict, Fault, Forbidden, NotFound, say
from workhook.http.parameters import Title
from workhook.identity import actions, invitations
from workhook.identity.context import Write
from workhook.identity.invitations import BY_EMAIL, CLIENT, Invitation, InvitationLink, find_by_link
from workhook.identity.queries import find_member_role
from workhook.identity.schemas import Account, Repository
from workhook.identity.signin import passwords
from workhook.storage import Reader, Transaction
from workhook.work.kernel.people import Email
from workhook.work.kernel.record_events import record_audit
from workhook.work.people.clients import is_client, put_in
from workhook.work.people.membership import add_link, is_collaborator, set_collaborator, set_member

GONE = (
    "This link is not good: it is wrong, was used or taken back, or its time is over. Ask whoever sent it for another."
)


class InvitedByAddress(msgspec.Struct):
    """Whom to invite by an e-mail address."""

    email: Email


class NewAccount(msgspec.Struct):
    """Who somebody wants to be here. `login` is checked with the other logins (`actions.faults_of_login`). `email`: a
    name to sign in with, which is nobody's address to anybody else (decision 41)."""

    login: str
    name: Title | None = None
    email: Email | None = None


async def invite_by_address(write: Write, repository: Repository, address: InvitedByAddress, role: str) -> Invitation:
    """Invite whoever has the address to a project. There is no event, since nothing has happened yet."""
    made = await invitations.invite(
        write.tx, repository, write.actor.user, role, email=address.email, field="email" if role == CLIENT else "who",
        strangers=write.may_invite_strangers,
    )  # fmt: skip
    await record_audit(write, repository, "invitation.create", BY_EMAIL, detail={"role": role})
    return made


async def renew_link(write: Write, found: Invitation, language: str | None = None) -> InvitationLink:
    """A new link in place of the old one: the caller invites again, to the same."""
    renewed = await invitations.invite(
        write.tx, found.repository or found.account, write.actor.user, found.role, invitee=found.invitee,
        email=found.email, is_known=found.is_known, strangers=write.may_invite_strangers,
    )  # fmt: skip
    return await add_link(write, renewed, language)


async def find(reader: Reader, secret: str, viewer: Account | None) -> Invitation:
    """Raises `NotFound`, the same for every link that is not good."""
    found = await find_by_link(reader, secret, viewer)
    if found is None:
        raise NotFound(GONE)
    return found


def is_for(invitation: Invitation, user: Account) -> bool:
    """Whether the user may answer it: an invitation by login is for that user alone."""
    return invitation.invitee is None or invitation.invitee.id == user.id


async def is_in(reader: Reader, invitation: Invitation, user: Account) -> bool:
    """Whether the user has a place already that the invitation would give, or more."""
    repository = invitation.repository
    member = await find_member_role(reader, invitation.account.id, user.id)
    if repository is None:
        return member is not None
    if repository.owner.id == user.id or member == "owner" or await is_collaborator(reader, repository, user):
        return True
    if invitation.role != CLIENT:
        return False
    return (member is not None and not repository.private) or await is_client(reader, repository, user)


async def accept(write: Write, secret: str) -> Invitation:
    """The caller comes in, with the event that the API's acceptance makes.

    Raises `NotFound` for a link that is not good, `Forbidden` for one that is somebody else's, and `Conflict` for who
    is in already, who does not use it up.
    """
    user = write.actor.user
    invitation = await find(write.tx, secret, user)
    if not is_for(invitation, user):
        raise Forbidden(say("This invitation is for somebody else."), code="not_invited")
    if invitation.repository is None:
        # The owners are locked before the invitation, as where an owner loses the role.
        await actions.lock_owners(write.tx, invitation.account)
    taken = await invitations.take(write.tx, invitation, secret)
    if taken is None:
        raise NotFound(GONE)
    if await is_in(write.tx, taken, user):
        raise Conflict(say("You are in already. The link stays good for whom it is meant for."), code="is_member")
    await _come_in(write, taken, user)
    return taken


async def _come_in(write: Write, taken: Invitation, user: Account) -> None:
    if taken.repository is None:
        await set_member(write, taken.account, user, taken.role)
    elif taken.role == CLIENT:
        assert taken.email is not None, "a client is invited by an address"
        await put_in(write, taken.repository, user, taken.email)
    else:
        await set_collaborator(write, taken.repository, user, taken.role)


async def decline(write: Write, secret: str) -> None:
    """The invitation ends. Raises `NotFound`, `Forbidden`."""
    invitation = await find(write.tx, secret, write.actor.user)
    if not is_for(invitation, write.actor.user):
        raise Forbidden(say("This invitation is for somebody else."), code="not_invited")
    if await invitations.take(write.tx, invitation, secret) is None:
        raise NotFound(GONE)
    invitee = invitation.invitee.login if invitation.invitee else BY_EMAIL
    await record_audit(write, invitation.repository or invitation.account, "invitation.delete", invitee)


async def check_new(reader: Reader, wanted: NewAccount, password: str, again: str) -> list[Fault]:
    """What speaks against an account, before the password is hashed."""
    faults = await actions.faults_of_login(reader, wanted.login)
    if password != again:
        faults.append(Fault("again", message="The two passwords are not the same."))
    draft = Account(0, "user", wanted.login, wanted.name, wanted.email, None, 0, 0)
    return faults + [Fault("password", message=each) for each in passwords.faults_of(password, draft)]


async def make_account(tx: Transaction, wanted: NewAccount, hashed: str) -> Account:
    """Somebody new. The account has no e-mail address: nobody has shown that the one of the invitation, or the one
    that was typed, is theirs. What was typed is kept with the password alone.

    Raises `Invalid` for a login that was taken meanwhile.
    """
    user = await actions.create_account(tx, "user", wanted.login, name=wanted.name, email=None)
    await passwords.set_password(tx, user, hashed)
    if wanted.email is not None:
        await passwords.set_email(tx, user.id, wanted.email)
    return user
