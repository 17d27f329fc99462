"""Who is in an organization: owners invite and remove, everybody accepts and leaves."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import sqlalchemy as sa
from msgspec import UnsetType

from workhook.core.errors import Fault, Forbidden, Invalid, NotFound
from workhook.http import parameters
from workhook.http.calls import Answer, Call
from workhook.http.paging import page_link, page_of
from workhook.identity import invitations, member_queries
from workhook.identity.actions import hold_owners
from workhook.identity.context import Write
from workhook.identity.guard import actor_of, caller_of
from workhook.identity.invitation_schemas import organization_invitation
from workhook.identity.invitations import BY_EMAIL, Invitation, shares_organization
from workhook.identity.member_schemas import membership_shape, pending_membership_shape
from workhook.identity.queries import account_columns, key_of
from workhook.identity.schemas import Account, Actor, Organization, account_of
from workhook.identity.tables import accounts
from workhook.storage import Reader, Transaction
from workhook.storage.metadata import big
from workhook.work.invitations.bodies import AcceptBody, MembershipBody, OrganizationInvitationBody
from workhook.work.invitations.record import record_invitation
from workhook.work.members import by_hand

ROLES = {"admin": "owner", "member": "member", "direct_member": "member"}

# Owners see the addresses of members. So only somebody whose owner the caller is already is put in without consent.
_person = sa.select(
    *account_columns(),
    shares_organization(accounts.c.id, as_owner=True).label("is_near"),
    shares_organization(accounts.c.id).label("is_known"),
).where(accounts.c.kind == "user")
_by_login = _person.where(accounts.c.login_key == sa.bindparam("login_key"))
_by_number = _person.where(accounts.c.id == big("id"))
_by_address = sa.select(accounts.c.login_key).where(
    accounts.c.kind == "user",
    sa.func.lower(accounts.c.email) == sa.func.lower(sa.bindparam("email", type_=sa.Text)),
)


class Person(NamedTuple):
    """A user. `is_near`: the caller owns an organization that the user is in; `is_known`: both are in one."""

    account: Account
    is_near: bool
    is_known: bool


def _place(call: Call) -> Organization:
    found = caller_of(call).organization
    assert found is not None, "the operation's rule names an organization"
    return found


def _require_owner(place: Organization) -> None:
    if place.role != "owner":
        raise Forbidden("You must be an organization owner.", code="missing_role")


async def _find_person(
    reader: Reader, call: Call, *, login: str | None = None, number: int | None = None
) -> Person | None:
    params = {"user_id": actor_of(call).user.id}
    if login is not None:
        row = await reader.fetch_one(_by_login, {**params, "login_key": key_of(login)})
    else:
        row = await reader.fetch_one(_by_number, {**params, "id": number})
    return Person(account_of(row), bool(row["is_near"]), bool(row["is_known"])) if row else None


async def list_invitations(call: Call) -> Answer:
    page, per_page = page_of(call)
    found, total = await invitations.list_of_organization(
        call.database, _place(call).account, actor_of(call).user, limit=per_page, offset=(page - 1) * per_page
    )
    shapes = [organization_invitation(each, call.base) for each in found]
    return Answer(shapes, headers=page_link(call, page=page, per_page=per_page, total=total))


async def create_invitation(call: Call) -> Answer:
    body = parameters.gather(
        OrganizationInvitationBody, {}, await call.json_object(), resource="OrganizationInvitation"
    )
    role = ROLES[body.role]

    async def step(tx: Transaction) -> Invitation:
        organization, actor = _place(call).account, actor_of(call)
        invitee = email = None
        field = "invitee_id"
        if not isinstance(body.invitee_id, UnsetType):
            found = await _find_person(tx, call, number=body.invitee_id)
            if found is None or not found.is_known:  # by counting up, all logins of the server could be read
                raise _invalid("invitee_id", "invitee_id is the id of nobody that you share an organization with")
            invitee = found.account
            login: str | None = invitee.login
        elif not isinstance(body.email, UnsetType):
            email, login, field = body.email, None, "email"
        else:
            raise _invalid("invitee_id", "invitee_id or email is required")
        await _refuse_members(tx, organization, login, email)
        made = await invitations.invite(tx, organization, actor.user, role, invitee=invitee, email=email, field=field)
        await record_invitation(tx, actor, "create", organization, login or BY_EMAIL, role)
        return made

    made = await call.database.in_transaction(step)
    location = f"{call.base}/orgs/{made.account.login}/invitations"
    return Answer(organization_invitation(made, call.base), status=201, headers={"Location": location})


async def _refuse_members(reader: Reader, organization: Account, login: str | None, email: str | None) -> None:
    """Raises `Invalid` for somebody who is in it. An owner sees the addresses of these, so that this tells nothing."""
    logins = [key_of(login)] if login else []
    if email:
        logins = [row["login_key"] for row in await reader.fetch_all(_by_address, {"email": email})]
    for each in logins:
        if await member_queries.find_member(reader, organization.id, each) is not None:
            field = "email" if email else "invitee_id"
            raise _invalid(field, "The invited person is in the organization already")


async def cancel_invitation(call: Call) -> Answer:
    async def step(tx: Transaction) -> None:
        organization, actor = _place(call).account, actor_of(call)
        number = call.path_integer("invitation_id")
        found = await invitations.find_of_organization(tx, organization, number, actor.user)
        if found is None or not await _end(tx, actor, found):
            raise NotFound()

    await call.database.in_transaction(step)
    return Answer(status=204)


async def _end(tx: Transaction, actor: Actor, invitation: Invitation) -> bool:
    """Answers whether it was still there."""
    if not await invitations.delete(tx, invitation):
        return False
    invitee = invitation.invitee.login if invitation.invitee else BY_EMAIL
    await record_invitation(tx, actor, "delete", invitation.account, invitee)
    return True


async def set_membership(call: Call) -> Answer:
    """Change a member's role, put in somebody whose owner the caller is already, or invite."""
    body = parameters.gather(MembershipBody, {}, await call.json_object(), resource="OrganizationMembership")
    role = ROLES[body.role]

    async def step(tx: Transaction) -> msgspec.Struct:
        organization, actor = _place(call).account, actor_of(call)
        found = await _find_person(tx, call, login=call.path("username"))
        if found is None:
            raise NotFound()
        person = found.account
        member = await member_queries.find_member(tx, organization.id, person.login)
        if member is None and not found.is_near:
            made = await invitations.invite(tx, organization, actor.user, role, invitee=person, is_known=found.is_known)
            await record_invitation(tx, actor, "create", organization, person.login, role)
            return pending_membership_shape(made, person, call.base)
        await by_hand.set_member(Write.for_call(call, tx), organization, person, role)
        return membership_shape(organization, person, role, call.base)

    return Answer(await call.database.in_transaction(step))


