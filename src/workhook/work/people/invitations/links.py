"""Invitation links. Owners and admins create them, and anyone with the link can accept or decline (decision 27).

The rules of the API apply. Links are created only on pages.
"""

from __future__ import annotations

import msgspec

from workhook.core.errors import Conflict, Fault, Forbidden, NotFound, say
from workhook.http.parameters import Title
from workhook.identity import actions, invitations
from workhook.identity.context import Write
from workhook.identity.invitations import CLIENT, Invitation, find_by_link
from workhook.identity.queries import find_member_role
from workhook.identity.schemas import Account
from workhook.identity.signin import passwords
from workhook.identity.tokens.one_time import SecretLink
from workhook.storage import Reader, Transaction
from workhook.work.kernel.people import Email
from workhook.work.people.clients import add_client, is_client
from workhook.work.people.membership import (
    add_link,
    is_collaborator,
    record_invitation,
    set_collaborator,
    set_member,
)

GONE = say("This link is invalid, has expired, or was already used or revoked. Ask the sender for a new one.")


class NewAccount(msgspec.Struct):
    """The account that an invited person wants to create.

    `login` is checked against the existing logins (`actions.faults_of_login`). `email` is a name for signing in, and is
    never shown to others as an address (decision 27).
    """

    login: str
    name: Title | None = None
    email: Email | None = None


async def renew_link(write: Write, found: Invitation, language: str | None = None) -> SecretLink:
    """Renew an invitation on behalf of the caller, with a new link."""
    renewed = await invitations.invite(
        write.tx, found.repository or found.account, write.actor.user, found.role, invitee=found.invitee,
        email=found.email, is_known=found.is_known, strangers=write.may_invite_strangers,
    )  # fmt: skip
    return await add_link(write, renewed, language)


async def find(reader: Reader, secret: str, viewer: Account | None) -> Invitation:
    """Return the invitation. Raises the same `NotFound` for every invalid link."""
    found = await find_by_link(reader, secret, viewer)
    if found is None:
        raise NotFound(GONE)
    return found


def is_for(invitation: Invitation, user: Account) -> bool:
    """Return whether the user may answer the invitation; one sent to a login is for that user only."""
    return invitation.invitee is None or invitation.invitee.id == user.id


async def is_in(reader: Reader, invitation: Invitation, user: Account) -> bool:
    """Return whether the user already has the role that the invitation grants, or a higher one."""
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
    """Accept an invitation, with the same event as through the API.

    Raises `NotFound` if the link is invalid, `Forbidden` if it is for another user, and `Conflict` if the caller
    already has the role, in which case the link is not used up.
    """
    user = write.actor.user
    invitation = await find(write.tx, secret, user)
    if not is_for(invitation, user):
        raise Forbidden(say("This invitation is for someone else."), code="not_invited")
    if invitation.repository is None:
        # Lock the owners before the invitation, in the same order as when an owner loses the role.
        await actions.lock_owners(write.tx, invitation.account)
    taken = await invitations.take(write.tx, invitation, secret)
    if taken is None:
        raise NotFound(GONE)
    if await is_in(write.tx, taken, user):
        raise Conflict(
            say("You are already a member. The link remains valid for the person it was sent to."), code="is_member"
        )
    if taken.repository is None:
        await set_member(write, taken.account, user, taken.role)
    elif taken.role == CLIENT:
        assert taken.email is not None, "a client is invited by an address"
        await add_client(write, taken.repository, user, taken.email)
    else:
        await set_collaborator(write, taken.repository, user, taken.role)
    return taken


async def decline(write: Write, secret: str) -> None:
    """Decline an invitation. Raises `NotFound` and `Forbidden`."""
    invitation = await find(write.tx, secret, write.actor.user)
    if not is_for(invitation, write.actor.user):
        raise Forbidden(say("This invitation is for someone else."), code="not_invited")
    if await invitations.take(write.tx, invitation, secret) is None:
        raise NotFound(GONE)
    await record_invitation(write, invitation, "delete")


async def check_new(reader: Reader, wanted: NewAccount, password: str, again: str) -> list[Fault]:
    """Return the faults of a new account, before its password is hashed."""
    faults = await actions.faults_of_login(reader, wanted.login)
    if password != again:
        faults.append(Fault("again", message="The passwords do not match."))
    draft = Account(0, "user", wanted.login, wanted.name, wanted.email, None, 0, 0)
    return faults + [Fault("password", message=each) for each in passwords.faults_of(password, draft)]


async def create_account_from_link(tx: Transaction, wanted: NewAccount, hashed: str) -> Account:
    """Create an account without an e-mail address.

    Neither the address of the invitation nor the one that was entered is verified. The entered one is stored only with
    the password. Raises `Invalid` if the login was taken in the meantime.
    """
    user = await actions.create_account(tx, "user", wanted.login, name=wanted.name, email=None)
    await passwords.set_password(tx, user, hashed)
    if wanted.email is not None:
        await passwords.set_email(tx, user.id, wanted.email)
    return user
