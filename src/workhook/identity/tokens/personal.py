"""Personal tokens: made by their user, or for them at the command line; taken back with all that came of them.

A token makes only tokens that can do no more than itself and end no later: whoever stole one gains nothing by it, and
revoking it ends what was made with it (`parent_id`). Nor does it gain requests: all share the limit of the first of
them (`root_id`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import UnsetType

from workhook.core.clock import DAY_MS, now_ms
from workhook.core.errors import Fault, Invalid, NotFound, Unauthenticated, shown
from workhook.identity import audit
from workhook.identity.policy import PERMISSIONS, SCOPES, expand
from workhook.identity.queries import find_account, find_member_role, key_of
from workhook.identity.schemas import Account, Actor
from workhook.identity.tokens import queries
from workhook.identity.tokens.issue import IssuedToken, issue, revoke_with_family
from workhook.identity.tokens.kinds import CLASSIC, FINE_GRAINED
from workhook.identity.tokens.schemas import Details, TokenCreate, TokenPermissions
from workhook.storage import Reader, Transaction
from workhook.storage.pages import Page

FINE_GRAINED_DEFAULT_DAYS = 30
FINE_GRAINED_MAX_DAYS = 366
LIVING_MAX = 100
"""Personal tokens of one user, those that are revoked or over aside."""

# What a token with scopes needs to give a permission away. Write includes deleting, which `write:repo_hook` does not.
_COVERED_BY = {
    ("repository_hooks", "read"): "read:repo_hook",
    ("repository_hooks", "write"): "admin:repo_hook",
    ("organization_hooks", "read"): "admin:org_hook",
    ("organization_hooks", "write"): "admin:org_hook",
    ("work", "read"): "work:read",
    ("work", "write"): "work",
}


class Made(msgspec.Struct, frozen=True):
    """A new token: `issued` holds it this once."""

    issued: IssuedToken
    details: Details


class _Place(msgspec.Struct, frozen=True):
    """What a fine-grained token is confined to; `repository_ids` None: all there."""

    account_id: int
    repository_ids: tuple[int, ...] | None


async def create(tx: Transaction, user: Account, wanted: TokenCreate, by: Actor | None) -> Made:
    """`by` None: the command line, which may give every scope. Raises `Invalid` with every fault, and
    `Unauthenticated` if the token that asks was revoked in this moment."""
    if by is not None and not await queries.keep_living(tx, by.token_id):
        raise Unauthenticated("Bad credentials")
    faults: list[Fault] = []
    if user.kind != "user":
        faults.append(_fault("user", f"{user.login} is not a user"))
    if await queries.count_living(tx, user.id) >= LIVING_MAX:
        remedy = "revoke those that are not used any more (GET /user/tokens, or `workhook token list`, tells which)"
        faults.append(_fault("user", f"{user.login} has {LIVING_MAX} personal tokens, which is the most: {remedy}"))
    expires_at = _expiry(wanted, by, faults)
    place = None
    if wanted.kind == FINE_GRAINED.name:
        faults += _permission_faults(wanted, by)
        place = await _place(tx, user, wanted, faults)
    else:
        faults += _scope_faults(wanted, by)
    if faults:
        raise Invalid(faults=faults)
    issued = await issue(
        tx,
        FINE_GRAINED if place else CLASSIC,
        user.id,
        scopes=() if isinstance(wanted.scopes, UnsetType) else wanted.scopes,
        permissions=None if isinstance(wanted.permissions, UnsetType) else wanted.permissions,
        account_id=place.account_id if place else None,
        repository_ids=place.repository_ids if place else None,
        parent_id=by.token_id if by else None,
        root_id=(by.root_id or by.token_id) if by else None,
        note=wanted.note,
        expires_at=expires_at,
    )
    details = await queries.find_of(tx, user.id, issued.id)
    assert details is not None, "it was inserted just now"
    await _record(tx, by, "token.create", details, place.account_id if place else user.id)
    return Made(issued, details)


async def revoke_own(tx: Transaction, actor: Actor, token_id: int) -> None:
    """A token that stands for the user and that the actor's token sees (`find_own`). Raises `NotFound`."""
    found = await find_own(tx, actor, token_id)
    if not await end(tx, actor, found):
        raise NotFound()


async def find_own(reader: Reader, actor: Actor, token_id: int) -> Details:
    """A token that stands for the user, of whatever kind: itself, or one that can do no more. What can do more, a token
    that was lost must neither see nor be able to end. Raises `NotFound`."""
    found = await queries.find_of(reader, actor.user.id, token_id)
    if found is not None and _sees(actor, found.powers):
        return found
    hidden = found or await queries.find(reader, token_id)
    if hidden is not None:
        actor.request.touches(hidden.user_id, hidden=True)
    raise NotFound()


async def list_own(reader: Reader, actor: Actor, page: Page) -> tuple[list[Details], int]:
    """A page of what `find_own` finds, newest first, and how many there are in all."""
    powers = await queries.permissions_of_tokens(reader, actor.user.id)
    seen = [each.id for each in powers if _sees(actor, each)]
    return await queries.some_of(reader, actor.user.id, seen[page.offset : page.offset + page.limit]), len(seen)


def _sees(actor: Actor, token: TokenPermissions) -> bool:
    needed = {*token.scopes, *(_COVERED_BY[name, level] for name, level in token.allowed.items())}
    return token.id == actor.token_id or needed <= expand(actor.scopes)


