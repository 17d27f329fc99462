"""`workhook token`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from workhook.cli.common import Context, command, find_user, new_app
from workhook.cli.faults import CliError
from workhook.cli.usage import days, scope_list

if TYPE_CHECKING:
    from workhook.storage import Row

app = new_app("Tokens: how programs come in.")


def _time(at_ms: int | None) -> str | None:
    from workhook.core.clock import to_millis_text

    return None if at_ms is None else to_millis_text(at_ms)


@command(app, "create")
async def create(
    context: Context,
    *,
    user: Annotated[str, typer.Option(metavar="LOGIN", help="Whose token it is.")],
    scopes: Annotated[
        str, typer.Option(metavar="SCOPE,…", parser=scope_list, help="Such as repo,admin:repo_hook,work.")
    ],
    kind: Annotated[Literal["classic"], typer.Option(metavar="classic", help="The kind of token.")] = "classic",
    expires_in: Annotated[
        float | None, typer.Option(metavar="DAYS", parser=days, help="Without it the token stays good.")
    ] = None,
    note: Annotated[str | None, typer.Option(metavar="TEXT", help="What it is for.")] = None,
) -> None:
    """Issue a token. This is the only time that it is shown."""
    from workhook.identity import actions

    wanted = [each.strip() for each in scopes.split(",") if each.strip()]
    async with context.services() as services, services.database.transaction() as tx:
        who = await find_user(tx, user)
        issued = await actions.issue_token(tx, who, wanted, note=note, expires_in_days=expires_in)
    data = {
        "token": issued.token,
        "id": issued.id,
        "user": who.login,
        "scopes": sorted(set(wanted)),
        "expires_at": _time(issued.expires_at),
    }
    context.answer(data, issued.token)


@command(app, "list")
async def list_tokens(
    context: Context,
    *,
    user: Annotated[str | None, typer.Option(metavar="LOGIN", help="Only this user's.")] = None,
) -> None:
    """List tokens, oldest first; never the tokens themselves, which are stored nowhere."""
    from workhook.cli import queries

    async with context.services() as services:
        who = await find_user(services.database, user) if user else None
        rows = [_shown(row) for row in await queries.list_tokens(services.database, who)]
    columns = ("id", "user", "scopes", "note", "created_at", "expires_at", "last_used_at", "revoked_at")
    context.answer_rows(rows, columns, none="There is no token yet: workhook token create")


def _shown(row: Row) -> dict[str, object]:
    return {
        "id": row["id"],
        "kind": row["kind"],
        "user": row["login"],
        "scopes": row["scopes"].split(),
        "note": row["note"],
        **{name: _time(row[name]) for name in ("created_at", "expires_at", "last_used_at", "revoked_at")},
    }


@command(app, "revoke")
async def revoke(
    context: Context,
    *,
    token_id: Annotated[int, typer.Argument(metavar="ID", help="As `token list` shows it.")],
) -> None:
    """Revoke a token: from now on no process takes it."""
    from workhook.cli import queries
    from workhook.identity import actions

    async with context.services() as services, services.database.transaction() as tx:
        if token_id not in [row["id"] for row in await queries.list_tokens(tx, None)]:
            raise CliError(f"there is no token {token_id}.", "`workhook token list` shows their ids.")
        await actions.revoke_token(tx, token_id)
    context.answer({"id": token_id, "revoked": True}, f"revoked the token {token_id}")
