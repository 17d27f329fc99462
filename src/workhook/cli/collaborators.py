"""`workhook collaborator`."""

from __future__ import annotations

from typing import Annotated, Literal

from workhook.cli.common import Context, base_address, command, find_repository, find_user, new_app
from workhook.cli.options import Option

app = new_app("Who may do what in one repository (project) beyond what the organization gives.")

_Repository = Annotated[str, Option("OWNER/NAME", "The repository.")]
_User = Annotated[str, Option("LOGIN", "The user.")]


@command(app, "add")
async def add(
    context: Context,
    *,
    repository: _Repository,
    user: _User,
    role: Annotated[Literal["read", "write", "admin"], Option("read|write|admin", "What the user may do there.")],
) -> None:
    """Add a user to a repository, or change the role."""
    from workhook.work.members import by_hand

    async with context.transaction() as tx:
        where, who = await find_repository(tx, repository), await find_user(tx, user)
        await by_hand.set_collaborator(tx, where, who, role, base=base_address(context.settings))
    data = {"repository": where.full_name, "user": who.login, "role": role}
    context.answer(data, f"{who.login} has the role {role} in {where.full_name}")


@command(app, "remove")
async def remove(context: Context, *, repository: _Repository, user: _User) -> None:
    """Take a user out of a repository. What the organization gives stays."""
    from workhook.work.members import by_hand

    async with context.transaction() as tx:
        where, who = await find_repository(tx, repository), await find_user(tx, user)
        removed = await by_hand.remove_collaborator(tx, where, who, base=base_address(context.settings))
    data = {"repository": where.full_name, "user": who.login, "removed": removed}
    context.answer(data, f"{who.login} {'is no longer' if removed else 'was not'} a collaborator of {where.full_name}")
