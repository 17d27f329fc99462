"""Personal tokens, which users create themselves or have created on the command line.

A token can only create tokens that can do no more and expire no later. They are revoked with it (`parent_id`) and share
the request limit of the first one (`root_id`), so that a thief gains nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, Meta, UnsetType

from workhook.core import json
from workhook.core.clock import DAY_MS, now_ms
from workhook.core.disclosure import HiddenRepr
from workhook.core.errors import Fault, Invalid, NotFound, Unauthenticated, shown
from workhook.core.records import NOT_STORED, Record
from workhook.http.calls import NO_STORE, Call
from workhook.http.endpoints import Created, Paged, Routes
from workhook.http.operations import WEBHOOK_API
from workhook.http.parameters import ON_ONE_LINE
from workhook.http.wire_types import Time, Url
from workhook.identity import audit
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.identity.policy import PERMISSIONS, SCOPES, expand
from workhook.identity.queries import (
    find_account,
    find_member_role,
    find_repositories,
    key_of,
    lock_account,
    repositories,
    repository_of,
)
from workhook.identity.schemas import Account, Actor, S, shape_of
from workhook.identity.tables import accounts, apps, projects, tokens
from workhook.identity.tokens.issue import APP_USER, CLASSIC, FINE_GRAINED, IssuedToken, issue, revoke_with_family
from workhook.storage import Reader, Row, Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import bigint_param
from workhook.storage.pages import Page
from workhook.storage.record_rows import row_reader, selected

EXPIRES_MAX_DAYS = 36_500
NOTE_MAX_CHARS = 255
REPOSITORIES_MAX = 100

_LEVELS = ["read", "write"]

Days = Annotated[
    float,
    Meta(
        ge=0.001,
        le=EXPIRES_MAX_DAYS,
        description="Days from now. By default, a classic token is valid as long as the token that creates it, and a "
        "fine-grained one for 30 days. The maximum for a fine-grained token is 366.",
    ),
]


Scopes = Annotated[
    list[str],
    Meta(
        max_length=len(SCOPES),
        description="Scopes of a classic token.",
        extra_json_schema={"items": {"type": "string", "enum": list(SCOPES)}},
        examples=[["repo", "work"]],
    ),
]
PermissionLevels = Annotated[
    dict[str, str],
    Meta(
        max_length=len(PERMISSIONS),
        description="Permissions of a fine-grained token, at least one; write includes read.",
        extra_json_schema={
            "propertyNames": {"enum": list(PERMISSIONS)},
            "additionalProperties": {"type": "string", "enum": _LEVELS},
        },
        examples=[{"work": "read", "repository_hooks": "write"}],
    ),
]
AccountName = Annotated[
    str,
    Meta(description="Account that a fine-grained token is limited to: an organization you are in, or your own login."),
]
RepositoryNames = Annotated[
    list[str], Meta(min_length=1, max_length=REPOSITORIES_MAX, description="Names, or full names.")
]


class TokenCreate(msgspec.Struct):
    """A personal token to create. It can do no more than the token used to create it, and does not outlive it."""

    kind: Literal["classic", "fine_grained"] = "classic"
    note: Annotated[str, Meta(max_length=NOTE_MAX_CHARS, description="Description."), ON_ONE_LINE] | None = None
    scopes: Scopes | UnsetType = UNSET
    permissions: PermissionLevels | UnsetType = UNSET
    organization: AccountName | UnsetType = UNSET
    repositories: RepositoryNames | Literal["all"] | UnsetType = UNSET
    expires_in_days: Days | None = None


class TokenApp(msgspec.Struct):
    """The OAuth app or app that a token was issued to."""

    client_id: str
    slug: str
    name: str


class TokenShape(msgspec.Struct):
    """A token that acts for the caller, without the token itself."""

    id: int
    url: Url
    kind: Literal["classic", "fine_grained", "oauth", "app_user"]
    note: str | None
    scopes: Annotated[list[str], Meta(description="Scopes, for tokens that have them.")]
    permissions: Annotated[
        dict[str, str] | None,
        Meta(description="For a fine-grained token, or a scoped one of an app: permission → `read` or `write`."),
    ]
    organization: Annotated[str | None, Meta(description="Login of the account that such a token is limited to.")]
    repositories: Annotated[
        list[str] | Literal["all"] | None,
        Meta(description="Full names of the repositories that such a token is limited to, if you can still see them."),
    ]
    app: TokenApp | None
    current: Annotated[bool, Meta(description="Whether it is the token used for this request.")]
    created_at: Time
    expires_at: Time | None
    last_used_at: Annotated[Time | None, Meta(description="Accurate to ten minutes.")]


class CreatedToken(HiddenRepr, TokenShape, kw_only=True):
    """A new token. It is shown only once."""

    token: Annotated[str, Meta(examples=["whp_…"])]


class TokenDetails(Record, frozen=True):
    """A token, with the names of what it is confined to. Times are milliseconds since the epoch."""

    id: int
    kind: str
    user_id: int
    user: Annotated[str, NOT_STORED]
    note: str | None
    scopes: tuple[str, ...]
    permissions: dict[str, str] | None
    allowed: Mapping[str, str]  # the permissions that it has at most
    organization: Annotated[str | None, NOT_STORED]
    repository_ids: tuple[int, ...] | None
    repositories: tuple[str, ...] | None  # full names, if the viewer can see them; None: all, or it is not confined
    app: TokenApp | None
    created_at: int
    expires_at: int | None
    last_used_at: int | None
    revoked_at: int | None
    family: Annotated[str | None, NOT_STORED]  # the tokens that end with it; None if derived from another one

    @property
    def confined_to(self) -> list[str] | Literal["all"] | None:
        if self.repositories is not None:
            return list(self.repositories)
        return "all" if self.organization is not None else None


def token_to_response(shape: type[S], details: TokenDetails, base: str, **values: Any) -> S:
    url, scopes = f"{base}/user/tokens/{details.id}", list(details.scopes)
    return shape_of(shape, details, url=url, scopes=scopes, repositories=details.confined_to, **values)


_places = accounts.alias("places")
# The permissions besides scopes: a user token of an app has at most those of the app.
_of_app = sa.and_(tokens.c.kind == APP_USER.name, tokens.c.permissions.is_(None))
_allowed = sa.case((_of_app, apps.c.permissions), else_=tokens.c.permissions).label("allowed")
_tokens = (
    sa.select(
        *selected(TokenDetails, tokens),
        *(tokens.c[name] for name in ("scopes", "permissions", "repositories", "family", "parent_id")),
        _allowed,
        accounts.c.login.label("user_login"),
        _places.c.login.label("place_login"),
        *(apps.c[name].label(f"app_{name}") for name in TokenApp.__struct_fields__),
    )
    .join_from(tokens, accounts, accounts.c.id == tokens.c.user_id)
    .outerjoin(_places, _places.c.id == tokens.c.account_id)
    .outerjoin(apps, apps.c.id == tokens.c.app_id)
)
_details = row_reader(TokenDetails)
_all_tokens = _tokens.order_by(tokens.c.id)
_every_of = _all_tokens.where(tokens.c.user_id == bigint_param("user_id"))
_token_by_id = _tokens.where(tokens.c.id == bigint_param("token_id"))
_active_of_user = (
    tokens.c.user_id == bigint_param("user_id"),
    tokens.c.revoked_at.is_(None),
    sa.or_(tokens.c.expires_at.is_(None), tokens.c.expires_at > bigint_param("now")),
)
_active_token_of_user = _token_by_id.where(*_active_of_user)
_my_some = _tokens.where(any_of(tokens.c.id, "token_ids"), *_active_of_user).order_by(tokens.c.id.desc())
_my_permissions = (
    sa.select(tokens.c.id, tokens.c.scopes, _allowed)
    .outerjoin_from(tokens, apps, apps.c.id == tokens.c.app_id)
    .where(*_active_of_user)
    .order_by(tokens.c.id.desc())
)
_personal = sa.or_(tokens.c.kind == CLASSIC.name, tokens.c.kind == FINE_GRAINED.name)
_count_personal = sa.select(sa.func.count().label("total")).where(_personal, *_active_of_user)
_living_locked = sa.select(tokens.c.id).where(tokens.c.id == bigint_param("token_id"), tokens.c.revoked_at.is_(None))
_living_locked = _living_locked.with_for_update(read=True)
_by_id = repositories.where(any_of(projects.c.repository_id, "repository_ids"))


async def find(reader: Reader, token_id: int, user_id: int | None = None) -> TokenDetails | None:
    """Return a valid token of the user. `user_id` None: any token, even a revoked one."""
    statement = _token_by_id if user_id is None else _active_token_of_user
    rows = await reader.fetch_all(statement, {"user_id": user_id, "token_id": token_id, "now": now_ms()})
    found = await _with_names(reader, rows, user_id)
    return found[0] if found else None


async def count_living(tx: Transaction, user_id: int) -> int:
    """Count the user's valid personal tokens, under a lock on the account, so that creations are serialized."""
    await lock_account(tx, user_id)
    return int((await tx.fetch_row(_count_personal, {"user_id": user_id, "now": now_ms()}))["total"])


