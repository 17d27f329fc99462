"""`workhook member` and `workhook collaborator`."""

from __future__ import annotations

from typing import Annotated, Literal

from workhook.cli.common import Context, command, find_organization, find_repository, find_user, new_app
from workhook.cli.options import Option
from workhook.work.people.members import admin_actions

app = new_app("Members of an organization.")
collaborators = new_app("People who were added to one repository (project), and their roles.")

_Organization = Annotated[str, Option("LOGIN", "The organization.")]
_Repository = Annotated[str, Option("OWNER/NAME", "The repository.")]
_User = Annotated[str, Option("LOGIN", "The user.")]


@command(app, "add")
async def add_member(
    context: Context,
    *,
    organization: _Organization,
    user: _User,
    role: Annotated[Literal["owner", "member"], Option("owner|member", "What the user is there.")] = "member",
) -> None:
    """Add a user to an organization, or change the role."""
    async with context.write() as write:
        place, who = await find_organization(write.tx, organization), await find_user(write.tx, user)
        await admin_actions.set_member(write, place, who, role)
    data = {"organization": place.login, "user": who.login, "role": role}
    context.answer(data, f"{who.login} is {role} of {place.login}")


@command(app, "remove")
async def remove_member(context: Context, *, organization: _Organization, user: _User) -> None:
    """Remove a user from an organization and from its projects."""
    async with context.write() as write:
        place, who = await find_organization(write.tx, organization), await find_user(write.tx, user)
        removed = await admin_actions.remove_member(write, place, who)
    data = {"organization": place.login, "user": who.login, "removed": removed}
    context.answer(data, f"{who.login} {'is no longer' if removed else 'was not'} in {place.login}")


@command(collaborators, "add")
async def add_collaborator(
    context: Context,
    *,
    repository: _Repository,
    user: _User,
    role: Annotated[Literal["read", "write", "admin"], Option("read|write|admin", "What the user may do there.")],
) -> None:
    """Add a user to a repository, or change the role."""
    async with context.write() as write:
        where, who = await find_repository(write.tx, repository), await find_user(write.tx, user)
        await admin_actions.set_collaborator(write, where, who, role)
    data = {"repository": where.full_name, "user": who.login, "role": role}
    context.answer(data, f"{who.login} has the role {role} in {where.full_name}")


@command(collaborators, "remove")
async def remove_collaborator(context: Context, *, repository: _Repository, user: _User) -> None:
    """Remove a user from a repository. Access through the organization stays."""
    async with context.write() as write:
        where, who = await find_repository(write.tx, repository), await find_user(write.tx, user)
        removed = await admin_actions.remove_collaborator(write, where, who)
    data = {"repository": where.full_name, "user": who.login, "removed": removed}
    context.answer(data, f"{who.login} {'is no longer' if removed else 'was not'} a collaborator of {where.full_name}")
