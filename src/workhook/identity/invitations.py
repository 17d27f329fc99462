"""Invitations: people join an organization or a repository only with their consent.

An invitation is valid for a week, as long as the inviter may invite people there and is not disabled (`removal`).
Anyone with its link can accept it once (decision 27). There is at most one link, which is valid as long as the
invitation. A new link, a renewal or a change of the role invalidates the old link.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from workhook.core.clock import DAY_MS, now_ms
from workhook.core.errors import Fault, Forbidden, Invalid, NotFound, Number, require_found, say
from workhook.identity.notifications import notify_invited
from workhook.identity.queries import account_columns, lock_account, repository_columns, repository_of, role_columns
from workhook.identity.schemas import Account, Repository, account_of
from workhook.identity.tables import accounts, collaborators, invitations, memberships, projects
from workhook.identity.tokens.issue import digest_of
from workhook.identity.tokens.one_time import SecretLink
from workhook.storage import Reader, Row, Transaction
from workhook.storage.dialects import upsert
from workhook.storage.metadata import bigint_param
from workhook.storage.pages import NumberedList, Page, numbered_list, read_page
from workhook.storage.record_rows import assigned, selected

HOLDS_MS = 7 * DAY_MS
PENDING_MAX = 1000
"""Maximum number of pending invitations of a place. Concurrent inviters can each exceed it by one."""
CLIENT = "client"
"""The role of a project's client. GitHub's clients do not know it: they see `read`, and lists omit it."""

PATH = "/invitations/links/"
NOBODY = 0  # no account has this ID
_SECRET_BYTES = 32
_SECRET_MAX_CHARS = 100

NO_STRANGERS = say(
    "On this server, only owners of an organization can invite people by e-mail, and only to their own organization."
)
BY_EMAIL = "(by e-mail)"
"""The audit log's name for a person invited by e-mail, whose address it does not show."""


class Invitation(msgspec.Struct, frozen=True):
    """An invitation to the organization `account`, or to the `repository`."""

    id: int
    account: Account
    repository: Repository | None
    invitee: Account | None  # None if the invitation is for the owner of the address `email`
    email: str | None
    role: str  # owner or member of an organization; read, write, admin or client in a repository
    inviter: Account
    created_at: int
    expires_at: int
    is_known: bool  # the viewer shares an organization with the invitee, and so may see who it is
    has_link: bool = False


_invitee = accounts.alias("invitee")
_inviter = accounts.alias("inviter")
_enabled = accounts.alias("enabled")
_own_membership = memberships.alias("mine")
_their_membership = memberships.alias("theirs")
_inviting = memberships.alias("inviting")
_administering = collaborators.alias("administering")


def shares_organization(person_id: sa.ColumnElement[int], *, as_owner: bool = False) -> sa.ColumnElement[bool]:
    """Return the condition that the user in the parameter `user_id` and the person share an organization.

    With `as_owner`, the user must own it.
    """
    mine, theirs = _own_membership.c, _their_membership.c
    shared = (
        sa.select(mine.role)
        .join_from(_own_membership, _their_membership, theirs.organization_id == mine.organization_id)
        .where(mine.user_id == bigint_param("user_id"), theirs.user_id == person_id)
    )
    if as_owner:
        shared = shared.where(_own_membership.c.role == "owner")
    return shared.correlate_except(_own_membership, _their_membership).exists()


