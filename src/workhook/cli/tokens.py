"""`workhook token`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from workhook.cli.common import Context, command, get_enabled_user, get_user, new_app
from workhook.cli.error_messages import CliError, Misuse
from workhook.cli.options import Argument, Option, comma_list, days, permission_list, row_id, scope_list
from workhook.cli.output import format_time
from workhook.identity.tokens import personal

app = new_app("Manage API tokens.")

_FINE_GRAINED = "fine-grained"  # the API spells it with an underscore
_OF_FINE_GRAINED = ("--permissions", "--organization", "--repositories")


_Scopes = Annotated[
    list[str] | None,
    Option("SCOPE,…", "Scopes of a classic token, such as repo,admin:repo_hook,work.", parse=scope_list),
]
_Kind = Annotated[
    Literal["classic", "fine-grained"],
    Option("classic|fine-grained", "classic (scopes) or fine-grained (permissions in one organization or account)."),
]
_Permissions = Annotated[
    dict[str, Any] | None,
    Option(
        "NAME=LEVEL,…",
        "Permissions of a fine-grained token, such as work=read,repository_hooks=write.",
        parse=permission_list,
    ),
]
_Organization = Annotated[
    str | None,
    Option("LOGIN", "Resource owner of a fine-grained token: an organization, or the user's own login."),
]
_Repositories = Annotated[str | None, Option("NAME,…", "Repositories a fine-grained token can access. Default: all.")]
_ExpiresIn = Annotated[
    float | None,
    Option(
        "DAYS", "Days until it expires. Default: never for a classic token, 30 days for a fine-grained one.", parse=days
    ),
]


@command(app, "create")
async def create(
    context: Context,
    *,
    user: Annotated[str, Option("LOGIN", "User the token acts as.")],
    scopes: _Scopes = None,
    kind: _Kind = "classic",
    permissions: _Permissions = None,
    organization: _Organization = None,
    repositories: _Repositories = None,
    expires_in: _ExpiresIn = None,
    note: Annotated[str | None, Option("TEXT", "Description.")] = None,
) -> None:
    """Issue a token. It is shown only once."""
    _require(kind, scopes, (permissions, organization, repositories))
    wanted = personal.TokenCreate(note=note, expires_in_days=expires_in)
    if kind == _FINE_GRAINED:
        wanted.kind, wanted.permissions = "fine_grained", permissions or {}
        if organization is not None:
            wanted.organization = organization
        wanted.repositories = "all" if repositories in (None, "all") else comma_list(repositories)
    else:
        wanted.scopes = scopes or []
    async with context.transaction() as tx:
        who = await get_enabled_user(tx, user)
        issued, details = await personal.create(tx, who, wanted, None)
    data: dict[str, object] = {
        "token": issued.token,
        "id": issued.id,
        "user": who.login,
        "scopes": list(details.scopes),
        "expires_at": format_time(details.expires_at),
    }
    if kind == _FINE_GRAINED:
        data |= _confinement(details)
    context.print_result(data, issued.token)


def _require(kind: str, scopes: object, options: tuple[object, ...]) -> None:
    if kind == _FINE_GRAINED:
        if scopes is not None:
            raise Misuse("--scopes is only for classic tokens.", "Use --permissions for a fine-grained token.")
        missing = [name for name, given in zip(_OF_FINE_GRAINED[:2], options, strict=False) if given is None]
        if missing:
            raise Misuse(f"a fine-grained token needs {' and '.join(missing)}.", "See `workhook token create --help`.")
        return
    beyond = [name for name, given in zip(_OF_FINE_GRAINED, options, strict=True) if given is not None]
    if beyond:
        raise Misuse(f"{', '.join(beyond)}: only for a fine-grained token.", f"Add --kind {_FINE_GRAINED}.")
    if scopes is None:
        raise Misuse("a classic token needs --scopes.", "For example: --scopes repo,work.")


@command(app, "list")
async def list_tokens(
    context: Context,
    *,
    user: Annotated[str | None, Option("LOGIN", "Only tokens of this user.")] = None,
) -> None:
    """List tokens of every kind, oldest first. The tokens themselves are not stored and cannot be shown."""
    async with context.services() as services:
        who = await get_user(services.database, user) if user else None
        rows = [_to_json(each) for each in await personal.every(services.database, who.id if who else None)]
    columns = (
        "id", "kind", "user", "scopes", "permissions", "organization", "app", "note",
        "created_at", "expires_at", "last_used_at", "revoked_at",
    )  # fmt: skip
    context.print_rows(
        rows if context.as_json else [_in_words(row) for row in rows],
        columns,
        none="No tokens yet. Create one with `workhook token create`.",
        narrow=[_in_short(row) for row in rows],
    )


def _in_short(row: dict[str, object]) -> dict[str, object]:
    """Return the fields that fit in 100 columns. `--json` and wider terminals show the rest."""
    permissions = row["permissions"]
    may = sorted(permissions) if isinstance(permissions, dict) else row["scopes"]
    named = [str(each) for each in may] if isinstance(may, list) else []
    ends = "revoked" if row["revoked_at"] else str(row["expires_at"] or "never")[:10]
    return {
        "id": row["id"],
        "kind": row["kind"],
        "user": row["user"],
        "may": _cut(f"{named[0]} and {len(named) - 1} more" if len(named) > 1 else "".join(named), 18),
        "note": _cut(str(row["note"] or "-"), 14),
        "ends": ends,
        "last_used": str(row["last_used_at"] or "never")[:10],
    }


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _to_json(token: personal.TokenDetails) -> dict[str, object]:
    return {
        "id": token.id,
        "kind": token.kind,
        "user": token.user,
        "scopes": list(token.scopes),
        **_confinement(token),
        "app": token.app.slug if token.app else None,
        "note": token.note,
        **{
            name: format_time(getattr(token, name))
            for name in ("created_at", "expires_at", "last_used_at", "revoked_at")
        },
    }


def _confinement(token: personal.TokenDetails) -> dict[str, object]:
    return {
        "permissions": token.permissions,
        "organization": token.organization,
        "repositories": token.confined_to,
    }


def _in_words(row: dict[str, object]) -> dict[str, object]:
    permissions = row["permissions"]
    pairs = [f"{name}={level}" for name, level in permissions.items()] if isinstance(permissions, dict) else None
    return {**row, "permissions": pairs}


@command(app, "revoke")
async def revoke(
    context: Context,
    *,
    token_id: Annotated[int, Argument("ID", "ID, as shown by `token list`.", parse=row_id)],
) -> None:
    """Revoke a token of any kind, and the tokens created with it. Every process rejects them within a second."""
    async with context.transaction() as tx:
        found = await personal.find(tx, token_id)
        if found is None:
            raise CliError(f"token {token_id} does not exist.", "`workhook token list` shows their IDs.")
        ended = await personal.end(tx, None, found)
    more = f" and {ended - 1} derived from it" if ended > 1 else ""
    context.print_result({"id": token_id, "revoked": True}, f"revoked the token {token_id}{more}")
