"""The terms of a user's time in a project: its hourly rate, whether it is billable, and how it is rounded.

Rates are looked up from the most specific to the least: the task's, the person's in the project, the project's, the
person's in the organization, the organization's. Decision 33 describes when a rate is looked up and when it is fixed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, Meta, UnsetType

from workhook.core import json
from workhook.core.clock import MINUTE_MS, SECOND_MS
from workhook.core.errors import Fault, Invalid, require_found, say, shown
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
from workhook.storage.metadata import bigint_param, in_project, insert_into, of_account, plain_table
from workhook.storage.record_rows import assigned
from workhook.work.board.tasks.assignees import on_team
from workhook.work.kernel.access import get_owned_account
from workhook.work.kernel.billing_settings import (
    PersonRateInput,
    PersonRateShape,
    RoundMode,
    account_billing,
    project_billing,
)
from workhook.work.kernel.record_events import record_audit
from workhook.work.kernel.schemas import Rate, given_rate, rate_minor_of

project_rates = plain_table(
    "project_rates",
    in_project(primary_key=True),
    of_account("user_id", primary_key=True),
    sa.Column("hourly_rate_minor", sa.BigInteger, nullable=False),
    sa.Index("ix_project_rates_user", "user_id"),
)

member_rates = plain_table(
    "member_rates",
    of_account("account_id", primary_key=True),
    of_account("user_id", primary_key=True),
    sa.Column("hourly_rate_minor", sa.BigInteger, nullable=False),
    sa.Index("ix_member_rates_user", "user_id"),
)

rates_of_project = (
    sa.select(json_rows(accounts.c.login_key, accounts.c.login, project_rates.c.hourly_rate_minor))
    .where(project_rates.c.repository_id == project_billing.c.repository_id, accounts.c.id == project_rates.c.user_id)
    .scalar_subquery()
    .label("people_rates")
)
"""The rates of a project as JSON, for `rates_of_text`. Correlated with a row of `project_billing`."""


def rates_of_text(text: str, currency: str) -> tuple[PersonRateShape, ...]:
    """Decode `rates_of_project`, sorted by username."""
    return tuple(PersonRateShape(login, to_amount(minor, currency)) for _, login, minor in sorted(json.decode(text)))


_of_project = project_rates.c.repository_id == bigint_param("repository_id")
_has_rate = sa.exists().where(
    project_rates.c.repository_id == projects.c.repository_id, project_rates.c.user_id == accounts.c.id
)
# A former member keeps the rate until it is removed, so that a list that was read can be sent back.
_on_team = (
    sa.select(accounts.c.id, accounts.c.login, accounts.c.login_key)
    .select_from(accounts.join(projects, projects.c.repository_id == bigint_param("repository_id")))
    .where(accounts.c.kind == "user", any_of(accounts.c.login_key, "keys"), sa.or_(on_team, _has_rate))
)
_team = (
    sa.select(accounts.c.login, accounts.c.name)
    .select_from(accounts.join(projects, projects.c.repository_id == bigint_param("repository_id")))
    .where(accounts.c.kind == "user", on_team)
    .order_by(accounts.c.login_key)
    .limit(bigint_param("limit"))
)
_clear = sa.delete(project_rates).where(_of_project)
_insert = insert_into(project_rates, "repository_id", "user_id", "hourly_rate_minor")


async def find_team(reader: Reader, repository_id: int, *, limit: int) -> Sequence[Row]:
    """Return the `login` and `name` of the members of a project, by login."""
    return await reader.fetch_all(_team, {"repository_id": repository_id, "limit": limit})


async def set_project_rates(
    tx: Transaction, repository_id: int, rates: Sequence[PersonRateInput], currency: str
) -> tuple[PersonRateShape, ...]:
    """Replace all rates of the project. Raises `Invalid` for users who are not members, and for duplicates."""
    keys = [key_of(each.username) for each in rates]
    params = {"repository_id": repository_id, "keys": sorted(set(keys))}
    rows = await tx.fetch_all(_on_team, params) if keys else []
    found = {row["login_key"]: row for row in rows}
    faults = []
    for index, (key, each) in enumerate(zip(keys, rates, strict=True)):
        field = f"rates[{index}].username"
        if key in keys[:index]:
            faults.append(Fault(field=field, message=say("{}: {} is listed twice", field, shown(each.username))))
        elif key not in found:
            message = say("{}: {} is not a member of the project", field, shown(each.username))
            faults.append(Fault(field=field, message=message))
    if faults:
        raise Invalid(faults=faults)
    await tx.execute(_clear, {"repository_id": repository_id})
    wanted = sorted(
        (key, rate_minor_of(each.hourly_rate, currency, f"rates[{index}].hourly_rate"))
        for index, (key, each) in enumerate(zip(keys, rates, strict=True))
    )
    place = {"repository_id": repository_id}
    tx.defer(_insert, [{**place, "user_id": found[key]["id"], "hourly_rate_minor": minor} for key, minor in wanted])
    return tuple(PersonRateShape(found[key]["login"], to_amount(minor, currency)) for key, minor in wanted)


# --- rates of members of an organization ------------------------------------------------------------------------------

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
        memberships.c.organization_id == bigint_param("account_id"),
        accounts.c.kind == "user",
    )
)
_member = _members.where(accounts.c.login_key == sa.bindparam("login_key"))
_every_member = _members.order_by(accounts.c.login_key).limit(bigint_param("limit"))
_set_member = upsert(member_rates).values(assigned(("account_id", "user_id", "hourly_rate_minor")))
_set_member = _set_member.on_conflict_do_update(
    index_elements=[member_rates.c.account_id, member_rates.c.user_id],
    set_={"hourly_rate_minor": _set_member.excluded.hourly_rate_minor},
)
_drop_member = sa.delete(member_rates).where(
    member_rates.c.account_id == bigint_param("account_id"), member_rates.c.user_id == bigint_param("user_id")
)


class MemberTerms(msgspec.Struct, frozen=True):
    """A member of an organization, with their own hourly rate, if any, in minor units of `currency`."""

    user_id: int
    login: str
    name: str | None
    role: Literal["owner", "member"]
    rate_minor: int | None
    currency: str = DEFAULT_CURRENCY


async def get_member(reader: Reader, account: Account, username: str) -> MemberTerms:
    row = require_found(await reader.fetch_one(_member, {"account_id": account.id, "login_key": key_of(username)}))
    return _member_of(row)


async def find_members(reader: Reader, account_id: int, *, limit: int) -> list[MemberTerms]:
    return list(map(_member_of, await reader.fetch_all(_every_member, {"account_id": account_id, "limit": limit})))


def _member_of(row: Row) -> MemberTerms:
    currency = row["money"] or DEFAULT_CURRENCY
    return MemberTerms(row["id"], row["login"], row["name"], row["role"], row["hourly_rate_minor"], currency)


class MemberRateEdit(msgspec.Struct):
    """Null removes the member's own rate."""

    hourly_rate: Rate | UnsetType | None = UNSET


