"""The people of a project, of whom the reader may choose."""

from __future__ import annotations

from workhook.storage import Reader
from workhook.work.access import Access
from workhook.work.tasks.choices import list_people


async def logins_of(reader: Reader, access: Access) -> list[str]:
    """Everybody who sees the project, by their logins, the oldest accounts first; at most 200. A client learns only of
    itself."""
    return [access.user.login] if access.is_client else [each.login for each in await list_people(reader, access)]