async def every(reader: Reader, user_id: int | None = None) -> list[TokenDetails]:
    """Return all tokens, oldest first, including revoked ones."""
    rows = await reader.fetch_all(_every_of, {"user_id": user_id}) if user_id else await reader.fetch_all(_all_tokens)
    return await _with_names(reader, rows, None)


async def lock_living(tx: Transaction, token_id: int) -> bool:
    """Lock a token so that its revocation waits and includes tokens derived until then. Returns whether it is valid."""
    return await tx.fetch_one(_living_locked, {"token_id": token_id}) is not None


async def _with_names(reader: Reader, rows: Sequence[Row], user_id: int | None) -> list[TokenDetails]:
    """Add repository names, with one more SELECT if needed; with `user_id`, only names that the user can see."""
    chosen = {row["id"]: tuple(json.decode(row["repositories"])) for row in rows if row["repositories"] is not None}
    wanted = sorted({each for ids in chosen.values() for each in ids})
    names = {}
    if wanted:
        params = {"repository_ids": wanted, "user_id": user_id or 0}
        found = [repository_of(row, user_id or 0) for row in await reader.fetch_all(_by_id, params)]
        names = {each.id: each.full_name for each in found if user_id is None or each.role is not None}
    return [_with_names_of(row, chosen.get(row["id"]), names) for row in rows]