def owns_organization(account_id: sa.ColumnElement[int], inviter_id: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
    place, user, role = (_inviting.c[name] for name in ("organization_id", "user_id", "role"))
    owned = sa.select(role).where(place == account_id, user == inviter_id, role == "owner")
    return owned.correlate_except(_inviting).exists()


def may_invite(
    account_id: sa.ColumnElement[int], repository_id: sa.ColumnElement[Any], inviter_id: sa.ColumnElement[int]
) -> sa.ColumnElement[bool]:
    """Return the condition that the inviter owns the account or is an admin of the repository."""
    place, user, role = (_administering.c[name] for name in ("repository_id", "user_id", "role"))
    administered = sa.select(role).where(place == repository_id, user == inviter_id, role == "admin")
    administers = administered.correlate_except(_administering).exists()
    return sa.or_(inviter_id == account_id, owns_organization(account_id, inviter_id), administers)


still_may_invite = may_invite(invitations.c.account_id, invitations.c.repository_id, invitations.c.inviter_id)
_inviter_is_enabled = (
    sa.exists()
    .where(_enabled.c.id == invitations.c.inviter_id, _enabled.c.disabled_at.is_(None))
    .correlate_except(_enabled)
)
holds = sa.and_(invitations.c.expires_at > bigint_param("now"), _inviter_is_enabled, still_may_invite)
"""Condition: the invitation can be accepted at the time in the parameter `now`."""
_own = ("id", "repository_id", "email", "role", "created_at", "expires_at")
_columns: list[sa.ColumnElement[Any]] = [
    *(invitations.c[name].label(f"invitation_{name}") for name in _own),
    *selected(Account, _invitee, "invitee_"),
    *selected(Account, _inviter, "inviter_"),
    shares_organization(invitations.c.user_id).label("is_known"),
    invitations.c.link_digest.is_not(None).label("has_link"),
]
_people = invitations.join(_inviter, _inviter.c.id == invitations.c.inviter_id).outerjoin(
    _invitee, _invitee.c.id == invitations.c.user_id
)
to_organizations = (
    sa.select(*_columns, *account_columns("owner_"))
    .select_from(_people.join(accounts, accounts.c.id == invitations.c.account_id))
    .where(invitations.c.repository_id.is_(None), holds)
)
to_repositories = (
    sa.select(*_columns, *repository_columns(), *role_columns)
    .select_from(_people)
    .join(projects, projects.c.repository_id == invitations.c.repository_id)
    .join(accounts, accounts.c.id == projects.c.account_id)
    .where(projects.c.deleted_at.is_(None), holds)
)
is_client = invitations.c.role == CLIENT
# An invitation by e-mail is for the current owner of the address.
for_invited = sa.or_(*(invitations.c.invitee == sa.bindparam(name) for name in ("invitee", "addressed")))
_by_id = invitations.c.id == bigint_param("id")
_by_digest = invitations.c.link_digest == sa.bindparam("link_digest", type_=sa.LargeBinary)
_at_place = invitations.c.place == sa.bindparam("place", type_=sa.Text)
_of_invitee = invitations.c.invitee == sa.bindparam("invitee", type_=sa.Text)
_statements = {Account: to_organizations, Repository: to_repositories}
_one_at_place = {
    (kind, name): each.where(_at_place, condition)
    for kind, each in _statements.items()
    for name, condition in (("id", _by_id), ("invitee", _of_invitee))
}
_linked = [each.where(_by_digest) for each in _statements.values()]
_all_at_place = {
    (kind, clients): numbered_list(
        each.where(_at_place, is_client if clients else sa.not_(is_client)), invitations.c.id
    )
    for kind, each in _statements.items()
    for clients in (False, True)
}
_to_user = {kind: numbered_list(each.where(for_invited), invitations.c.id) for kind, each in _statements.items()}
# There can be two, by login and by e-mail.
_to_caller = to_organizations.where(accounts.c.login_key == sa.bindparam("login_key"), for_invited).order_by(
    invitations.c.created_at.desc(), invitations.c.id.desc()
)
_invitation_to_caller = to_repositories.where(for_invited, _by_id)

_COLUMNS = (
    "account_id", "repository_id", "user_id", "email", "role", "inviter_id", "created_at", "expires_at", "place",
    "invitee",
)  # fmt: skip
_write = (
    upsert(invitations)
    .values(assigned(_COLUMNS))
    .on_conflict_do_update(
        index_elements=["place", "invitee"],
        set_={**assigned(("role", "inviter_id", "created_at", "expires_at")), "link_digest": sa.null()},
    )
    .returning(invitations.c.id)
)
_waiting = sa.select(sa.func.count()).where(
    invitations.c.place == sa.bindparam("place"), invitations.c.invitee != sa.bindparam("invitee"), holds
)
_account_id, _inviter_id = bigint_param("account_id"), bigint_param("inviter_id")
_room = sa.select(
    may_invite(_account_id, bigint_param("repository_id"), _inviter_id).label("may_invite"),
    owns_organization(_account_id, _inviter_id).label("owns_organization"),
    _waiting.scalar_subquery().label("others"),
)
_delete = sa.delete(invitations).where(_by_id)
_take = _delete.where(holds).returning(invitations.c.role)
_take_by_link = _take.where(_by_digest)
_of_place = sa.delete(invitations).where(_at_place)
_withdraw = _of_place.where(_of_invitee)
_withdraw_all = _of_place.where(for_invited)
# A change of the role invalidates the link.
_change = sa.update(invitations).where(_by_id).values(role=sa.bindparam("role"), link_digest=sa.null())
_set_link = sa.update(invitations).where(_by_id).values(link_digest=sa.bindparam("new_digest", type_=sa.LargeBinary))


async def invite(
    tx: Transaction,
    place: Account | Repository,
    inviter: Account,
    role: str,
    *,
    invitee: Account | None = None,
    email: str | None = None,
    is_known: bool = False,
    field: str = "username",
    strangers: str = "owners",
) -> Invitation:
    """Invite a user, or the owner of an address.

    Inviting again renews the role, expiry and link. `is_known` means that the inviter shares an organization with the
    user. `strangers` is the setting `invite_strangers`. Raises `Invalid` for `field` beyond `PENDING_MAX`, `Forbidden`
    if the inviter lacks the right, and `NotFound` for a stranger, as for an unknown login.
    """
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
        "place": place_key(place),
        "invitee": _key(invitee, email),
    }
    await lock_account(tx, inviter.id)  # as when the right is removed (`removal.end_invitations`)
    room = await tx.fetch_row(_room, {**values, "now": now})
    if not room["may_invite"]:
        raise Forbidden(say("You no longer have permission to invite people here."), code="missing_role")
    if not is_known and not (strangers == "admins" or (strangers == "owners" and room["owns_organization"])):
        if email is None:
            raise NotFound()
        raise Forbidden(NO_STRANGERS, code="missing_role")
    if room["others"] >= PENDING_MAX:
        raise _too_many(repository.full_name if repository else account.login, field)
    row = await tx.fetch_row(_write, {**values, **times})
    notify_invited(tx, values, row["id"], now)
    return Invitation(row["id"], account, repository, invitee, email, role, inviter, now, times["expires_at"], is_known)