class OrganizationMemberShape(msgspec.Struct):
    """A member of an organization, as its owners see them."""

    id: int
    login: str
    username: str
    role: Literal["owner", "member"]
    hourly_rate: (
        Annotated[float, Meta(ge=0, description="Hourly rate in projects without a more specific rate.")] | None
    )


class OrganizationMemberAnswer(msgspec.Struct):
    member: OrganizationMemberShape
    success: bool = True


async def change_member_rate(write: Write, account: Account, username: str, edit: MemberRateEdit) -> MemberTerms:
    """Change a member's rate and return the member. Raises `NotFound`, `Invalid` or `PreconditionFailed`."""
    before = await get_member(write.tx, account, username)
    write.require_match(member_answer(before))
    rate_minor = given_rate(edit.hourly_rate, before.currency, "hourly_rate")
    if isinstance(rate_minor, UnsetType) or rate_minor == before.rate_minor:
        return before
    after = msgspec.structs.replace(before, rate_minor=rate_minor)
    place = {"account_id": account.id, "user_id": before.user_id}
    if rate_minor is None:
        write.tx.defer(_drop_member, [place])
    else:
        write.tx.defer(_set_member, [{**place, "hourly_rate_minor": rate_minor}])
    changes = {"hourly_rate": {"from": _amount(before), "to": _amount(after)}}
    await record_audit(write, account, "member.edit_rate", before.login, detail=changes)
    return after


def member_answer(member: MemberTerms) -> OrganizationMemberAnswer:
    shape = OrganizationMemberShape(member.user_id, member.login, member.login, member.role, _amount(member))
    return OrganizationMemberAnswer(shape)


def _amount(member: MemberTerms) -> float | None:
    return None if member.rate_minor is None else to_amount(member.rate_minor, member.currency)


# --- terms ------------------------------------------------------------------------------------------------------------

RateSource = Literal["timesheet", "task", "project_member", "project", "member", "organization", "none"]

BudgetMark = Literal[0, 80, 100]
"""The percentage of a budget that was last announced."""


class TimeTerms(msgspec.Struct, frozen=True):
    """The terms of time in a project.

    `rate_minor` is the hourly rate, or None. `has_budget` is true if the project has a budget whose exhaustion has not
    been announced yet.
    """

    rate_minor: int | None = None
    source: RateSource = "none"
    billable: bool = False
    has_budget: bool = False


class Rounding(msgspec.Struct, frozen=True):
    """The rounding of a time entry on an invoice. A `minutes` of 0 means none. Fractions of a second never count."""

    minutes: int = 0
    mode: RoundMode = "up"

    def of(self, duration_ms: int) -> int:
        counted_ms, unit = duration_ms // SECOND_MS * SECOND_MS, self.minutes * MINUTE_MS
        if not unit:
            return counted_ms
        more = unit - 1 if self.mode == "up" else unit // 2
        return (counted_ms + more) // unit * unit