def _with_names_of(row: Row, chosen: tuple[int, ...] | None, names: dict[int, str]) -> TokenDetails:
    return _details(
        row,
        user=row["user_login"],
        scopes=tuple(row["scopes"].split()),
        permissions=None if row["permissions"] is None else json.decode(row["permissions"]),
        allowed=_allowed_by(row),
        organization=row["place_login"],
        repository_ids=chosen,
        repositories=None if chosen is None else tuple(sorted(names[each] for each in chosen if each in names)),
        app=None if row["app_slug"] is None else TokenApp(*(row[f"app_{name}"] for name in TokenApp.__struct_fields__)),
        family=row["family"] if row["parent_id"] is None else None,
    )


def _allowed_by(row: Row) -> dict[str, str]:
    return {} if row["allowed"] is None else dict(json.decode(row["allowed"]))


FINE_GRAINED_DEFAULT_DAYS = 30
FINE_GRAINED_MAX_DAYS = 366
LIVING_MAX = 100
"""Maximum number of valid personal tokens per user."""

# The scope needed to grant a permission. Write includes deleting, unlike `write:repo_hook`.
_COVERED_BY = {
    ("repository_hooks", "read"): "read:repo_hook",
    ("repository_hooks", "write"): "admin:repo_hook",
    ("organization_hooks", "read"): "admin:org_hook",
    ("organization_hooks", "write"): "admin:org_hook",
    ("work", "read"): "work:read",
    ("work", "write"): "work",
}


async def create(
    tx: Transaction, user: Account, wanted: TokenCreate, by: Actor | None
) -> tuple[IssuedToken, TokenDetails]:
    """Create a personal token. Only this function returns the token itself.

    `by` None is the command line, which may grant every scope. Users of the pages have no token, so their new tokens
    have no parent. Raises `Invalid` with all faults, and `Unauthenticated` if the parent was revoked in the meantime.
    """
    parent_id = (by.token_id or None) if by is not None else None
    if parent_id is not None and not await lock_living(tx, parent_id):
        raise Unauthenticated("Bad credentials")
    faults: list[Fault] = []
    if user.kind != "user":
        faults.append(_fault("user", f"{user.login} is not a user"))
    if await count_living(tx, user.id) >= LIVING_MAX:
        remedy = "revoke unused ones (see GET /user/tokens or `workhook token list`)"
        faults.append(_fault("user", f"{user.login} has {LIVING_MAX} personal tokens, the maximum; {remedy}"))
    expires_at = _expiry(wanted, by, faults)
    place: tuple[int, tuple[int, ...] | None] | None = None
    if wanted.kind == FINE_GRAINED.name:
        faults += _permission_faults(wanted, by)
        place = await _resolve_place(tx, user, wanted, faults)
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
        account_id=place[0] if place else None,
        repository_ids=place[1] if place else None,
        parent_id=parent_id,
        root_id=(by.root_id or parent_id) if by else None,
        note=wanted.note,
        expires_at=expires_at,
    )
    details = await find(tx, issued.id, user.id)
    assert details is not None, "it was inserted just now"
    await _record(tx, by, "token.create", details, place[0] if place else user.id)
    return issued, details


