"""`workhook user`."""

from __future__ import annotations

from typing import Annotated

import typer

from workhook.cli.common import Context, command, new_app

app = new_app("People who can have tokens and be in organizations.")


@command(app, "add")
async def add(
    context: Context,
    *,
    login: Annotated[str, typer.Option(metavar="LOGIN", help="1 to 39 letters, digits and single hyphens.")],
    email: Annotated[str, typer.Option(metavar="ADDRESS", help="The e-mail address.")],
    name: Annotated[str | None, typer.Option(metavar="NAME", help="The name in full.")] = None,
) -> None:
    """Add a user."""
    from workhook.core.clock import to_millis_text
    from workhook.identity import actions

    async with context.services() as services, services.database.transaction() as tx:
        user = await actions.create_account(tx, "user", login, name=name, email=email)
    created_at = to_millis_text(user.created_at)
    data = {"id": user.id, "login": user.login, "email": email, "name": name, "created_at": created_at}
    context.answer(data, f"added the user {user.login}")


@command(app, "list")
async def list_users(context: Context) -> None:
    """List the users, oldest first."""
    from workhook.cli import queries
    from workhook.core.clock import to_millis_text

    async with context.services() as services:
        users = await queries.users(services.database)
    rows = [
        {
            "id": each.id,
            "login": each.login,
            "email": each.email,
            "name": each.name,
            "created_at": to_millis_text(each.created_at),
        }
        for each in users
    ]
    none = "There is no user yet: workhook user add"
    context.answer_rows(rows, ("login", "email", "name", "created_at"), none=none)
