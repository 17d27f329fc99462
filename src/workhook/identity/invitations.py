"""Invitations: nobody is put into an organization or a repository without consent.

An invitation holds for a week, and only as long as the inviter may invite there and is not disabled. It gives nothing
until it is accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import sqlalchemy as sa

from workhook.core.clock import DAY_MS, now_ms
from workhook.identity.profile_queries import Listed, listed, read_page
from workhook.identity.queries import account_columns, repository_columns, repository_of, role_columns
from workhook.identity.schemas import Account, Repository, account_of
from workhook.identity.tables import accounts, collaborators, invitations, memberships, projects
from workhook.storage import Reader, Row, Transaction
from workhook.storage.dialects import upsert
from workhook.storage.metadata import big

HOLDS_MS = 7 * DAY_MS


class Invitation(msgspec.Struct, frozen=True):
    """`repository` None: to the organization `account`. `invitee` None: whoever has the address `email`.

    `is_known`: whoever looks shares an organization with the invitee, and so sees who that is.
    """

    id: int
    account: Account
    repository: Repository | None
    invitee: Account | None
    email: str | None
    role: str
    inviter: Account
    created_at: int
    expires_at: int
    is_known: bool


_invitee = accounts.alias("invitee")
_inviter = accounts.alias("inviter")
_mine = memberships.alias("mine")
_theirs = memberships.alias("theirs")
_inviting = memberships.alias("inviting")
_administering = collaborators.alias("administering")


def shares_organization(person_id: sa.ColumnElement[int], *, as_owner: bool = False) -> sa.ColumnElement[bool]:
    """Whether the parameter `user_id` and the person are in one organization; `as_owner`: in one that the user owns."""
    shared = (
        sa.select(_mine.c.role)
        .join_from(_mine, _theirs, _theirs.c.organization_id == _mine.c.organization_id)
        .where(_mine.c.user_id == big("user_id"), _theirs.c.user_id == person_id)
    )
    if as_owner:
        shared = shared.where(_mine.c.role == "owner")
    return shared.correlate_except(_mine, _theirs).exists()


_may_invite = sa.or_(
    invitations.c.inviter_id == invitations.c.account_id,
    sa.select(_inviting.c.role)
    .where(
        _inviting.c.organization_id == invitations.c.account_id,
        _inviting.c.user_id == invitations.c.inviter_id,
        _inviting.c.role == "owner",
    )
    .correlate_except(_inviting)
    .exists(),
    sa.select(_administering.c.role)
    .where(
        _administering.c.repository_id == invitations.c.repository_id,
        _administering.c.user_id == invitations.c.inviter_id,
        _administering.c.role == "admin",
    )
    .correlate_except(_administering)
    .exists(),
)
_holds = sa.and_(invitations.c.expires_at > big("now"), _inviter.c.disabled_at.is_(None), _may_invite)
_own = ("id", "repository_id", "email", "role", "created_at", "expires_at")
_columns: list[sa.ColumnElement[Any]] = [
    *(invitations.c[name].label(f"invitation_{name}") for name in _own),
    *(_invitee.c[name].label(f"invitee_{name}") for name in Account.__struct_fields__),
    *(_inviter.c[name].label(f"inviter_{name}") for name in Account.__struct_fields__),
    shares_organization(invitations.c.user_id).label("is_known"),
]
_people = invitations.join(_inviter, _inviter.c.id == invitations.c.inviter_id).outerjoin(
    _invitee, _invitee.c.id == invitations.c.user_id
)
_to_organizations = (
    sa.select(*_columns, *account_columns("owner_"))
    .select_from(_people.join(accounts, accounts.c.id == invitations.c.account_id))
    .where(invitations.c.repository_id.is_(None), _holds)
)
_to_repositories = (
    sa.select(*_columns, *repository_columns(), *role_columns)
    .select_from(
        _people.join(projects, projects.c.repository_id == invitations.c.repository_id).join(
            accounts, accounts.c.id == projects.c.account_id
        )
    )
    .where(projects.c.deleted_at.is_(None), _holds)
)
# Of an organization's invitations by e-mail: whoever has the address now.
_for_caller = sa.or_(
    invitations.c.invitee == sa.bindparam("invitee"), invitations.c.invitee == sa.bindparam("addressed")
)
_by_id = invitations.c.id == big("id")
_of_organization = listed(_to_organizations.where(invitations.c.account_id == big("account_id")), invitations.c.id)
_of_repository = listed(_to_repositories.where(invitations.c.repository_id == big("repository_id")), invitations.c.id)
_organizations_of_caller = listed(_to_organizations.where(_for_caller), invitations.c.id)
_repositories_of_caller = listed(_to_repositories.where(_for_caller), invitations.c.id)
_in_organization = _to_organizations.where(invitations.c.account_id == big("account_id"))
_one_of_organization = _in_organization.where(_by_id)
_of_person = _in_organization.where(invitations.c.invitee == sa.bindparam("invitee"))
_to_caller = _to_organizations.where(accounts.c.login_key == sa.bindparam("login_key"), _for_caller)
_one_of_repository = _to_repositories.where(invitations.c.repository_id == big("repository_id"), _by_id)
_one_to_caller = _to_repositories.where(_for_caller, _by_id)

_COLUMNS = (
    "account_id", "repository_id", "user_id", "email", "role", "inviter_id", "created_at", "expires_at", "place",
    "invitee",
)  # fmt: skip
_write = (
    upsert(invitations)
    .values({name: sa.bindparam(name) for name in _COLUMNS})
    .on_conflict_do_update(
        index_elements=["place", "invitee"],
        set_={name: sa.bindparam(name) for name in ("role", "inviter_id", "created_at", "expires_at")},
    )
    .returning(invitations.c.id)
)
_delete = sa.delete(invitations).where(invitations.c.id == big("id"))
_withdraw = sa.delete(invitations).where(
    invitations.c.place == sa.bindparam("place"), invitations.c.invitee == sa.bindparam("invitee")
)
_change = sa.update(invitations).where(invitations.c.id == big("id")).values(role=sa.bindparam("role"))


async def invite(
    tx: Transaction,
    place: Account | Repository,
    inviter: Account,
    role: str,
    *,
    invitee: Account | None = None,
    email: str | None = None,
    is_known: bool = False,
) -> Invitation:
    """Invite a user, or whoever has the address. Inviting again renews: the role and the week are the new ones."""
    account, repository = (place.owner, place) if isinstance(place, Repository) else (place, None)
    now = now_ms()
    times = {"created_at": now, "expires_at": now + HOLDS_MS}
    values = {
        "account_id": account.id,
        "repository_id": repository.id if repository else None,
        "user_id": invitee.id if invitee else None,
        "email": email,
        "role": role,
        "inviter_id": inviter.id,
        "place": _place(place),
        "invitee": _key(invitee, email),
    }
    row = await tx.fetch_one(_write, {**values, **times})
    assert row is not None
    return Invitation(row["id"], account, repository, invitee, email, role, inviter, is_known=is_known, **times)


async def list_of_organization(
    reader: Reader, organization: Account, viewer: Account, *, limit: int, offset: int
) -> tuple[list[Invitation], int]:
    """Oldest first, and how many there are."""
    return await _page(reader, _of_organization, {"account_id": organization.id}, viewer, limit, offset)


async def list_of_repository(
    reader: Reader, repository: Repository, viewer: Account, *, limit: int, offset: int
) -> tuple[list[Invitation], int]:
    """Oldest first, and how many there are."""
    return await _page(reader, _of_repository, {"repository_id": repository.id}, viewer, limit, offset)


async def list_to_organizations(
    reader: Reader, user: Account, *, limit: int, offset: int
) -> tuple[list[Invitation], int]:
    """The invitations to organizations that the user may accept, oldest first, and how many there are."""
    return await _page(reader, _organizations_of_caller, _invited(user), user, limit, offset)


async def list_to_repositories(
    reader: Reader, user: Account, *, limit: int, offset: int
) -> tuple[list[Invitation], int]:
    """The invitations to repositories that the user may accept, oldest first, and how many there are."""
    return await _page(reader, _repositories_of_caller, _invited(user), user, limit, offset)


async def find_of_organization(
    reader: Reader, organization: Account, invitation_id: int, viewer: Account
) -> Invitation | None:
    return await _one(reader, _one_of_organization, {"account_id": organization.id, "id": invitation_id}, viewer)


async def find_of_repository(
    reader: Reader, repository: Repository, invitation_id: int, viewer: Account
) -> Invitation | None:
    return await _one(reader, _one_of_repository, {"repository_id": repository.id, "id": invitation_id}, viewer)


async def find_pending(reader: Reader, organization: Account, invitee: Account, viewer: Account) -> Invitation | None:
    """The invitation of a user to an organization."""
    params = {"account_id": organization.id, "invitee": _key(invitee, None)}
    return await _one(reader, _of_person, params, viewer)


async def find_to_organization(reader: Reader, user: Account, login_key: str) -> Invitation | None:
    """The invitation to the organization that the user may accept."""
    return await _one(reader, _to_caller, {**_invited(user), "login_key": login_key}, user)


async def find_to_repository(reader: Reader, user: Account, invitation_id: int) -> Invitation | None:
    """The invitation to a repository, if the user may accept it."""
    return await _one(reader, _one_to_caller, {**_invited(user), "id": invitation_id}, user)


async def delete(tx: Transaction, invitation: Invitation) -> bool:
    """Answers whether it was still there: of two who accept it at once, one does."""
    return await tx.execute(_delete, {"id": invitation.id}) > 0


async def withdraw(tx: Transaction, place: Account | Repository, invitee: Account) -> bool:
    """Take back the invitation of a user, if there is one. Answers whether there was."""
    return await tx.execute(_withdraw, {"place": _place(place), "invitee": _key(invitee, None)}) > 0


def withdraw_later(tx: Transaction, place: Account | Repository, invitee: Account) -> None:
    """`withdraw` for somebody who is in the place now: written along with the next statement."""
    tx.later(_withdraw, [{"place": _place(place), "invitee": _key(invitee, None)}])


async def change_role(tx: Transaction, invitation: Invitation, role: str) -> Invitation:
    await tx.execute(_change, {"id": invitation.id, "role": role})
    return msgspec.structs.replace(invitation, role=role)


def _place(place: Account | Repository) -> str:
    return f"r{place.id}" if isinstance(place, Repository) else f"o{place.id}"


def _key(invitee: Account | None, email: str | None) -> str:
    return f"u{invitee.id}" if invitee else f"e{_folded(email or '')}"


def _folded(email: str) -> str:
    """Case makes no difference, among letters of ASCII: the kelvin sign is `k` in lower case, and who has an address
    with it is somebody else."""
    return "".join(each.lower() if each.isascii() else each for each in email)


def _invited(user: Account) -> dict[str, object]:
    """Parameters of `_for_caller`."""
    own = _key(user, None)
    return {"invitee": own, "addressed": _key(None, user.email) if user.email else own}


async def _page(
    reader: Reader, what: Listed, params: Mapping[str, object], viewer: Account, limit: int, offset: int
) -> tuple[list[Invitation], int]:
    every = {**params, "user_id": viewer.id, "now": now_ms()}
    rows, number = await read_page(reader, what, every, limit=limit, offset=offset)
    return [_invitation_of(row, viewer) for row in rows], number


async def _one(
    reader: Reader, what: sa.Select[Any], params: Mapping[str, object], viewer: Account
) -> Invitation | None:
    row = await reader.fetch_one(what, {**params, "user_id": viewer.id, "now": now_ms()})
    return _invitation_of(row, viewer) if row else None


def _invitation_of(row: Row, viewer: Account) -> Invitation:
    invitee = account_of(row, "invitee_") if row["invitee_id"] is not None else None
    repository = repository_of(row, viewer.id) if row["invitation_repository_id"] is not None else None
    return Invitation(
        id=row["invitation_id"],
        account=account_of(row, "owner_"),
        repository=repository,
        invitee=invitee,
        email=row["invitation_email"],
        role=row["invitation_role"],
        inviter=account_of(row, "inviter_"),
        created_at=row["invitation_created_at"],
        expires_at=row["invitation_expires_at"],
        is_known=bool(row["is_known"]) or (invitee is not None and invitee.id == viewer.id),
    )
