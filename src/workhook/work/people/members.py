"""`/projects/{id}/members`, `/me` and `/organizations/{login}/members`.

Members are users; a membership has no record. A user who is added to a project may write there, whatever access the
organization grants. Access granted by the organization cannot be removed here, because owners see every project, and
members see all that are not private.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, Meta, UnsetType

from workhook.core.clock import now_ms
from workhook.core.errors import Conflict, Forbidden, Invalid, NotFound, require_found, say
from workhook.http import lists
from workhook.http.calls import Call
from workhook.http.endpoints import Listed, Routes
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.identity.invitations import shares_organization
from workhook.identity.queries import account_columns, key_of
from workhook.identity.schemas import Account, account_of, placeholder_address
from workhook.identity.tables import accounts, collaborators, memberships, projects
from workhook.identity.tokens.lookup import check_reach
from workhook.storage import Reader, Row
from workhook.storage.dialects import any_of, upsert
from workhook.storage.metadata import bigint_param
from workhook.storage.record_rows import assigned
from workhook.work.kernel.access import Access, find_access, find_with_access, role_in, with_access
from workhook.work.kernel.people import PersonShape, membership_of, person_columns, person_of_row, person_to_response
from workhook.work.kernel.schemas import Done
from workhook.work.kernel.tables import clients
from workhook.work.people.clients import delete_client, lock_own
from workhook.work.people.membership import invite, record_added, remove_collaborator, withdraw_invitation

routes = Routes(WORK_API, "Members")


class MemberCreate(msgspec.Struct):
    """The user to add as a member."""

    username: Annotated[str, Meta(min_length=1, max_length=255, description="Case is ignored.")]


class MemberShape(msgspec.Struct):
    """A member, or a person who was invited. For an invited person, only the login is shown."""

    login: str
    username: str
    email: Annotated[str, Meta(description="A placeholder unless the caller can see the address.")]
    avatar: str | None = None
    id: Annotated[int, Meta(description="Absent for an invited person.")] | UnsetType = UNSET


class MemberAnswer(msgspec.Struct):
    """`pending` is true if the person was invited; they become a member when they accept."""

    member: MemberShape
    pending: bool = False
    success: bool = True


class MembersAnswer(msgspec.Struct):
    members: list[PersonShape]
    success: bool = True


class UserAnswer(msgspec.Struct):
    user: PersonShape
    success: bool = True


# --- a project -------------------------------------------------------------------------------------------------------

_in_organization = (
    sa.select(memberships.c.user_id)
    .join(projects, projects.c.account_id == memberships.c.organization_id)
    .where(
        projects.c.repository_id == bigint_param("repository_id"),
        sa.or_(memberships.c.role == "owner", projects.c.private.is_(sa.false())),
    )
)
_owning = sa.select(projects.c.account_id).where(projects.c.repository_id == bigint_param("repository_id"))
_added = sa.select(collaborators.c.user_id).where(collaborators.c.repository_id == bigint_param("repository_id"))


def _first_of(statement: sa.Select[Any], user_id: sa.ColumnElement[int]) -> sa.Select[Any]:
    """Select a page of each part through its own index, in order."""
    some = statement.where(user_id > bigint_param("after")).order_by(user_id).limit(bigint_param("limit")).subquery()
    return sa.select(some.c[0].label("user_id"))


_candidates = sa.union(
    _first_of(_in_organization, memberships.c.user_id),
    _first_of(_owning, projects.c.account_id),
    _first_of(_added, collaborators.c.user_id),
).subquery("candidates")
_members = (
    sa.select(*person_columns(membership_of(bigint_param("repository_id"))))
    .join_from(_candidates, accounts, accounts.c.id == _candidates.c.user_id)
    .where(accounts.c.kind == "user")
    .order_by(accounts.c.id)
    .limit(bigint_param("limit"))
)

_this_project = projects.alias("place")
_person = accounts.alias("person")
_candidate = with_access(
    sa.select(
        *(_person.c[name].label(f"person_{name}") for name in Account.__struct_fields__),
        role_in(collaborators, _this_project, _person.c.id).label("person_role"),
        role_in(memberships, _this_project, _person.c.id).label("person_organization_role"),
        role_in(clients, _this_project, _person.c.id, "user_id").is_not(None).label("person_is_client"),
        shares_organization(_person.c.id).label("person_shares"),
    )
    .select_from(
        _this_project.outerjoin(
            _person, sa.and_(_person.c.login_key == sa.bindparam("login_key"), _person.c.kind == "user")
        )
    )
    .where(_this_project.c.id == sa.bindparam("project_id")),
    _this_project.c.repository_id,
)
_add = (
    upsert(collaborators).values(assigned(("repository_id", "user_id", "role", "created_at"))).on_conflict_do_nothing()
)


class Candidate(msgspec.Struct, frozen=True):
    """The user to add to or remove from a project, with their current roles and the caller's access."""

    access: Access
    account: Account | None  # None: no user has this login
    role: str | None  # as a collaborator
    organization_role: str | None  # in the organization that owns the project
    is_client: bool
    shares_organization: bool  # with the caller

    @property
    def owns(self) -> bool:
        owner = self.access.repository.owner
        return self.organization_role == "owner" or (self.account is not None and self.account.id == owner.id)

    @property
    def is_in_by_organization(self) -> bool:
        """Whether the organization grants access to the project, or the project is the user's own."""
        return self.owns or (self.organization_role is not None and not self.access.repository.private)

    @property
    def needs_invitation(self) -> bool:
        return not (self.owns or self.organization_role is not None or self.shares_organization)