async def find_own(reader: Reader, actor: Actor, token_id: int) -> TokenDetails:
    """Return the caller's token, or another one of the user that can do no more. Raises `NotFound`.

    A stolen token must neither see nor revoke stronger ones.
    """
    found = await find(reader, token_id, actor.user.id)
    if found is not None and _sees(actor, found.id, found.scopes, found.allowed):
        return found
    hidden = found or await find(reader, token_id)
    if hidden is not None:
        actor.request.set_subject(hidden.user_id, hidden=True)
    raise NotFound()


async def list_own(reader: Reader, actor: Actor, page: Page) -> tuple[list[TokenDetails], int]:
    """Return the tokens that `find_own` can find, newest first, and their number."""
    mine = {"user_id": actor.user.id, "now": now_ms()}
    rows = await reader.fetch_all(_my_permissions, mine)
    seen = [row["id"] for row in rows if _sees(actor, row["id"], row["scopes"].split(), _allowed_by(row))]
    some = {**mine, "token_ids": seen[page.offset : page.offset + page.limit]}
    return await _with_names(reader, await reader.fetch_all(_my_some, some), actor.user.id), len(seen)


def _sees(actor: Actor, token_id: int, scopes: Collection[str], allowed: Mapping[str, str]) -> bool:
    needed = {*scopes, *(_COVERED_BY[name, level] for name, level in allowed.items())}
    return token_id == actor.token_id or needed <= expand(actor.scopes)


async def end(tx: Transaction, by: Actor | None, token: TokenDetails) -> int:
    """Revoke a token and those derived from it. Returns how many were valid. `by` None: the command line."""
    ended = await revoke_with_family(tx, token.id, token.family)
    if ended:
        await _record(tx, by, "token.revoke", token, token.user_id)
    return ended


async def _record(tx: Transaction, actor: Actor | None, action: str, token: TokenDetails, account_id: int) -> None:
    detail: dict[str, object] = {"kind": token.kind, "user": token.user, "scopes": list(token.scopes)}
    if token.permissions is not None:
        detail |= {"permissions": token.permissions, "repositories": token.confined_to}
    await audit.record(tx, actor, action, f"token {token.id}", account_id=account_id, detail=detail)


def _fault(field: str, message: str, code: str = "custom") -> Fault:
    return Fault(resource="Token", field=field, code=code, message=message)


def _scope_faults(wanted: TokenCreate, by: Actor | None) -> list[Fault]:
    only = "only a fine-grained token has it; a classic one has scopes"
    names = [name for name in ("permissions", "organization", "repositories") if getattr(wanted, name) is not UNSET]
    faults = [_fault(name, f"{name}: {only}") for name in names]
    scopes = [] if isinstance(wanted.scopes, UnsetType) else wanted.scopes
    if unknown := sorted({each for each in scopes if each not in SCOPES}):
        listed = ", ".join(map(shown, unknown))
        faults.append(_fault("scopes", f"{listed}: unknown; use {', '.join(SCOPES)}"))
    beyond = sorted(set(scopes) & set(SCOPES) - expand(by.scopes)) if by else []
    if beyond:
        message = f"{', '.join(beyond)}: the requesting token does not have it, so it cannot grant it"
        faults.append(_fault("scopes", message))
    return faults


def _permission_faults(wanted: TokenCreate, by: Actor | None) -> list[Fault]:
    faults = []
    if not isinstance(wanted.scopes, UnsetType):
        faults.append(_fault("scopes", "scopes: only a classic token has them; a fine-grained one has permissions"))
    if isinstance(wanted.permissions, UnsetType) or not wanted.permissions:
        message = f"permissions must contain at least one of {', '.join(PERMISSIONS)}"
        return [*faults, _fault("permissions", message, "missing")]
    held = expand(by.scopes) if by else None
    for name, level in wanted.permissions.items():
        if name not in PERMISSIONS:
            faults.append(_fault("permissions", f"{shown(name)}: unknown; use {', '.join(PERMISSIONS)}"))
        elif level not in ("read", "write"):
            faults.append(_fault("permissions", f"{name} must be read or write"))
        elif held is not None and (scope := _COVERED_BY[name, level]) not in held:
            faults.append(_fault("permissions", f"{name}: {level} requires a token with the scope {scope}"))
    return faults


