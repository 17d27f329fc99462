"""`/admin/users` and `/admin/organizations`: list, create, disable and remove accounts on the server.

Events in organizations do not name an administrator, who may belong to another organization; their sender is Workhook
itself. The audit log does name the administrator.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, Meta, UnsetType

from workhook.core.clock import now_ms, to_seconds_text
from workhook.core.errors import Conflict, Fault, Invalid, NotFound, require_found, say
from workhook.http.calls import Call
from workhook.http.endpoints import Created, Paged, Retry, Routes
from workhook.http.operations import WEBHOOK_API
from workhook.http.parameters import Title
from workhook.http.wire_types import Time
from workhook.identity import actions, administrators, audit, profile_schemas, tables
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.identity.invitations import invited
from workhook.identity.profile_schemas import OrganizationProfileShape, organization_profile_to_response
from workhook.identity.queries import account_columns, find_account, find_account_by_id, find_repository_by_id, key_of
from workhook.identity.schemas import Account, Actor, account_of
from workhook.identity.tables import (
    accounts,
    collaborators,
    mail_messages,
    mail_recipients,
    memberships,
    notification_settings,
    notifications,
    projects,
)
from workhook.identity.tokens.issue import forget_after_commit
from workhook.storage import Reader, Row, Transaction
from workhook.storage.database import UniqueViolation
from workhook.storage.metadata import bigint_param
from workhook.storage.pages import Page, numbered_list, read_page
from workhook.work.board.filters import board_filters
from workhook.work.history.feeds import calendar_feeds
from workhook.work.kernel.billing_settings import account_billing, billing_logos
from workhook.work.kernel.people import Email
from workhook.work.kernel.schemas import if_set
from workhook.work.people.clients import end_clients_of
from workhook.work.people.membership import remove_collaborator, remove_member

Login = Annotated[str, Meta(min_length=1, max_length=39, description="1 to 39 letters, digits, and single hyphens.")]


class UserCreate(msgspec.Struct):
    """A user to create."""

    login: Login
    email: Email
    name: Title | UnsetType | None = UNSET


class OrganizationCreate(msgspec.Struct):
    """An organization to create, with its first owner."""

    login: Login
    admin: Annotated[str, Meta(description="Login of the user who becomes its owner.")]
    profile_name: Annotated[Title, Meta(description="Display name. Default: the login.")] | UnsetType | None = UNSET


class AdministeredUser(profile_schemas.ProfileShape, kw_only=True):
    """A user, as shown to administrators."""

    site_admin: Annotated[bool, Meta(description="Whether the user administers the server.")]
    email: Annotated[str | None, Meta(description="Visible to administrators only.")]
    disabled_at: Annotated[Time | None, Meta(description="When the account was disabled; null if it is active.")]


class UserOfServer(msgspec.Struct, frozen=True):
    """A user of the server. `disabled_at` is in milliseconds since the epoch."""

    account: Account
    is_administrator: bool = False
    disabled_at: int | None = None


def administered_user(user: UserOfServer, base: str) -> AdministeredUser:
    """Return the shape of a user. `base` is the prefix of links in the body."""
    values = msgspec.structs.asdict(profile_schemas.profile_to_response(user.account, base, whole=True))
    at = None if user.disabled_at is None else to_seconds_text(user.disabled_at)
    return AdministeredUser(**{**values, "site_admin": user.is_administrator, "disabled_at": at})


NAMED_MAX = 5
LOGINS_TRIED_MAX = 1_000

_user_id = bigint_param("user_id")
_users = sa.select(*account_columns(), accounts.c.disabled_at, administrators.is_one.label("is_administrator")).where(
    accounts.c.kind == "user"
)
_all = numbered_list(_users, accounts.c.id)
_locked = _users.where(accounts.c.login_key == sa.bindparam("login_key")).with_for_update(of=accounts)

_organizations = sa.select(memberships.c.organization_id).where(memberships.c.user_id == _user_id)
_places = sa.select(collaborators.c.repository_id).where(collaborators.c.user_id == _user_id)
_projects = (
    sa.select(projects.c.title.label("called"))
    .where(projects.c.account_id == _user_id)
    .order_by(projects.c.repository_id)
    .limit(sa.literal_column(str(NAMED_MAX)))
)
# Data that concerns only the person. Everything else they created is kept and refers to the account.
_OWN = tuple(
    sa.delete(table).where(table.c.user_id == _user_id)
    for table in (
        tables.tokens, tables.passwords, tables.identities, tables.grants, tables.administrators, tables.collaborators,
        notifications, notification_settings, mail_messages, mail_recipients, calendar_feeds, board_filters,
    )
)  # fmt: skip
_INVITATIONS = sa.delete(tables.invitations).where(tables.invitations.c.invitee == sa.bindparam("invitee"))
_BILLING = (
    sa.delete(account_billing).where(account_billing.c.account_id == _user_id),
    sa.delete(billing_logos).where(billing_logos.c.account_id == _user_id, billing_logos.c.is_issued.is_(sa.false())),
)
# The work of removed users is kept and remains attributed to the account.
_become_former = (
    sa.update(accounts)
    .where(accounts.c.id == _user_id)
    .values(
        kind="former",
        login=sa.bindparam("login"),
        login_key=sa.bindparam("login"),
        name="Former member",
        email=sa.null(),
        avatar=sa.null(),
        updated_at=bigint_param("now"),
    )
)


async def require_administrator(reader: Reader, actor: Actor) -> None:
    """Raise `NotFound` unless the caller administers the server."""
    if not await administrators.is_administrator(reader, actor.user.id):
        raise NotFound()


async def list_users(reader: Reader, page: Page) -> tuple[list[UserOfServer], int]:
    """Return a page of users, oldest first, and their total number."""
    rows, total = await read_page(reader, _all, {}, page)
    return [_user_of(row) for row in rows], total


def _user_of(row: Row) -> UserOfServer:
    return UserOfServer(account_of(row), bool(row["is_administrator"]), row["disabled_at"])


async def lock_user(tx: Transaction, login: str) -> UserOfServer:
    """Lock a user's account. Raises `NotFound`."""
    row = require_found(await tx.fetch_one(_locked, {"login_key": key_of(login)}))
    return _user_of(row)


