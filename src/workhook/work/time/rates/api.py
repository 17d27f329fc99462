"""`/organizations/{login}/members/{username}`: what an hour of somebody costs in all projects of an organization."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.core.errors import NotFound
from workhook.core.money import to_amount
from workhook.http.calls import Call
from workhook.http.endpoints import Routes
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.identity.schemas import Account
from workhook.identity.tokens.lookup import check_whole_account
from workhook.storage import Reader
from workhook.work.kernel.access import find_owned
from workhook.work.kernel.record_events import record_audit
from workhook.work.kernel.schemas import Rate, given_rate
from workhook.work.time.rates import people
from workhook.work.time.rates.people import MemberTerms

_DOING = "see and change the rates of its members"


class MemberRateEdit(msgspec.Struct):
    """Null: the member has no rate of their own."""

    hourly_rate: Rate | UnsetType | None = UNSET


class OrganizationMemberShape(msgspec.Struct):
    """A member of an organization, as its owners see them."""

    id: int
    login: str
    username: str
    role: Literal["owner", "member"]
    hourly_rate: (
        Annotated[float, Meta(ge=0, description="What an hour costs in projects that say nothing nearer.")] | None
    )


class OrganizationMemberAnswer(msgspec.Struct):
    member: OrganizationMemberShape
    success: bool = True


routes = Routes(WORK_API, "Users", read="work.read", write="work.write")


@routes.get("/organizations/{login}/members/{username}")
async def get_organization_member(call: Call, login: str, username: str) -> OrganizationMemberAnswer:
    """Get a member of an organization, and what an hour of theirs costs.

    For owners of the organization.
    """
    account = await find_owned(call.database, actor_of(call), login, _DOING)
    return _answer(await _find(call.database, account, username))


@routes.patch("/organizations/{login}/members/{username}")
async def edit_organization_member(
    write: Write, login: str, username: str, edit: MemberRateEdit
) -> OrganizationMemberAnswer:
    """Set what an hour of a member costs.

    For owners of the organization. It counts for time that finishes from now on, in projects with the organization's
    currency that say nothing of their own.
    """
    account = await find_owned(write.tx, write.actor, login, _DOING)
    check_whole_account(write.actor, account.id)
    return _answer(await change_member_rate(write, account, username, edit))


async def change_member_rate(write: Write, account: Account, username: str, edit: MemberRateEdit) -> MemberTerms:
    """The member afterwards. The caller owns the account. Raises `NotFound`, `Invalid`, `PreconditionFailed`."""
    before = await _find(write.tx, account, username)
    write.require_match(_answer(before))
    rate_minor = given_rate(edit.hourly_rate, before.currency, "hourly_rate")
    if isinstance(rate_minor, UnsetType) or rate_minor == before.rate_minor:
        return before
    after = msgspec.structs.replace(before, rate_minor=rate_minor)
    await people.set_member_rate(write.tx, account.id, before.user_id, after.rate_minor)
    changes = {"hourly_rate": {"from": _amount(before), "to": _amount(after)}}
    await record_audit(write, account, "member.edit_rate", before.login, detail=changes)
    return after


async def _find(reader: Reader, account: Account, username: str) -> MemberTerms:
    found = await people.find_member(reader, account.id, username)
    if found is None:
        raise NotFound()
    return found


def _answer(member: MemberTerms) -> OrganizationMemberAnswer:
    role: Literal["owner", "member"] = "owner" if member.is_owner else "member"
    return OrganizationMemberAnswer(
        OrganizationMemberShape(member.user_id, member.login, member.login, role, _amount(member))
    )


def _amount(member: MemberTerms) -> float | None:
    return None if member.rate_minor is None else to_amount(member.rate_minor, member.currency)