async def end(tx: Transaction, by: Actor | None, token: Details) -> int:
    """`by` None: the command line, for any token. Answers how many were still good, of it and what came of it."""
    ended = await revoke_with_family(tx, token.id, token.family)
    if ended:
        await _record(tx, by, "token.revoke", token, token.user_id)
    return ended


async def _record(tx: Transaction, actor: Actor | None, action: str, token: Details, account_id: int) -> None:
    detail: dict[str, object] = {"kind": token.kind, "user": token.user, "scopes": list(token.scopes)}
    if token.permissions is not None:
        detail |= {"permissions": token.permissions, "repositories": token.confined_to}
    await audit.record(tx, actor, action, f"token {token.id}", account_id=account_id, detail=detail)


def _fault(field: str, message: str, code: str = "custom") -> Fault:
    return Fault(resource="Token", field=field, code=code, message=message)


def _scope_faults(wanted: TokenCreate, by: Actor | None) -> list[Fault]:
    only = "only a fine-grained token has it; a classic one has scopes"
    given: Mapping[str, object] = {
        name: getattr(wanted, name) for name in ("permissions", "organization", "repositories")
    }
    faults = [_fault(name, f"{name}: {only}") for name, value in given.items() if not isinstance(value, UnsetType)]
    scopes = [] if isinstance(wanted.scopes, UnsetType) else wanted.scopes
    unknown = sorted({each for each in scopes if each not in SCOPES})
    if unknown:
        listed = ", ".join(shown(each) for each in unknown)
        faults.append(_fault("scopes", f"{listed}: there are only {', '.join(SCOPES)}"))
    beyond = sorted(set(scopes) & set(SCOPES) - expand(by.scopes)) if by else []
    if beyond:
        faults.append(
            _fault("scopes", f"{', '.join(beyond)}: the token that asks does not have it, so it cannot give it")
        )
    return faults


def _permission_faults(wanted: TokenCreate, by: Actor | None) -> list[Fault]:
    faults = []
    if not isinstance(wanted.scopes, UnsetType):
        faults.append(_fault("scopes", "scopes: only a classic token has them; a fine-grained one has permissions"))
    if isinstance(wanted.permissions, UnsetType) or not wanted.permissions:
        return [*faults, _fault("permissions", f"permissions needs one of {', '.join(PERMISSIONS)}", "missing")]
    held = expand(by.scopes) if by else None
    for name, level in wanted.permissions.items():
        if name not in PERMISSIONS:
            faults.append(_fault("permissions", f"{shown(name)}: there are only {', '.join(PERMISSIONS)}"))
        elif level not in ("read", "write"):
            faults.append(_fault("permissions", f"{name} must be read or write"))
        elif held is not None and (scope := _COVERED_BY[name, level]) not in held:
            faults.append(_fault("permissions", f"{name}: {level} needs a token with the scope {scope}"))
    return faults


def _expiry(wanted: TokenCreate, by: Actor | None, faults: list[Fault]) -> int | None:
    """In milliseconds since the epoch; None: it stays good."""
    days, ends = wanted.expires_in_days, by.expires_at if by else None
    confined = wanted.kind == FINE_GRAINED.name
    if days is None:
        if not confined:
            return ends
        default = now_ms() + FINE_GRAINED_DEFAULT_DAYS * DAY_MS
        return default if ends is None else min(default, ends)
    expires_at = now_ms() + round(days * DAY_MS)
    if confined and days > FINE_GRAINED_MAX_DAYS:
        message = f"expires_in_days must be at most {FINE_GRAINED_MAX_DAYS} for a fine-grained token"
        faults.append(_fault("expires_in_days", message))
    elif ends is not None and expires_at > ends:
        faults.append(_fault("expires_in_days", "expires_in_days: the token that asks ends sooner"))
    return expires_at


async def _place(tx: Transaction, user: Account, wanted: TokenCreate, faults: list[Fault]) -> _Place | None:
    """The account and repositories by name; None if there are faults."""
    if isinstance(wanted.organization, UnsetType):
        message = "organization is required for a fine-grained token: an organization you are in, or your own login"
        faults.append(_fault("organization", message, "missing"))
        return None
    account = await find_account(tx, wanted.organization)
    own = account is not None and account.id == user.id
    if account is None or not (own or await find_member_role(tx, account.id, user.id) in ("owner", "member")):
        message = f"organization {shown(wanted.organization)}: {user.login} is in no organization of this login"
        faults.append(_fault("organization", message))
        return None
    if isinstance(wanted.repositories, UnsetType) or wanted.repositories == "all":
        return _Place(account.id, None)
    found = await _repository_ids(tx, user, account, wanted.repositories, faults)
    return None if found is None else _Place(account.id, found)


async def _repository_ids(
    tx: Transaction, user: Account, account: Account, names: Sequence[str], faults: list[Fault]
) -> tuple[int, ...] | None:
    keys: dict[str, str] = {}  # what was sent → the key of the repository's name
    for each in names:
        owner, slash, name = each.rpartition("/")
        if not slash or key_of(owner) == key_of(account.login):
            keys[each] = key_of(name)
    found = await queries.repositories_named(tx, account.id, set(keys.values()), user.id)
    known = {key_of(each.name) for each in found}
    missing = [each for each in dict.fromkeys(names) if keys.get(each) not in known]
    if missing:
        listed = ", ".join(shown(each) for each in missing)
        faults.append(
            _fault("repositories", f"{listed}: {account.login} has no such repository that {user.login} sees")
        )
        return None
    return tuple(each.id for each in found)
