"""Members of an organization. Owners invite and remove people; everyone can accept and leave."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, Meta, UnsetType

from workhook.core.errors import Fault, Forbidden, Invalid, NotFound, require_found
from workhook.http.calls import Call
from workhook.http.endpoints import Created, Paged, Routes
from workhook.http.operations import WEBHOOK_API
from workhook.identity import invitations, members
from workhook.identity.actions import lock_owners
from workhook.identity.authenticator import actor_of, named_organization
from workhook.identity.context import Write
from workhook.identity.invitations import PENDING_MAX, Invitation, shares_organization
from workhook.identity.profile_schemas import (
    Membership,
    OrganizationInvitation,
    membership_to_response,
    organization_invitation,
    pending_membership_to_response,
)
from workhook.identity.queries import account_columns, key_of
from workhook.identity.schemas import Account, Organization, account_of
from workhook.identity.tables import accounts
from workhook.storage.metadata import bigint_param
from workhook.storage.pages import Page
from workhook.work.kernel.people import Email
from workhook.work.people import membership
from workhook.work.people.membership import remove_member, send_link, set_member

ROLES = {"admin": "owner", "member": "member", "direct_member": "member"}
INVITED = (
    "Invited people get access when they accept. An invitation is valid for 7 days, as long as the inviter may invite "
    f"people. Returns 422 if {PENDING_MAX:,} invitations to the organization or project are already pending"
)

routes = Routes(WEBHOOK_API, "people", read="organization.people", write="organization.people")


class OrganizationInvitationBody(msgspec.Struct):
    """The person to invite: the ID of a user, or an e-mail address. Never reveals whether an address has an account."""

    invitee_id: Annotated[int, Meta(ge=1, le=2**53 - 1)] | UnsetType = UNSET
    email: Email | UnsetType = UNSET
    role: Annotated[Literal["direct_member", "admin"], Meta(description="`admin`: an owner.")] = "direct_member"
    team_ids: Annotated[list[int], Meta(description="Ignored: there are no teams.")] | UnsetType = UNSET


class MembershipBody(msgspec.Struct):
    """The role to grant in the organization."""

    role: Annotated[Literal["member", "admin"], Meta(description="`admin`: an owner.")] = "member"


class AcceptBody(msgspec.Struct):
    """`active` accepts the invitation."""

    state: Literal["active"]


# Owners see the addresses of members, so only members of another organization that the caller owns are added without
# their consent.
_person = sa.select(
    *account_columns(),
    shares_organization(accounts.c.id, as_owner=True).label("is_owned"),
    shares_organization(accounts.c.id).label("is_known"),
).where(accounts.c.kind == "user")
_by_login = _person.where(accounts.c.login_key == sa.bindparam("login_key"))
_by_id = _person.where(accounts.c.id == bigint_param("id"))
_by_address = sa.select(accounts.c.login_key).where(
    accounts.c.kind == "user",
    sa.func.lower(accounts.c.email) == sa.func.lower(sa.bindparam("email", type_=sa.Text)),
)


class KnownUser(msgspec.Struct, frozen=True):
    """A user who can be invited.

    `is_owned` means that the caller owns an organization that the user is in, `is_known` that both share one.
    """

    account: Account
    is_owned: bool
    is_known: bool


async def find_user(write: Write, login: str) -> KnownUser:
    """Return the user with this login. Raises `NotFound`."""
    row = require_found(
        await write.tx.fetch_one(_by_login, {"user_id": write.actor.user.id, "login_key": key_of(login)})
    )
    return KnownUser(account_of(row), bool(row["is_owned"]), bool(row["is_known"]))


@routes.get("/orgs/{org}/invitations")
async def organization_invitations_list(call: Call, page: Page) -> Paged[list[OrganizationInvitation]]:
    """List the invitations to an organization."""
    place = named_organization(call).account
    found, total = await invitations.list_of(call.database, place, actor_of(call).user, page)
    return Paged([organization_invitation(each, call.base) for each in found], total)


@routes.post(
    "/orgs/{org}/invitations", body_required=True, resource="OrganizationInvitation", description=f"{INVITED}."
)
async def organization_invitations_create(
    write: Write, body: OrganizationInvitationBody
) -> Created[OrganizationInvitation]:
    """Invite a person to an organization."""
    made = await invite(write, body)
    await send_link(write, made)
    base = write.call.base
    return Created(organization_invitation(made, base), f"{base}/orgs/{made.account.login}/invitations")


async def invite(write: Write, body: OrganizationInvitationBody) -> Invitation:
    """Invite the person that the body names. Raises `Invalid`."""
    role, organization = ROLES[body.role], named_organization(write.call).account
    invitee = email = None
    field = "invitee_id"
    if not isinstance(body.invitee_id, UnsetType):
        row = await write.tx.fetch_one(_by_id, {"user_id": write.actor.user.id, "id": body.invitee_id})
        if row is None or not row["is_known"]:  # enumerating IDs must not reveal all logins of the server
            raise _invalid("invitee_id", "invitee_id is not the ID of a user who shares an organization with you")
        invitee = account_of(row)
        logins = [key_of(invitee.login)]
    elif not isinstance(body.email, UnsetType):
        email, field = body.email, "email"
        logins = [row["login_key"] for row in await write.tx.fetch_all(_by_address, {"email": email})]
    else:
        raise _invalid("invitee_id", "give either invitee_id or email")
    for each in logins:  # owners see the addresses of members, so this reveals nothing
        if await members.find_member(write.tx, organization.id, each) is not None:
            raise _invalid(field, "The invited person is already in the organization")
    return await membership.invite(
        write, organization, role, invitee=invitee, email=email, is_known=invitee is not None, field=field
    )


@routes.delete("/orgs/{org}/invitations/{invitation_id}", action="invitation.delete")
async def organization_invitations_cancel(write: Write, invitation_id: int) -> None:
    """Revoke an invitation to an organization."""
    organization = named_organization(write.call).account
    found = await invitations.get(write.tx, organization, invitation_id, write.actor.user)
    if not await end_invitation(write, found):
        raise NotFound()


async def end_invitation(write: Write, invitation: Invitation) -> bool:
    """Delete an invitation. Returns False if it no longer exists."""
    if not await invitations.delete(write.tx, invitation):
        return False
    await membership.record_invitation(write, invitation, "delete")
    return True


@routes.put(
    "/orgs/{org}/memberships/{username}",
    resource="OrganizationMembership",
    description="A user in another organization that the caller owns becomes a member immediately. Others are invited: "
    f"`state` is `pending`. {INVITED}, or if the last owner would lose the role.",
    action="member.add",
)
async def organization_memberships_set(write: Write, username: str, body: MembershipBody) -> Membership:
    """Invite a person to an organization, or change the role of a member."""
    role, organization, base = ROLES[body.role], named_organization(write.call).account, write.call.base
    found = await find_user(write, username)
    person = found.account
    member = await members.find_member(write.tx, organization.id, person.login)
    if member is None and not found.is_owned:
        made = await membership.invite(write, organization, role, invitee=person, is_known=found.is_known)
        return pending_membership_to_response(made, person, base)
    await set_member(write, organization, person, role)
    return membership_to_response(organization, person, role, base)


@routes.delete(
    "/orgs/{org}/memberships/{username}", access="organization.decline", problems=(422,), action="member.remove"
)
async def organization_memberships_remove(write: Write, username: str) -> None:
    """Remove a person from an organization, leave it, or decline an invitation to it.

    Owners can remove others and revoke invitations. Everyone can leave, and invited people can decline. The last owner
    cannot leave (422). The person also loses their roles in the organization's repositories.
    """
    place = named_organization(write.call)
    if place.role is None:
        if key_of(username) != key_of(write.actor.user.login):  # invited people cannot see others
            raise NotFound()
        await decline(write, place.account.login)
    elif not await _remove(write, place, username):
        user = (await find_user(write, username)).account
        if not await membership.withdraw_invitation(write, place.account, user):
            raise NotFound()


@routes.delete("/orgs/{org}/members/{username}", access="organization.leave", problems=(422,), action="member.remove")
async def organization_members_remove(write: Write, username: str) -> None:
    """Remove a member of an organization, or leave it.

    Owners can remove others; everyone can leave, except the last owner (422). The person also loses their roles in the
    organization's repositories.
    """
    if not await _remove(write, named_organization(write.call), username):
        raise NotFound()


async def _remove(write: Write, place: Organization, login: str) -> bool:
    """Remove a member. Returns False if the person is not one.

    Raises `Forbidden` if the caller is not an owner and removes someone else, and `Invalid` for the last owner.
    """
    if place.role != "owner" and key_of(login) != key_of(write.actor.user.login):
        raise Forbidden("You must be an organization owner.", code="missing_role")
    return await remove_member(write, place.account, (await find_user(write, login)).account)


async def decline(write: Write, login: str) -> None:
    """Decline all of the caller's invitations to the organization, by login and by e-mail.

    Raises `NotFound` if there are none.
    """
    found = await invitations.find_to_organization(write.tx, write.actor.user, key_of(login))
    if not any([await end_invitation(write, each) for each in found]):
        raise NotFound()


@routes.patch(
    "/user/memberships/orgs/{org}", access="user.memberships", resource="OrganizationMembership", action="member.add"
)
async def user_memberships_accept(write: Write, org: str, body: AcceptBody) -> Membership:
    """Accept an invitation to an organization."""
    await join(write, org)
    member = require_found(await members.find_own(write.tx, write.actor, org))
    return membership_to_response(member.account, write.actor.user, member.role, write.call.base)


async def join(write: Write, login: str) -> None:
    """Accept the newest invitation to the organization, if any. Existing members keep their role."""
    for invitation in (await invitations.find_to_organization(write.tx, write.actor.user, key_of(login)))[:1]:
        # Lock the owners before the invitation, in the same order as when an owner loses the role, which ends the
        # owner's invitations.
        await lock_owners(write.tx, invitation.account)
        taken = await invitations.take(write.tx, invitation)
        if taken is None:
            continue
        if await members.find_own(write.tx, write.actor, login) is None:
            await set_member(write, taken.account, write.actor.user, taken.role)
        else:
            invitations.withdraw_later(write.tx, taken.account, write.actor.user)


def _invalid(field: str, message: str) -> Invalid:
    return Invalid(faults=[Fault(field, "custom", message, resource="OrganizationInvitation")])