async def add_user(write: Write, login: str, email: str, name: str | None) -> UserOfServer:
    """Create a user. Raises `Invalid`."""
    user = await actions.create_account(write.tx, "user", login, name=name, email=email)
    await audit.record(write.tx, write.actor, "user.create", user.login, account_id=user.id)
    return UserOfServer(user)


async def add_organization(write: Write, login: str, owner: str, name: str | None) -> Account:
    """Create an organization with its first owner. Raises `Invalid`."""
    faults = await actions.faults_of_login(write.tx, login)
    who = await find_account(write.tx, owner)
    if who is None or who.kind != "user":
        faults.append(Fault(field="admin", message=say("admin {} is not a user of this server", owner)))
    if faults or who is None:
        raise Invalid(faults=faults)
    place = await actions.create_account(write.tx, "organization", login, name=name or login, email=None)
    await actions.set_member(write.tx, place, who, "owner", actor=write.actor, base=write.base)
    await audit.record(
        write.tx, write.actor, "organization.create", place.login, account_id=place.id, detail={"owner": who.login}
    )
    return place


async def disable(write: Write, login: str) -> UserOfServer:
    """Disable a user.

    Raises `NotFound`, or `Invalid` for the last owner of an organization and the last administrator.
    """
    user = await lock_user(write.tx, login)
    if user.disabled_at is not None:
        return user
    if user.is_administrator:
        await administrators.require_another_administrator(write.tx, user.account)
    done = await actions.disable(write.tx, user.account, base=write.base, actor=write.actor)
    return UserOfServer(user.account, user.is_administrator, done.at)


async def enable(write: Write, login: str) -> UserOfServer:
    """Enable a user. Raises `NotFound`."""
    user = await lock_user(write.tx, login)
    await actions.enable(write.tx, user.account, actor=write.actor)
    return UserOfServer(user.account, user.is_administrator)


async def remove_user(write: Write, login: str) -> None:
    """Remove a user's account. Their work is kept under a login such as `former-7`.

    Raises `NotFound`, or `Invalid` for the last owner of an organization, the last administrator, and users with
    projects of their own.
    """
    user = await lock_user(write.tx, login)
    account = user.account
    if faults := await _list_own_things(write.tx, account):
        raise Invalid(faults=faults)
    if user.is_administrator:
        await administrators.require_another_administrator(write.tx, account)
    await actions.disable(write.tx, account, base=write.base, actor=write.caller)
    params = {"user_id": account.id}
    by_itself = write.by_itself()
    for row in await write.tx.fetch_all(_organizations, params):
        place = await find_account_by_id(write.tx, row["organization_id"])
        assert place is not None, "a membership refers to it"
        await remove_member(by_itself, place, account)
    for row in await write.tx.fetch_all(_places, params):
        repository = await find_repository_by_id(write.tx, row["repository_id"])
        if repository is not None:  # None: it is in the trash, where no events are published
            await remove_collaborator(by_itself, repository, account)
    await end_clients_of(by_itself, account)
    for statement in (*_OWN, *_BILLING):
        await write.tx.execute(statement, params)
    await write.tx.execute(_INVITATIONS, {"invitee": invited(account)["invitee"]})
    former = await _free_login(write.tx, account)
    await write.tx.execute(_become_former, {**params, "login": former, "now": max(now_ms(), account.updated_at + 1)})
    forget_after_commit(write.tx)
    await audit.record(write.tx, write.caller, "user.delete", account.login, account_id=account.id)