async def _find_candidate(write: Write, project_id: str, username: str) -> Candidate:
    """Return a user and the caller's access. Raises `NotFound` if the caller cannot see the project."""
    row, access = await find_with_access(
        write.tx, _candidate, write.actor, project_id=project_id, login_key=key_of(username)
    )
    return Candidate(
        access=access,
        account=account_of(row, "person_") if row["person_id"] is not None else None,
        role=row["person_role"],
        organization_role=row["person_organization_role"],
        is_client=bool(row["person_is_client"]),
        shares_organization=bool(row["person_shares"]),
    )


@routes.get("/projects/{id}/members")
async def list_members(call: Call, project_id: str, query: lists.ListQuery) -> Listed[MembersAnswer]:
    """List project members.

    Returns the organization's owners, its members (unless the project is private), and people who were added to the
    project. Clients are listed separately.
    """
    after = _after(query)
    access = await find_access(call.database, actor_of(call), project_id)
    access.require_member("see the members of a project")
    params = {"repository_id": access.repository.id, "after": after, "limit": query.limit + 1}
    return _page(call, await call.database.fetch_all(_members, params), query)


@routes.post("/projects/{id}/members")
async def add_member(write: Write, project_id: str, create: MemberCreate) -> MemberAnswer:
    """Add a project member.

    Only owners and admins of the project can call this. The added person may write in the project, even without being
    in the organization. People who share an organization with the caller are added immediately. Others are invited:
    `pending` is true until they accept (`PATCH /user/repository_invitations/{invitation_id}`). Adding a member again
    has no effect.
    """
    username = create.username
    candidate = await _find_candidate(write, project_id, username)
    _require_admin(candidate.access, "add members")
    account, repository = candidate.account, candidate.access.repository
    if account is None:
        raise _invalid(say("username {} does not exist", username))
    if candidate.is_client and not candidate.is_in_by_organization and candidate.role is None:
        raise _invalid(say("username {} is a client of the project; remove the client first", username), "is_client")
    if candidate.role is None and candidate.needs_invitation:
        try:
            await invite(write, repository, "write", invitee=account)
        except NotFound:  # the caller may not invite this stranger, so respond as if the login did not exist
            raise _invalid(say("username {} does not exist", username)) from None
        return MemberAnswer(MemberShape(account.login, account.login, placeholder_address(account.login)), pending=True)
    if not candidate.owns:
        params = {"repository_id": repository.id, "user_id": account.id, "role": "write", "created_at": now_ms()}
        if await write.tx.execute(_add, params):
            await record_added(write, repository, account)
    organization_id = repository.owner.id if candidate.organization_role is not None else None
    person = person_to_response(account, organization_id=organization_id)
    return MemberAnswer(MemberShape(person.login, person.username, person.email, person.avatar, person.id))


@routes.delete("/projects/{id}/members/{username}", without=(412,))
async def remove_member(write: Write, project_id: str, username: str) -> Done:
    """Remove a project member.

    Only owners and admins of the project can remove others; everyone can leave, including clients. A pending invitation
    is revoked. Access through the organization is not affected; returns 409 if the person has no other access.
    """
    candidate = await _find_candidate(write, project_id, username)
    access, account = candidate.access, candidate.account
    own = None
    if account is None or account.id != write.actor.user.id:  # everyone can leave, even an archived project
        _require_admin(access, "remove members")
    elif candidate.is_client:
        own = await lock_own(write.tx, write.actor, access.repository.id)
    removed = account is not None and await remove_collaborator(write, access.repository, account)
    if account is not None and not removed and await withdraw_invitation(write, access.repository, account):
        removed = True
    if not removed and own is None:
        if account is None or not candidate.is_in_by_organization:
            raise NotFound()
        owner = access.repository.owner.login
        raise Conflict(
            say("{} has access through {} and was not added to the project.", account.login, owner), code="not_added"
        )
    if own is not None:
        await delete_client(write, *own)
    return Done()