def _expiry(wanted: TokenCreate, by: Actor | None, faults: list[Fault]) -> int | None:
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
        faults.append(_fault("expires_in_days", "expires_in_days: the requesting token expires sooner"))
    return expires_at


async def _resolve_place(
    tx: Transaction, user: Account, wanted: TokenCreate, faults: list[Fault]
) -> tuple[int, tuple[int, ...] | None] | None:
    """Return the IDs of the account and of its repositories (None: all), or None with faults."""
    if isinstance(wanted.organization, UnsetType):
        message = "organization is required for a fine-grained token: an organization you are in, or your own login"
        faults.append(_fault("organization", message, "missing"))
        return None
    account = await find_account(tx, wanted.organization)
    own = account is not None and account.id == user.id
    if account is None or not (own or await find_member_role(tx, account.id, user.id) in ("owner", "member")):
        message = f"organization {shown(wanted.organization)}: {user.login} is not in an organization with this login"
        faults.append(_fault("organization", message))
        return None
    if isinstance(wanted.repositories, UnsetType) or wanted.repositories == "all":
        return account.id, None
    found = await _repository_ids(tx, user, account, wanted.repositories, faults)
    return None if found is None else (account.id, found)


async def _repository_ids(
    tx: Transaction, user: Account, account: Account, names: Sequence[str], faults: list[Fault]
) -> tuple[int, ...] | None:
    keys: dict[str, str] = {}  # sent name → the repository's key
    for each in names:
        owner, slash, name = each.rpartition("/")
        if not slash or key_of(owner) == key_of(account.login):
            keys[each] = key_of(name)
    repositories = await find_repositories(tx, account, names=keys.values(), user_id=user.id)
    found = [each for each in repositories if each.role is not None]
    known = {key_of(each.name) for each in found}
    if missing := [each for each in dict.fromkeys(names) if keys.get(each) not in known]:
        listed = ", ".join(map(shown, missing))
        message = f"{listed}: {account.login} has no such repository that {user.login} can see"
        faults.append(_fault("repositories", message))
        return None
    return tuple(each.id for each in found)


routes = Routes(WEBHOOK_API, "tokens", read="tokens", write="tokens", resource="Token")


def _shape(call: Call, actor: Actor, token: TokenDetails) -> TokenShape:
    return token_to_response(TokenShape, token, call.base, current=token.id == actor.token_id)


@routes.get("/user/tokens")
async def tokens_list(call: Call, page: Page) -> Paged[list[TokenShape]]:
    """List your tokens.

    Returns your personal tokens and those issued to apps on your behalf, newest first. Tokens that can do more than the
    one used for this request, and revoked or expired ones, are not included.
    """
    actor = actor_of(call)
    found, total = await list_own(call.database, actor, page)
    return Paged([_shape(call, actor, each) for each in found], total)


@routes.post(
    "/user/tokens",
    etag=False,
    description="It can do no more than the token used to create it, and expires no later. It is revoked with that "
    f"token and shares its rate limit. A user can have at most {LIVING_MAX} valid tokens.",
)
async def tokens_create(write: Write, wanted: TokenCreate) -> Created[CreatedToken]:
    """Create a personal token."""
    issued, details = await create(write.tx, write.actor.user, wanted, write.actor)
    shape = token_to_response(CreatedToken, details, write.call.base, current=False, token=issued.token)
    return Created(shape, shape.url, NO_STORE)


@routes.get("/user/tokens/{token_id}")
async def tokens_get(call: Call, token_id: int) -> TokenShape:
    """Get one of your tokens."""
    actor = actor_of(call)
    return _shape(call, actor, await find_own(call.database, actor, token_id))


@routes.delete("/user/tokens/{token_id}", action="token.revoke")
async def tokens_delete(write: Write, token_id: int) -> None:
    """Revoke one of your tokens.

    You can revoke the token used for this request, or one that can do no more. All tokens derived from it are revoked
    too. Takes effect everywhere within a second.
    """
    found = await find_own(write.tx, write.actor, token_id)
    if not await end(write.tx, write.actor, found):
        raise NotFound()