def _too_many(place: str, field: str) -> Invalid:
    message = say(
        "{} has {} pending invitations, the maximum. Revoke some, or wait until they are accepted or expire ({} "
        "days after creation)",
        place,
        Number(PENDING_MAX),
        HOLDS_MS // DAY_MS,
    )
    return Invalid(faults=[Fault(field, "custom", message, resource="Invitation")])


async def list_of(
    reader: Reader, place: Account | Repository, viewer: Account, page: Page, *, clients: bool = False
) -> tuple[list[Invitation], int]:
    """Return the invitations to a place, as a client or (by default) another role, oldest first, and their number."""
    return await _find_page(reader, _all_at_place[type(place), clients], {"place": place_key(place)}, viewer, page)


async def list_for(
    reader: Reader, user: Account, kind: type[Account | Repository], page: Page
) -> tuple[list[Invitation], int]:
    """Return the invitations that the user can accept, oldest first, and their number."""
    return await _find_page(reader, _to_user[kind], invited(user), user, page)


async def get(reader: Reader, place: Account | Repository, number: int, viewer: Account) -> Invitation:
    """Return an invitation to the place. Raises `NotFound`."""
    params = {"place": place_key(place), "id": number}
    return require_found(await _find_one(reader, _one_at_place[type(place), "id"], params, viewer))


async def find_pending(
    reader: Reader, place: Account | Repository, invitee: Account, viewer: Account
) -> Invitation | None:
    params = {"place": place_key(place), "invitee": _key(invitee, None)}
    return await _find_one(reader, _one_at_place[type(place), "invitee"], params, viewer)


async def find_to_organization(reader: Reader, user: Account, login_key: str) -> Sequence[Invitation]:
    """Return the invitations that the user can accept, by login and by e-mail, newest first."""
    params = {**invited(user), "login_key": login_key, "user_id": user.id, "now": now_ms()}
    return [invitation_of(row, user) for row in await reader.fetch_all(_to_caller, params)]


async def find_to_repository(reader: Reader, user: Account, invitation_id: int) -> Invitation | None:
    return await _find_one(reader, _invitation_to_caller, {**invited(user), "id": invitation_id}, user)


