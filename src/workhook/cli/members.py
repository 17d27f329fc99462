"""`workhook member`."""

from __future__ import annotations

from typing import Annotated, Literal

from workhook.cli.common import Context, base_address, command, find_organization, find_user, new_app
from workhook.cli.options import Option

app = new_app("Who is in an organization.")

_Organization = Annotated[str, Option("LOGIN", "The organization.")]
_User = Annotated[str, Option("LOGIN", "The user.")]


@command(app, "add")
async def add(
    context: Context,
    *,
    organization: _Organization,
    user: _User,
    role: Annotated[Literal["owner", "member"], Option("owner|member", "What the user is there.")] = "member",
) -> None:
    """Add a user to an organization, or change the role."""
    from workhook.work.members import by_hand

    async with context.transaction() as tx:
        place, who = await find_organization(tx, organization), await find_user(tx, user)
        await by_hand.set_member(tx, place, who, role, base=base_address(context.settings))
    data = {"organization": place.login, "user": who.login, "role": role}
    context.answer(data, f"{who.login} is {role} of {place.login}")


@command(app, "remove")
async def remove(context: Context, *, organization: _Organization, user: _User) -> None:
    """Take a user out of an organization, and out of its projects."""
    from workhook.work.members import by_hand

    async with context.transaction() as tx:
        place, who = await find_organization(tx, organization), await find_user(tx, user)
        removed = await by_hand.remove_member(tx, place, who, base=base_address(context.settings))
    data = {"organization": place.login, "user": who.login, "removed": removed}
    context.answer(data, f"{who.login} {'is no longer' if removed else 'was not'} in {place.login}")