def _require_admin(access: Access, doing: str) -> None:
    access.require_member(doing)
    if access.repository.role != "admin":
        message = say("You need the admin role in the project {} to {}.", access.repository.full_name, doing)
        raise Forbidden(message, code="missing_role")
    access.require_writable()


def _invalid(message: str, code: str = "invalid") -> Invalid:
    return Invalid.at("username", message, code=code)


# --- an organization -------------------------------------------------------------------------------------------------

_organization = accounts.alias("organization")
_caller_in = memberships.alias("caller_in")
# The organization is found first, if the caller is in it, so that its members are read through their index, in order.
_organization_id = (
    sa.select(_organization.c.id)
    .join_from(_organization, _caller_in, _caller_in.c.organization_id == _organization.c.id)
    .where(
        _organization.c.login_key == sa.bindparam("login_key"),
        _organization.c.kind == "organization",
        _caller_in.c.user_id == bigint_param("user_id"),
    )
    .scalar_subquery()
)
_people_page: sa.Select[Any] = (
    sa.select(*person_columns(memberships.c.organization_id))
    .join_from(memberships, accounts, accounts.c.id == memberships.c.user_id)
    .where(
        memberships.c.organization_id == _organization_id,
        accounts.c.kind == "user",
        memberships.c.user_id > bigint_param("after"),
    )
    .order_by(memberships.c.user_id)
    .limit(bigint_param("limit"))
)
_caller_role = (
    sa.select(_caller_in.c.organization_id, _caller_in.c.role)
    .join_from(
        _caller_in,
        _organization,
        sa.and_(
            _organization.c.id == _caller_in.c.organization_id, _organization.c.login_key == sa.bindparam("login_key")
        ),
    )
    .where(_caller_in.c.user_id == bigint_param("user_id"))
)


@routes.get("/me", tag="Users")
async def get_me(call: Call) -> UserAnswer:
    """Get the caller."""
    return UserAnswer(person_to_response(actor_of(call).user))


@routes.get("/organizations/{login}/members", tag="Users")
async def list_organization_members(call: Call, login: str, query: lists.ListQuery) -> Listed[MembersAnswer]:
    """List organization members.

    Only members of the organization can call this.
    """
    after, actor = _after(query), actor_of(call)
    params = {"login_key": key_of(login), "user_id": actor.user.id, "after": after, "limit": query.limit + 1}
    row = require_found(await call.database.fetch_one(_caller_role, params))
    check_reach(actor, row["organization_id"])
    if row["role"] == "owner":
        actor.request.show_as_owner(row["organization_id"])
    return _page(call, await call.database.fetch_all(_people_page, params), query)


def _after(query: lists.ListQuery) -> int:
    key = lists.after(query, tuple[int])
    return max(0, min(key[0], 2**63 - 1)) if key else 0


def _page(call: Call, found: Sequence[Row], query: lists.ListQuery) -> Listed[MembersAnswer]:
    rows, headers = lists.page(call, found, query, lambda row: (row["user_id"],))
    return Listed(MembersAnswer([person_of_row(row) for row in rows]), headers)


def _in_a_project(place: sa.Table) -> sa.ColumnElement[bool]:
    return (
        sa.select(projects.c.repository_id)
        .join_from(place, projects, projects.c.repository_id == place.c.repository_id)
        .where(place.c.user_id == accounts.c.id, projects.c.account_id == bigint_param("account_id"))
        .correlate(accounts)
        .exists()
    )


_is_member = (
    sa.select(memberships.c.role)
    .where(memberships.c.user_id == accounts.c.id, memberships.c.organization_id == bigint_param("account_id"))
    .correlate(accounts)
    .exists()
)
_belonging = sa.select(*account_columns()).where(
    any_of(accounts.c.id, "ids"),
    sa.or_(
        accounts.c.id == bigint_param("account_id"), _is_member, _in_a_project(collaborators), _in_a_project(clients)
    ),
)


async def find_accounts_of(reader: Reader, account_id: int, ids: Collection[int]) -> Mapping[int, Account]:
    """Return the accounts among `ids` that belong to `account_id`, by ID."""
    rows = await reader.fetch_all(_belonging, {"account_id": account_id, "ids": sorted(ids)}) if ids else []
    return {row["id"]: account_of(row) for row in rows}