async def delete(tx: Transaction, invitation: Invitation) -> bool:
    """Delete an invitation. Returns whether it still existed."""
    return await tx.execute(_delete, {"id": invitation.id}) > 0


async def take(tx: Transaction, invitation: Invitation, secret: str | None = None) -> Invitation | None:
    """Delete and return an invitation being accepted, or None if it or the link's `secret` is no longer valid."""
    params = {"id": invitation.id, "link_digest": digest_of(secret or ""), "now": now_ms()}
    row = await tx.fetch_one(_take if secret is None else _take_by_link, params)
    return msgspec.structs.replace(invitation, role=row["role"]) if row else None


async def withdraw(tx: Transaction, place: Account | Repository, invitee: Account) -> bool:
    """Delete a user's invitation by login. Returns whether it existed.

    One by e-mail is kept: its deletion would tell the inviter who owns the address.
    """
    return await tx.execute(_withdraw, {"place": place_key(place), "invitee": _key(invitee, None)}) > 0


def withdraw_later(tx: Transaction, place: Account | Repository, invitee: Account) -> None:
    """Delete all invitations of a user who has joined the place, with the next statement."""
    tx.defer(_withdraw_all, [{"place": place_key(place), **invited(invitee)}])


async def change_role(tx: Transaction, invitation: Invitation, role: str) -> Invitation | None:
    """Change the role that an invitation grants. Returns None if it no longer exists."""
    if not await tx.execute(_change, {"id": invitation.id, "role": role}):
        return None
    return msgspec.structs.replace(invitation, role=role)


def place_key(place: Account | Repository) -> str:
    return f"r{place.id}" if isinstance(place, Repository) else f"o{place.id}"


def _key(invitee: Account | None, email: str | None) -> str:
    if invitee:
        return f"u{invitee.id}"
    # ASCII letters only: the Kelvin sign becomes `k` in lower case, but an address with it is a different one.
    return "e" + "".join(each.lower() if each.isascii() else each for each in email or "")


def invited(user: Account) -> dict[str, object]:
    """Return the parameters of `for_invited`."""
    own = _key(user, None)
    return {"invitee": own, "addressed": _key(None, user.email) if user.email else own}


async def _find_page(
    reader: Reader, statement: NumberedList, params: Mapping[str, object], viewer: Account, page: Page
) -> tuple[list[Invitation], int]:
    rows, number = await read_page(reader, statement, {**params, "user_id": viewer.id, "now": now_ms()}, page)
    return [invitation_of(row, viewer) for row in rows], number


async def _find_one(
    reader: Reader, statement: sa.Select[Any], params: Mapping[str, object], viewer: Account
) -> Invitation | None:
    row = await reader.fetch_one(statement, {**params, "user_id": viewer.id, "now": now_ms()})
    return invitation_of(row, viewer) if row else None


def invitation_of(row: Row, viewer: Account | None) -> Invitation:
    """Read a row of `to_organizations` or `to_repositories`."""
    viewer_id = viewer.id if viewer else NOBODY
    invitee = account_of(row, "invitee_") if row["invitee_id"] is not None else None
    repository = repository_of(row, viewer_id) if row["invitation_repository_id"] is not None else None
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
        is_known=bool(row["is_known"]) or (invitee is not None and invitee.id == viewer_id),
        has_link=bool(row["has_link"]),
    )


async def create_link(tx: Transaction, invitation: Invitation) -> SecretLink:
    """Create the link of an invitation that this transaction has created or renewed."""
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    await tx.execute(_set_link, {"id": invitation.id, "new_digest": digest_of(secret)})
    return SecretLink(PATH + secret, invitation.expires_at)


async def find_by_link(reader: Reader, secret: str, viewer: Account | None) -> Invitation | None:
    """Return the invitation, or None if the link is unknown, used or replaced, or the invitation is invalid."""
    if len(secret) > _SECRET_MAX_CHARS:
        return None
    user_id = NOBODY if viewer is None else viewer.id
    params = {"link_digest": digest_of(secret), "user_id": user_id, "now": now_ms()}
    for statement in _linked:
        row = await reader.fetch_one(statement, params)
        if row is not None:
            return invitation_of(row, viewer)
    return None
