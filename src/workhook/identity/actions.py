"""Write operations on accounts, members, collaborators and classic tokens.

Disabling a user takes effect in every process within a second. Tokens, passwords and identities are kept and become
valid again when the user is enabled: each lookup checks the user's state. Sessions, links, timers and streams end. The
user's roles and past actions are kept, and are still shown.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import sqlalchemy as sa

from workhook.core.clock import DAY_MS, now_ms
from workhook.core.errors import Fault, Invalid, must_be, say
from workhook.core.mail_address import is_address
from workhook.core.text import one_line
from workhook.identity import audit, queries, removal
from workhook.identity.policy import SCOPES
from workhook.identity.queries import key_of
from workhook.identity.schemas import Account, Actor, Repository, login_fault
from workhook.identity.signin import sessions
from workhook.identity.tables import accounts, collaborators, memberships, projects
from workhook.identity.tokens.issue import CLASSIC, IssuedToken, forget_after_commit, issue
from workhook.storage import Reader, Transaction
from workhook.storage.dialects import upsert
from workhook.storage.metadata import bigint_param
from workhook.storage.record_rows import assigned
from workhook.storage.statements import PerDialect

_LOGIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9]|-(?=[A-Za-z0-9])){0,38}")

_rename = (
    sa.update(accounts)
    .where(accounts.c.id == bigint_param("account_id"))
    .values(name=sa.bindparam("name"), updated_at=bigint_param("now"))
)
ADDRESS_LOCK_CLASS = 0x7768656D  # class of the advisory locks, with the address as the key
_email = sa.bindparam("email", type_=sa.Text)
# The database's own `lower`, as in lookups by address. SQLite has a single writer.
_lock_address = PerDialect(
    sqlite=sa.select(sa.literal_column("1").label("held")),
    postgresql=sa.select(
        sa.func.pg_advisory_xact_lock(
            sa.literal_column(str(ADDRESS_LOCK_CLASS)), sa.func.hashtext(sa.func.lower(_email))
        ).label("held")
    ),
)
_membership = ["organization_id", "user_id"]
_new_membership = upsert(memberships).values(assigned((*_membership, "role", "created_at")))
_set_member = _new_membership.on_conflict_do_update(index_elements=_membership, set_={"role": sa.bindparam("role")})
add_membership = _new_membership.on_conflict_do_nothing(index_elements=_membership)
remove_membership = sa.delete(memberships).where(
    memberships.c.organization_id == bigint_param("organization_id"), memberships.c.user_id == bigint_param("user_id")
)
# Always in this order, so that if two owners leave concurrently, the second one sees that the first has left.
_owners_and_one = (
    sa.select(memberships.c.user_id, memberships.c.role)
    .where(
        memberships.c.organization_id == bigint_param("organization_id"),
        sa.or_(memberships.c.role == "owner", memberships.c.user_id == bigint_param("user_id")),
    )
    .order_by(memberships.c.user_id)
    .with_for_update()
)
_set_collaborator = (
    upsert(collaborators)
    .values(assigned(("repository_id", "user_id", "role", "created_at")))
    .on_conflict_do_update(index_elements=["repository_id", "user_id"], set_={"role": sa.bindparam("role")})
)
_remove_collaborator = sa.delete(collaborators).where(
    collaborators.c.repository_id == bigint_param("repository_id"), collaborators.c.user_id == bigint_param("user_id")
)
# Deleted projects are included, because they can be restored.
_remove_roles = sa.delete(collaborators).where(
    collaborators.c.user_id == bigint_param("user_id"),
    collaborators.c.repository_id.in_(
        sa.select(projects.c.repository_id).where(projects.c.account_id == bigint_param("account_id"))
    ),
)


async def lock_address(tx: Transaction, email: str) -> None:
    """Lock an address before an account is looked up by it and created, since no constraint keeps it unique."""
    await tx.fetch_one(_lock_address, {"email": email})


async def create_account(tx: Transaction, kind: str, login: str, *, name: str | None, email: str | None) -> Account:
    """Create a user or an organization. Raises `Invalid` if the login is taken, reserved or malformed."""
    faults = await faults_of_login(tx, login)
    if email is not None and not is_address(email):
        faults.append(Fault(field="email", message=must_be("email", "an e-mail address")))
    if faults:
        raise Invalid(faults=faults)
    now = now_ms()
    fields = {"kind": kind, "login": login, "name": one_line(name or "") or None, "email": email, "avatar": None}
    times = {"created_at": now, "updated_at": now}
    account_id = await tx.insert(accounts, {**fields, "login_key": key_of(login), **times})
    return Account(id=account_id, **fields, created_at=now, updated_at=now)  # type: ignore[arg-type]  # None only where allowed


def is_login(text: str) -> bool:
    return bool(_LOGIN.fullmatch(text))


async def faults_of_login(reader: Reader, login: str) -> list[Fault]:
    """Return the fault of a login that is taken, reserved or malformed, or an empty list."""
    if not is_login(login):
        return [Fault(field="login", message="login must be 1 to 39 letters, digits, and single hyphens")]
    if reserved_because := login_fault(login):
        return [Fault(field="login", code="reserved", message=reserved_because)]
    if await queries.find_account(reader, login):
        return [Fault(field="login", code="already_exists", message=say("login {} is taken", login))]
    return []


async def rename(tx: Transaction, account: Account, name: str | None, *, actor: Actor) -> None:
    """Set the full name of a user or an organization. The login does not change."""
    name = one_line(name or "") or None
    if name == account.name:
        return
    await tx.execute(_rename, {"account_id": account.id, "name": name, "now": max(now_ms(), account.updated_at + 1)})
    forget_after_commit(tx)  # cached tokens contain their user
    await audit.record(tx, actor, f"{account.kind}.edit", account.login, account_id=account.id)


async def set_member(
    tx: Transaction,
    organization: Account,
    user: Account,
    role: str,
    *,
    actor: Actor | None = None,
    base: str | None = None,
) -> None:
    """Add a member or change their role. Raises `Invalid` if the last owner would lose the role."""
    if role not in ("owner", "member"):
        raise Invalid.at("role", "role must be owner or member")
    params = {"organization_id": organization.id, "user_id": user.id, "role": role, "created_at": now_ms()}
    if role == "owner":
        await tx.execute(_set_member, params)
        return
    was = await _keep_an_owner(tx, organization, user)
    if was == "member" or (was is None and await tx.execute(add_membership, params) > 0):
        return
    # The user was an owner, or has concurrently become one.
    await tx.execute(_set_member, params)
    await removal.rights_lost(tx, organization.id, user_id=user.id, actor=actor, base=base)


async def remove_member(
    tx: Transaction, organization: Account, user: Account, *, actor: Actor | None = None, base: str | None = None
) -> bool:
    """Remove a member, and their roles in the organization's projects, except as a client.

    Returns whether they were one. Raises `Invalid` for the last owner.
    """
    await _keep_an_owner(tx, organization, user)
    removed = await tx.execute(remove_membership, {"organization_id": organization.id, "user_id": user.id}) > 0
    if removed:
        tx.defer(_remove_roles, [{"account_id": organization.id, "user_id": user.id}])
        removal.delete_invitations_of(tx, organization.id, None, user)
        await removal.rights_lost(tx, organization.id, user_id=user.id, actor=actor, base=base)
    return removed


async def lock_owners(tx: Transaction, organization: Account) -> None:
    await tx.fetch_all(_owners_and_one, {"organization_id": organization.id, "user_id": 0})


async def _keep_an_owner(tx: Transaction, organization: Account, user: Account) -> str | None:
    """Lock and return the user's role. Raises `Invalid` for the last owner who is not disabled."""
    params = {"organization_id": organization.id, "user_id": user.id}
    roles = {row["user_id"]: str(row["role"]) for row in await tx.fetch_all(_owners_and_one, params)}
    was = roles.get(user.id)
    if was != "owner":
        return was
    message: str = say("{} is the last owner of {}", user.login, organization.login)
    if len(roles) > 1:  # checked after the owners are locked, so that an owner who has just left is seen
        if organization.login not in await list_owned_alone(tx, user):
            return was
        message = _last_owner(user, organization.login)
    raise Invalid.at("role", message)


