"""Who is led to the first steps: the only user of a server without work, at their first sign-in."""

from __future__ import annotations

from workhook.hooks.queries import has_any_hook
from workhook.identity.schemas import Account
from workhook.identity.signin.sessions import is_first_user
from workhook.storage import Reader
from workhook.work.board.tasks.presence import has_any_task


async def first_page(reader: Reader, user: Account) -> str:
    """The address that a sign-in by a link leads to. Ask before the sign-in is noted."""
    if not await is_first_user(reader, user.id) or await has_any_task(reader) or await has_any_hook(reader):
        return "/"
    return "/welcome"
