"""Accounts, members, collaborators and tokens: what `workhook setup` and its sisters do."""

from __future__ import annotations

import re

import sqlalchemy as sa

from workhook.core.clock import DAY_MS, now_ms
from workhook.core.errors import Fault, Invalid
from workhook.identity import invitation_ends, queries, removal
from workhook.identity.policy import SCOPES
from workhook.identity.queries import key_of
from workhook.identity.schemas import Account, Actor, Repository
from workhook.identity.tables import accounts, collaborators, memberships, projects
from workhook.identity.tokens.issue import CLASSIC, IssuedToken, issue
from workhook.storage import Transaction
from workhook.storage.dialects import upsert
from workhook.storage.metadata import big, insert_into
from workhook.storage.record_rows import assigned
from workhook.storage.statements import PerDialect

_LOGIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9]|-(?=[A-Za-z0-9])){0,38}")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")

ADDRESS_LOCK_CLASS = 0x7768656D  # of the advisory locks; the address is the other half of their key
_email = sa.bindparam("email", type_=sa.Text)
# The database's own `lower`, as where accounts are looked for by address. SQLite has one writer at a time.
_hold_address = PerDialect(
    sqlite=sa.select(sa.literal_column("1").label("held")),
    postgresql=sa.select(
        sa.func.pg_advisory_xact_lock(
            sa.literal_column(str(ADDRESS_LOCK_CLASS)), sa.func.hashtext(sa.func.lower(_email))
        ).label("held")
    ),
)
_insert_account = insert_into(
    accounts, "kind", "login", "login_key", "name", "email", "avatar", "created_at", "updated_at"
).returning(accounts.c.id)
_set_member = (
    upsert(memberships)
    .values(assigned(("organization_id", "user_id", "role", "created_at")))
    .on_conflict_do_update(index_elements=["organization_id", "user_id"], set_={"role": sa.bindparam("role")})
)
_add_member = (
    upsert(memberships)
    .values(assigned(("organization_id", "user_id", "role", "created_at")))
    .on_conflict_do_nothing(index_elements=["organization_id", "user_id"])
)
_remove_member = sa.delete(memberships).where(
    memberships.c.organization_id == big("organization_id"), memberships.c.user_id == big("user_id")
)
# Held until the transaction ends, always in this order: of two owners who go at the same time, the second sees that the
# first has gone.
_owners_and_one = (
    sa.select(memberships.c.user_id, memberships.c.role)
    .where(
        memberships.c.organization_id == big("organization_id"),
        sa.or_(memberships.c.role == "owner", memberships.c.user_id == big("user_id")),
    )
    .order_by(memberships.c.user_id)
    .with_for_update()
)
# Who is disabled looks after nothing. Asked after the owners are held, so that it sees who has just gone.
_other_owner = (
    sa.select(memberships.c.user_id)
    .join_from(memberships, accounts, accounts.c.id == memberships.c.user_id)
    .where(
        memberships.c.organization_id == big("organization_id"),
        memberships.c.role == "owner",
        memberships.c.user_id != big("user_id"),
        accounts.c.disabled_at.is_(None),
    )
    .limit(sa.literal(1, sa.BigInteger))
)
_set_collaborator = (
    upsert(collaborators)
    .values(assigned(("repository_id", "user_id", "role", "created_at")))
    .on_conflict_do_update(index_elements=["repository_id", "user_id"], set_={"role": sa.bindparam("role")})
)
_remove_collaborator = sa.delete(collaborators).where(
    collaborators.c.repository_id == big("repository_id"), collaborators.c.user_id == big("user_id")
)
# In all projects of the account, deleted ones too: these can come back.
_remove_roles = sa.delete(collaborators).where(
    collaborators.c.user_id == big("user_id"),
    collaborators.c.repository_id.in_(
        sa.select(projects.c.repository_id).where(projects.c.account_id == big("account_id"))
    ),
)


async def lock_address(tx: Transaction, email: str) -> None:
    """Before looking whether an account has the address, to create one if none has: until the transaction ends nobody
    else does the same with it. Nothing in the tables keeps two accounts from having one address."""
    await tx.fetch_one(_hold_address, {"email": email})


async def create_account(tx: Transaction, kind: str, login: str, *, name: str | None, email: str | None) -> Account:
    """A user or an organization. Raises `Invalid` for a login that is taken or malformed."""
    faults = []
    if not _LOGIN.fullmatch(login):
        faults.append(Fault(field="login", message="login must be 1 to 39 letters, digits and single hyphens"))
    elif await queries.find_account(tx, login):
        faults.append(Fault(field="login", code="already_exists", message=f"login {login} is taken"))
    if email is not None and not _EMAIL.fullmatch(email):
        faults.append(Fault(field="email", message="email must be an e-mail address"))
    if faults:
        raise Invalid(faults=faults)
    now = now_ms()
    fields = {"kind": kind, "login": login, "name": name, "email": email, "avatar": None}
    row = await tx.fetch_one(
        _insert_account, {**fields, "login_key": key_of(login), "created_at": now, "updated_at": now}
    )
    assert row is not None
    return Account(id=row["id"], **fields, created_at=now, updated_at=now)  # type: ignore[arg-type]  # None only where allowed