async def set_collaborator(
    tx: Transaction,
    repository: Repository,
    user: Account,
    role: str,
    *,
    actor: Actor | None = None,
    base: str | None = None,
) -> None:
    if role not in ("read", "write", "admin"):
        raise Invalid.at("role", "role must be read, write, or admin")
    params = {"repository_id": repository.id, "user_id": user.id, "role": role, "created_at": now_ms()}
    await tx.execute(_set_collaborator, params)
    if role != "admin":  # the user may have been an admin
        await removal.rights_lost(tx, repository.owner.id, repository.id, user_id=user.id, actor=actor, base=base)


async def remove_collaborator(
    tx: Transaction, repository: Repository, user: Account, *, actor: Actor | None = None, base: str | None = None
) -> bool:
    removed = await tx.execute(_remove_collaborator, {"repository_id": repository.id, "user_id": user.id}) > 0
    if removed:
        removal.delete_invitations_of(tx, repository.owner.id, repository.id, user)
        await removal.rights_lost(tx, repository.owner.id, repository.id, user_id=user.id, actor=actor, base=base)
    return removed


async def issue_token(
    tx: Transaction, user: Account, scopes: list[str], *, note: str | None = None, expires_in_days: float | None = None
) -> IssuedToken:
    """Issue a classic personal access token. Raises `Invalid` for an unknown scope."""
    if unknown := sorted(set(scopes) - set(SCOPES)):
        message = f"{', '.join(unknown)}: unknown; use {', '.join(SCOPES)}"
        raise Invalid.at("scopes", message)
    if user.kind != "user":
        raise Invalid.at("user", f"{user.login} is not a user")
    expires_at = None if expires_in_days is None else now_ms() + round(expires_in_days * DAY_MS)
    return await issue(tx, CLASSIC, user.id, scopes=scopes, note=note, expires_at=expires_at)