async def find_obstacles(reader: Reader, account: Account) -> list[Fault]:
    """Return the reasons why an account cannot be removed now, with remedies.

    Does not check for the last administrator.
    """
    alone = await actions.list_owned_alone(reader, account)
    faults = actions.LastOwner(account, alone).faults if alone else ()
    return [*faults, *await _list_own_things(reader, account)]


async def _list_own_things(reader: Reader, account: Account) -> list[Fault]:
    named = ", ".join(row["called"] for row in await reader.fetch_all(_projects, {"user_id": account.id}))
    if not named:
        return []
    message = say(
        "{} owns projects ({}). Delete them and wait until they have left the trash, or have the account disabled",
        account.login,
        named,
    )
    return [Fault(field="login", code="has_projects", message=message)]


async def _free_login(tx: Transaction, account: Account) -> str:
    """Return a free login such as `former-7`, with a suffix if that is taken."""
    login = f"former-{account.id}"
    for number in range(2, LOGINS_TRIED_MAX):
        if await find_account(tx, login) is None:
            return login
        login = f"former-{account.id}-{number}"
    raise Conflict(say("Every login similar to {} is taken.", f"former-{account.id}"), code="logins_taken")


# --- the API, which is hidden from everyone else ----------------------------------------------------------------------

routes = Routes(WEBHOOK_API, "administration", read="site_admin", write="site_admin")
_TAKEN = Retry(UniqueViolation)  # if two requests choose the same login at once, the second one is rejected


@routes.get("/admin/users", problems=(404,), action="user.list")
async def admin_users_list(call: Call, page: Page) -> Paged[list[AdministeredUser]]:
    """List users.

    Only server administrators can call this.
    """
    await require_administrator(call.database, actor_of(call))
    found, total = await list_users(call.database, page)
    return Paged([administered_user(each, call.base) for each in found], total)


@routes.post("/admin/users", retry=_TAKEN, resource="User", problems=(404,), action="user.create")
async def admin_users_create(write: Write, wanted: UserCreate) -> Created[AdministeredUser]:
    """Create a user.

    The user has no password yet. Use the command line to create a link with which they can set one. Only server
    administrators can call this.
    """
    await require_administrator(write.tx, write.actor)
    made = await add_user(write, wanted.login, wanted.email, if_set(wanted.name))
    shape = administered_user(made, write.call.base)
    return Created(shape, shape.url)


@routes.post("/admin/users/{username}/disable", action="user.disable")
async def admin_users_disable(write: Write, username: str) -> AdministeredUser:
    """Disable a user.

    Takes effect within a second: sessions, tokens and streams end, and timers are finished. The user's work is kept.
    Returns 422 for the last owner of an organization and the last administrator. Only server administrators can call
    this.
    """
    await require_administrator(write.tx, write.actor)
    return administered_user(await disable(write, username), write.call.base)


@routes.post("/admin/users/{username}/enable", action="user.enable")
async def admin_users_enable(write: Write, username: str) -> AdministeredUser:
    """Enable a user.

    The user's previous tokens and password work again. Only server administrators can call this.
    """
    await require_administrator(write.tx, write.actor)
    return administered_user(await enable(write, username), write.call.base)


@routes.delete("/admin/users/{username}", action="user.delete")
async def admin_users_delete(write: Write, username: str) -> None:
    """Delete a user.

    The user's work is kept and attributed to a former member. Their name, address, tokens, and memberships are removed
    permanently. Returns 422 for the last owner of an organization, the last administrator, and users with projects of
    their own. Only server administrators can call this.
    """
    await require_administrator(write.tx, write.actor)
    await remove_user(write, username)


@routes.post(
    "/admin/organizations", retry=_TAKEN, resource="Organization", problems=(404,), action="organization.create"
)
async def admin_organizations_create(write: Write, wanted: OrganizationCreate) -> Created[OrganizationProfileShape]:
    """Create an organization.

    Only server administrators can call this. It does not make them members of the organization.
    """
    await require_administrator(write.tx, write.actor)
    made = await add_organization(write, wanted.login, wanted.admin, if_set(wanted.profile_name))
    shape = organization_profile_to_response(made, write.call.base)
    return Created(shape, shape.url)