async def remove_membership(call: Call) -> Answer:
    """Ends an invitation, too: owners take it back, the invited person declines it."""

    async def step(tx: Transaction) -> None:
        place, actor = _place(call), actor_of(call)
        if place.role is None:
            await _decline(tx, call, place.account)
        elif not await _remove(tx, call):
            found = await _find_person(tx, call, login=call.path("username"))
            if found is None or not await invitations.withdraw(tx, place.account, found.account):
                raise NotFound()
            await record_invitation(tx, actor, "delete", place.account, found.account.login)

    await call.database.in_transaction(step)
    return Answer(status=204)


async def remove_member(call: Call) -> Answer:
    async def step(tx: Transaction) -> None:
        if not await _remove(tx, call):
            raise NotFound()

    await call.database.in_transaction(step)
    return Answer(status=204)


async def _remove(tx: Transaction, call: Call) -> bool:
    """Answers whether the person was a member. Raises `Forbidden` for somebody else unless the caller is an owner, and
    `Invalid` for the last owner."""
    place, _actor = _place(call), actor_of(call)
    if not _is_own(call):
        _require_owner(place)
    found = await _find_person(tx, call, login=call.path("username"))
    if found is None:
        raise NotFound()
    return await by_hand.remove_member(Write.for_call(call, tx), place.account, found.account)


def _is_own(call: Call) -> bool:
    return key_of(call.path("username")) == key_of(actor_of(call).user.login)


async def _decline(tx: Transaction, call: Call, organization: Account) -> None:
    """All that there is, by login and by e-mail. Of others the invited person sees nothing."""
    actor = actor_of(call)
    found = await invitations.find_to_organization(tx, actor.user, key_of(organization.login)) if _is_own(call) else []
    if not any([await _end(tx, actor, each) for each in found]):
        raise NotFound()


# --- the caller's own ------------------------------------------------------------------------------------------------


async def accept(call: Call) -> Answer:
    """Only `active` can be asked for."""
    parameters.gather(AcceptBody, {}, await call.json_object(), resource="OrganizationMembership")

    async def step(tx: Transaction) -> msgspec.Struct:
        actor, login = actor_of(call), call.path("org")
        await join(Write.for_call(call, tx), login)
        member = await member_queries.find_own(tx, actor, login)
        if member is None:
            raise NotFound()
        return membership_shape(member.account, actor.user, member.role, call.base)

    return Answer(await call.database.in_transaction(step))


async def join(write: Write, login: str) -> None:
    """Accept the newest invitation to the organization, if there is one. Somebody who is in it already stays as they
    are."""
    for invitation in (await invitations.find_to_organization(write.tx, write.actor.user, key_of(login)))[:1]:
        # Held before the invitation, as by who takes an owner's right: that ends what the owner has made.
        await hold_owners(write.tx, invitation.account)
        taken = await invitations.take(write.tx, invitation)
        if taken is None:
            continue
        if await member_queries.find_own(write.tx, write.actor, login) is None:
            await by_hand.set_member(write, taken.account, write.actor.user, taken.role)
        else:
            invitations.withdraw_later(write.tx, taken.account, write.actor.user)


def _invalid(field: str, message: str) -> Invalid:
    return Invalid(faults=[Fault(field, "custom", message, resource="OrganizationInvitation")])