# An organization's rates are in its own currency.
_same_currency = sa.or_(
    project_billing.c.currency.is_(None),
    project_billing.c.currency
    == sa.func.coalesce(account_billing.c.currency, sa.literal_column(f"'{DEFAULT_CURRENCY}'", sa.Text)),
)


def _where_same(rate: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    return sa.case((_same_currency, rate))


# The most specific first; only the task's own rate takes precedence over these.
_RATES: Mapping[RateSource, sa.ColumnElement[Any]] = {
    "project_member": project_rates.c.hourly_rate_minor,
    "project": project_billing.c.hourly_rate_minor,
    "member": _where_same(member_rates.c.hourly_rate_minor),
    "organization": _where_same(account_billing.c.hourly_rate_minor),
}
_SOURCES: tuple[RateSource, ...] = ("task", *_RATES)
_has_budget = sa.and_(
    sa.or_(project_billing.c.budget_ms.is_not(None), project_billing.c.budget_minor.is_not(None)),
    sa.func.coalesce(project_billing.c.budget_mark, sa.literal_column("0")) < sa.literal_column("100"),
)


def _with_settings(statement: sa.Select[Any]) -> sa.Select[Any]:
    return statement.outerjoin(project_billing, project_billing.c.repository_id == projects.c.repository_id).outerjoin(
        account_billing, account_billing.c.account_id == projects.c.account_id
    )


def _either(name: str) -> sa.ColumnElement[Any]:
    return sa.func.coalesce(project_billing.c[name], account_billing.c[name])


_rounding = _with_settings(
    sa.select(_either("round_minutes").label("minutes"), _either("round_mode").label("mode")).select_from(projects)
).where(projects.c.repository_id == bigint_param("repository_id"))


async def find_rounding(reader: Reader, repository_id: int) -> Rounding:
    """Return the rounding of the project, or else of its organization."""
    row = await reader.fetch_row(_rounding, {"repository_id": repository_id})
    return Rounding(row["minutes"] or 0, row["mode"] or "up")


class TaskTerms(NamedTuple):
    """The terms of a task: its hourly rate in minor units, and whether its time is billable; null if not set."""

    rate: sa.ColumnElement[Any]
    billable: sa.ColumnElement[Any]

    @classmethod
    def of(cls, tasks: sa.FromClause) -> TaskTerms:
        return cls(tasks.c.hourly_rate_minor, tasks.c.billable)


_NO_TASK = TaskTerms(sa.cast(sa.null(), sa.BigInteger), sa.cast(sa.null(), sa.Boolean))


def with_terms(statement: sa.Select[Any], user_id: sa.ColumnElement[Any], task: TaskTerms = _NO_TASK) -> sa.Select[Any]:
    """Add the columns of `terms_of` to a statement on `projects`. `user_id` is the user who spends the time."""
    joined = (
        _with_settings(statement)
        .outerjoin(
            project_rates,
            sa.and_(project_rates.c.repository_id == projects.c.repository_id, project_rates.c.user_id == user_id),
        )
        .outerjoin(
            member_rates,
            sa.and_(member_rates.c.account_id == projects.c.account_id, member_rates.c.user_id == user_id),
        )
    )
    return joined.add_columns(
        task.rate.label("task_rate"),
        *(column.label(f"{source}_rate") for source, column in _RATES.items()),
        sa.func.coalesce(task.billable, _either("billable")).label("billable_there"),
        _has_budget.label("has_budget"),
    )


def terms_of(row: Row) -> TimeTerms:
    source = next((each for each in _SOURCES if row[f"{each}_rate"] is not None), None)
    rate = None if source is None else row[f"{source}_rate"]
    return TimeTerms(rate, source or "none", bool(row["billable_there"]), bool(row["has_budget"]))


# --- routes -----------------------------------------------------------------------------------------------------------

_DOING = "see and change the rates of its members"

routes = Routes(WORK_API, "Users")


@routes.get("/organizations/{login}/members/{username}")
async def get_organization_member(call: Call, login: str, username: str) -> OrganizationMemberAnswer:
    """Get a member of an organization, with their hourly rate.

    Only owners of the organization can call this.
    """
    account = await get_owned_account(call.database, actor_of(call), login, _DOING)
    return member_answer(await get_member(call.database, account, username))


@routes.patch("/organizations/{login}/members/{username}")
async def edit_organization_member(
    write: Write, login: str, username: str, edit: MemberRateEdit
) -> OrganizationMemberAnswer:
    """Set the hourly rate of a member.

    Only owners of the organization can call this. The rate applies to time that finishes from now on, in projects that
    use the organization's currency and have no more specific rate.
    """
    account = await get_owned_account(write.tx, write.actor, login, _DOING)
    check_whole_account(write.actor, account.id)
    return member_answer(await change_member_rate(write, account, username, edit))