async def set_member(
    tx: Transaction,
    organization: Account,
    user: Account,
    role: str,
    *,
    actor: Actor | None = None,
    base: str | None = None,
) -> None:
    """Add or change. `actor` and `base`: see `removal.Loss`. Raises `Invalid` where the last owner would lose the
    role."""
    if role not in ("owner", "member"):
        raise Invalid(faults=[Fault(field="role", message="role must be owner or member")])
    params = {"organization_id": organization.id, "user_id": user.id, "role": role, "created_at": now_ms()}
    if role == "owner":
        await tx.execute(_set_member, params)
        return
    was = await _keep_an_owner(tx, organization, user)
    if was == "member" or (was is None and await tx.execute(_add_member, params) > 0):
        return
    # An owner until now, also where somebody else has made the user one at this moment.
    await tx.execute(_set_member, params)
    await removal.rights_lost(tx, organization.id, user_id=user.id, actor=actor, base=base)


async def remove_member(
    tx: Transaction, organization: Account, user: Account, *, actor: Actor | None = None, base: str | None = None
) -> bool:
    """Answers whether the user was a member. With the place go the user's own roles in the organization's projects; as
    a client the user stays. `actor` and `base`: see `removal.Loss`. Raises `Invalid` for the last owner."""
    await _keep_an_owner(tx, organization, user)
    removed = await tx.execute(_remove_member, {"organization_id": organization.id, "user_id": user.id}) > 0
    if removed:
        tx.defer(_remove_roles, [{"account_id": organization.id, "user_id": user.id}])
        invitation_ends.person_goes(tx, organization.id, None, user)
        await removal.rights_lost(tx, organization.id, user_id=user.id, actor=actor, base=base)
    return removed


async def lock_owners(tx: Transaction, organization: Account) -> None:
    """Nobody becomes less than an owner until the transaction ends."""
    await tx.fetch_all(_owners_and_one, {"organization_id": organization.id, "user_id": 0})


async def _keep_an_owner(tx: Transaction, organization: Account, user: Account) -> str | None:
    """The user's role, which nobody else changes until the transaction ends; None: not in the organization. Raises
    `Invalid` for the last owner who is not disabled."""
    params = {"organization_id": organization.id, "user_id": user.id}
    roles = {row["user_id"]: str(row["role"]) for row in await tx.fetch_all(_owners_and_one, params)}
    was = roles.get(user.id)
    if was != "owner":
        return was
    message = f"{user.login} is the last owner of {organization.login}"
    if len(roles) > 1:
        if await tx.fetch_one(_other_owner, params) is not None:
            return was
        message += " who is not disabled"
    raise Invalid(faults=[Fault(field="role", message=message)])


async def set_collaborator(
    tx: Transaction,
    repository: Repository,
    user: Account,
    role: str,
    *,
    actor: Actor | None = None,
    base: str | None = None,
) -> None:
    """Add or change. `actor` and `base`: see `removal.Loss`."""
    if role not in ("read", "write", "admin"):
        raise Invalid(faults=[Fault(field="role", message="role must be read, write or admin")])
    params = {"repository_id": repository.id, "user_id": user.id, "role": role, "created_at": now_ms()}
    await tx.execute(_set_collaborator, params)
    if role != "admin":  # who was one is less now
        await removal.rights_lost(tx, repository.owner.id, repository.id, user_id=user.id, actor=actor, base=base)


async def remove_collaborator(
    tx: Transaction, repository: Repository, user: Account, *, actor: Actor | None = None, base: str | None = None
) -> bool:
    """Answers whether the user was a collaborator. `actor` and `base`: see `removal.Loss`."""
    removed = await tx.execute(_remove_collaborator, {"repository_id": repository.id, "user_id": user.id}) > 0
    if removed:
        invitation_ends.person_goes(tx, repository.owner.id, repository.id, user)
        await removal.rights_lost(tx, repository.owner.id, repository.id, user_id=user.id, actor=actor, base=base)
    return removed


async def issue_token(
    tx: Transaction, user: Account, scopes: list[str], *, note: str | None = None, expires_in_days: float | None = None
) -> IssuedToken:
    """A classic personal access token. Raises `Invalid` for a scope that does not exist."""
    unknown = sorted(set(scopes) - set(SCOPES))
    if unknown:
        listed = ", ".join(SCOPES)
        raise Invalid(faults=[Fault(field="scopes", message=f"{', '.join(unknown)}: there are only {listed}")])
    if user.kind != "user":
        raise Invalid(faults=[Fault(field="user", message=f"{user.login} is not a user")])
    expires_at = None if expires_in_days is None else now_ms() + round(expires_in_days * DAY_MS)
    return await issue(tx, CLASSIC, user.id, scopes=scopes, note=note, expires_at=expires_at)
