"""The rates of people in a project and in an organization, in the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, Meta, UnsetType

from workhook.core import json
from workhook.core.errors import Fault, Invalid, NotFound, say, shown
from workhook.core.money import DEFAULT_CURRENCY, to_amount
from workhook.http.calls import Call
from workhook.http.endpoints import Routes
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.identity.queries import key_of
from workhook.identity.schemas import Account
from workhook.identity.tables import accounts, memberships, projects
from workhook.identity.tokens.lookup import check_whole_account
from workhook.storage import Reader, Row, Transaction
from workhook.storage.dialects import any_of, json_rows, upsert
from workhook.storage.metadata import big, metadata
from workhook.work.board.tasks.assignees import on_team
from workhook.work.kernel.access import find_owned
from workhook.work.kernel.record_events import record_audit
from workhook.work.kernel.schemas import Rate, given_rate, rate_minor_of
from workhook.work.kernel.settings import PersonRate, PersonRateShape, account_billing, project_billing

project_rates = sa.Table(
    "project_rates",
    metadata,
    sa.Column(
        "repository_id",
        sa.BigInteger,
        sa.ForeignKey("projects.repository_id", ondelete="CASCADE"),
        primary_key=True,
    ),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("hourly_rate_minor", sa.BigInteger, nullable=False),
    sa.Index("ix_project_rates_user", "user_id"),
)

member_rates = sa.Table(
    "member_rates",
    metadata,
    sa.Column("account_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("hourly_rate_minor", sa.BigInteger, nullable=False),
    sa.Index("ix_member_rates_user", "user_id"),
)


rates_of_project = (
    sa.select(json_rows(accounts.c.login_key, accounts.c.login, project_rates.c.hourly_rate_minor))
    .where(project_rates.c.repository_id == project_billing.c.repository_id, accounts.c.id == project_rates.c.user_id)
    .scalar_subquery()
    .label("people_rates")
)
"""What `rates_of_text` reads, of the row of `project_billing`."""


def rates_of_text(text: str, currency: str) -> tuple[PersonRateShape, ...]:
    """By username."""
    return tuple(PersonRateShape(login, to_amount(minor, currency)) for _, login, minor in sorted(json.decode(text)))


_here = project_rates.c.repository_id == big("repository_id")
_has_rate = sa.exists().where(
    project_rates.c.repository_id == projects.c.repository_id, project_rates.c.user_id == accounts.c.id
)
# Who has left keeps a rate until it is taken away: what is shown can be sent back.
_on_team = (
    sa.select(accounts.c.id, accounts.c.login, accounts.c.login_key)
    .select_from(accounts.join(projects, projects.c.repository_id == big("repository_id")))
    .where(accounts.c.kind == "user", any_of(accounts.c.login_key, "keys"), sa.or_(on_team, _has_rate))
)
_team = (
    sa.select(accounts.c.login, accounts.c.name)
    .select_from(accounts.join(projects, projects.c.repository_id == big("repository_id")))
    .where(accounts.c.kind == "user", on_team)
    .order_by(accounts.c.login_key)
    .limit(big("limit"))
)
_clear = sa.delete(project_rates).where(_here)
_insert = sa.insert(project_rates).values(
    repository_id=big("repository_id"), user_id=big("user_id"), hourly_rate_minor=big("hourly_rate_minor")
)


class TeamMember(msgspec.Struct, frozen=True):
    """Somebody who can have a rate in a project, or in an organization."""

    login: str
    name: str | None


async def find_team(reader: Reader, repository_id: int, *, limit: int) -> list[TeamMember]:
    """The members of a project, by their logins."""
    rows = await reader.fetch_all(_team, {"repository_id": repository_id, "limit": limit})
    return [TeamMember(row["login"], row["name"]) for row in rows]


async def set_project_rates(
    tx: Transaction, repository_id: int, rates: Sequence[PersonRate], currency: str
) -> tuple[PersonRateShape, ...]:
    """These instead of those that were there. Raises `Invalid` that names who is no member of the project, and who is
    there twice."""
    keys = [key_of(each.username) for each in rates]
    params = {"repository_id": repository_id, "keys": sorted(set(keys))}
    rows = await tx.fetch_all(_on_team, params) if keys else []
    found = {row["login_key"]: row for row in rows}
    faults = [
        _fault(index, each.username, wrong)
        for index, (key, each) in enumerate(zip(keys, rates, strict=True))
        if (wrong := _complaint(key, keys[:index], found))
    ]
    if faults:
        raise Invalid(faults=faults)
    await tx.execute(_clear, {"repository_id": repository_id})
    wanted = {
        key: rate_minor_of(each.hourly_rate, currency, f"rates[{index}].hourly_rate")
        for index, (key, each) in enumerate(zip(keys, rates, strict=True))
    }
    tx.defer(
        _insert,
        [
            {"repository_id": repository_id, "user_id": found[key]["id"], "hourly_rate_minor": wanted[key]}
            for key in sorted(wanted)
        ],
    )
    return tuple(PersonRateShape(found[key]["login"], to_amount(wanted[key], currency)) for key in sorted(wanted))


def _complaint(key: str, before: Sequence[str], found: Mapping[str, object]) -> str | None:
    if key in before:
        return "{}: {} is there twice"
    return None if key in found else "{}: {} is no member of the project"


def _fault(index: int, username: str, wrong: str) -> Fault:
    field = f"rates[{index}].username"
    return Fault(field=field, message=say(wrong, field, shown(username)))


# --- an organization --------------------------------------------------------------------------------------------------

_money = (
    sa.select(account_billing.c.currency)
    .where(account_billing.c.account_id == memberships.c.organization_id)
    .scalar_subquery()
    .label("money")
)
_members = (
    sa.select(
        accounts.c.id, accounts.c.login, accounts.c.name, memberships.c.role, member_rates.c.hourly_rate_minor, _money
    )
    .join_from(memberships, accounts, accounts.c.id == memberships.c.user_id)
    .outerjoin(
        member_rates,
        sa.and_(
            member_rates.c.account_id == memberships.c.organization_id, member_rates.c.user_id == memberships.c.user_id
        ),
    )
    .where(
        memberships.c.organization_id == big("account_id"),
        accounts.c.kind == "user",
    )
)
_member = _members.where(accounts.c.login_key == sa.bindparam("login_key"))
_every_member = _members.order_by(accounts.c.login_key).limit(big("limit"))
_set_member = upsert(member_rates).values(
    account_id=big("account_id"), user_id=big("user_id"), hourly_rate_minor=big("hourly_rate_minor")
)
_set_member = _set_member.on_conflict_do_update(
    index_elements=[member_rates.c.account_id, member_rates.c.user_id],
    set_={"hourly_rate_minor": _set_member.excluded.hourly_rate_minor},
)
_drop_member = sa.delete(member_rates).where(
    member_rates.c.account_id == big("account_id"), member_rates.c.user_id == big("user_id")
)


class MemberTerms(msgspec.Struct, frozen=True):
    """Somebody in an organization. `rate_minor` None: they have no rate of their own there. `currency`: of a rate."""

    user_id: int
    login: str
    name: str | None
    is_owner: bool
    rate_minor: int | None
    currency: str = DEFAULT_CURRENCY


async def find_member(reader: Reader, account_id: int, username: str) -> MemberTerms | None:
    row = await reader.fetch_one(_member, {"account_id": account_id, "login_key": key_of(username)})
    return _member_of(row) if row else None


async def find_members(reader: Reader, account_id: int, *, limit: int) -> list[MemberTerms]:
    """Of an organization, by their logins."""
    rows = await reader.fetch_all(_every_member, {"account_id": account_id, "limit": limit})
    return [_member_of(row) for row in rows]


def _member_of(row: Row) -> MemberTerms:
    is_owner, currency = row["role"] == "owner", row["money"] or DEFAULT_CURRENCY
    return MemberTerms(row["id"], row["login"], row["name"], is_owner, row["hourly_rate_minor"], currency)


async def set_member_rate(tx: Transaction, account_id: int, user_id: int, rate_minor: int | None) -> None:
    place = {"account_id": account_id, "user_id": user_id}
    if rate_minor is None:
        tx.defer(_drop_member, [place])
    else:
        tx.defer(_set_member, [{**place, "hourly_rate_minor": rate_minor}])


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


async def change_member_rate(write: Write, account: Account, username: str, edit: MemberRateEdit) -> MemberTerms:
    """The member afterwards. The caller owns the account. Raises `NotFound`, `Invalid`, `PreconditionFailed`."""
    before = await get_member(write.tx, account, username)
    write.require_match(member_answer(before))
    rate_minor = given_rate(edit.hourly_rate, before.currency, "hourly_rate")
    if isinstance(rate_minor, UnsetType) or rate_minor == before.rate_minor:
        return before
    after = msgspec.structs.replace(before, rate_minor=rate_minor)
    await set_member_rate(write.tx, account.id, before.user_id, after.rate_minor)
    changes = {"hourly_rate": {"from": _amount(before), "to": _amount(after)}}
    await record_audit(write, account, "member.edit_rate", before.login, detail=changes)
    return after


async def get_member(reader: Reader, account: Account, username: str) -> MemberTerms:
    found = await find_member(reader, account.id, username)
    if found is None:
        raise NotFound()
    return found


def member_answer(member: MemberTerms) -> OrganizationMemberAnswer:
    role: Literal["owner", "member"] = "owner" if member.is_owner else "member"
    return OrganizationMemberAnswer(
        OrganizationMemberShape(member.user_id, member.login, member.login, role, _amount(member))
    )


def _amount(member: MemberTerms) -> float | None:
    return None if member.rate_minor is None else to_amount(member.rate_minor, member.currency)


_DOING = "see and change the rates of its members"


routes = Routes(WORK_API, "Users", read="work.read", write="work.write")


@routes.get("/organizations/{login}/members/{username}")
async def get_organization_member(call: Call, login: str, username: str) -> OrganizationMemberAnswer:
    """Get a member of an organization, and what an hour of theirs costs.

    For owners of the organization.
    """
    account = await find_owned(call.database, actor_of(call), login, _DOING)
    return member_answer(await get_member(call.database, account, username))


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
    return member_answer(await change_member_rate(write, account, username, edit))