_own_membership = memberships.alias("own")
_other_memberships = memberships.alias("others")
_other_people = accounts.alias("other_people")
_owned = sa.select(_own_membership.c.organization_id).where(
    _own_membership.c.user_id == bigint_param("user_id"), _own_membership.c.role == "owner"
)
# In the same order as the owners of one organization.
_lock_owners_of = (
    sa.select(memberships.c.user_id)
    .where(memberships.c.organization_id.in_(_owned), memberships.c.role == "owner")
    .order_by(memberships.c.organization_id, memberships.c.user_id)
    .with_for_update()
)
_others = _other_memberships.c
_have_another_owner = sa.exists().where(
    _others.organization_id == accounts.c.id,
    _others.role == "owner",
    _others.user_id != bigint_param("user_id"),
    _other_people.c.id == _others.user_id,
    _other_people.c.disabled_at.is_(None),
)
_left_alone = sa.select(accounts.c.login).where(accounts.c.id.in_(_owned), ~_have_another_owner.correlate(accounts))
_left_alone = _left_alone.order_by(accounts.c.login_key)
_disable = (
    sa.update(accounts)
    .where(accounts.c.id == bigint_param("user_id"), accounts.c.disabled_at.is_(None))
    .values(disabled_at=bigint_param("now"))
)
_enable = (
    sa.update(accounts)
    .where(accounts.c.id == bigint_param("user_id"), accounts.c.disabled_at.is_not(None))
    .values(disabled_at=sa.null())
)


def _last_owner(user: Account, organizations: str) -> str:
    return say(
        "{} is the last active owner of {}; make another member an owner first, or delete the organization",
        user.login,
        organizations,
    )


class LastOwner(Invalid):
    """Raised if the user is the only owner of `organizations` (logins) who is not disabled."""

    def __init__(self, user: Account, organizations: list[str]) -> None:
        super().__init__(faults=[Fault(field="user", message=_last_owner(user, ", ".join(organizations)))])
        self.organizations = organizations


async def list_owned_alone(reader: Reader, user: Account) -> list[str]:
    """Return the logins of the organizations that have no other owner who is not disabled."""
    return [row["login"] for row in await reader.fetch_all(_left_alone, {"user_id": user.id})]


class Disabled(NamedTuple):
    """The time since which a user has been disabled, in milliseconds since the epoch, and whether this call did it."""

    at: int
    changed: bool


async def disable(tx: Transaction, user: Account, *, base: str, actor: Actor | None = None) -> Disabled:
    """Disable a user. Raises `LastOwner`. For `base`, see `removal.Loss`."""
    since = await queries.disabled_at(tx, user.id)
    if since is not None:
        return Disabled(since, changed=False)
    await tx.fetch_all(_lock_owners_of, {"user_id": user.id})
    if alone := await list_owned_alone(tx, user):
        raise LastOwner(user, alone)
    now = now_ms()
    if not await tx.execute(_disable, {"user_id": user.id, "now": now}):  # by a concurrent request
        return Disabled(await queries.disabled_at(tx, user.id) or now, changed=False)
    await sessions.end_all(tx, user.id)
    await removal.rights_lost(tx, None, user_id=user.id, base=base)
    forget_after_commit(tx)
    await audit.record(tx, actor, "user.disable", user.login, account_id=user.id)
    return Disabled(now, changed=True)


async def enable(tx: Transaction, user: Account, *, actor: Actor | None = None) -> bool:
    """Enable a user. Returns whether they were disabled."""
    if not await tx.execute(_enable, {"user_id": user.id}):
        return False
    await sessions.end_all(tx, user.id)  # a concurrent sign-in may have left a session that was never valid
    await audit.record(tx, actor, "user.enable", user.login, account_id=user.id)
    return True
