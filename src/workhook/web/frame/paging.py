"""Addresses that keep what a page was asked for: its filters, its order, the page behind it; lists of all projects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from workhook.http.lists import Found, Key
from workhook.web.frame.places import Visit
from workhook.work.board.projects.listing import find_visible, list_newest

T = TypeVar("T")

QUERY_MAX_CHARS = 2000
TEXTS_MAX_CHARS = 512 * 1024
"""The most characters of texts in one list of a page. A text that can be edited is there twice, and the page is made
and compressed while everybody else waits."""


def that_fit(listed: Sequence[T], most: int, chars: Callable[[T], int]) -> Sequence[T]:
    """Return the first `most` rows, or fewer if their texts have more characters than a page has room for: at least
    one. `chars` counts those of a row."""
    left = TEXTS_MAX_CHARS
    for number, each in enumerate(listed[:most]):
        left -= chars(each)
        if left < 0 and number:
            return listed[:number]
    return listed[:most]


def address_of(owner: str, project: str, *more: str) -> str:
    """The address of a project, or of a place in it."""
    return "/" + "/".join(quote(each, safe="") for each in (owner, project, *more))


def project_address(visit: Visit, *more: str) -> str:
    """The address of the project that the path names, or of a place in it."""
    return address_of(visit.path("owner"), visit.path("project"), *more)


def given(visit: Visit) -> dict[str, str]:
    """The query parameters that say something; an empty field of a form is no filter."""
    return {name: values[-1] for name, values in visit.call.query.items() if values[-1] != ""}


def with_query(visit: Visit, **changes: str | None) -> str:
    """The query of this page with other values, which begins with `?`; None takes a parameter away."""
    kept = {**given(visit), **changes}
    return "?" + urlencode({name: value for name, value in kept.items() if value})


def next_page(headers: Mapping[str, str]) -> str | None:
    """The query of the page behind this one, of the `Link` header that `http.lists.page` made."""
    link = headers.get("Link")
    return None if link is None else "?" + urlsplit(link[1:].partition(">")[0]).query


def back_to(visit: Visit, address: str) -> str:
    """Where a form leads back to: the page with the query that its field `back` holds, never another page."""
    query = visit.fields.get("back", "").removeprefix("?")[:QUERY_MAX_CHARS]
    return f"{address}?{urlencode(parse_qsl(query))}" if query else address


OPTIONS_MAX = 500
"""Projects in the field with which a list is narrowed."""

LOOKS = 5
"""How often a page looks further, where too few of the rows that it has looked at fit."""


async def fill_page(ask: Callable[[Key | None], Awaitable[Found[T]]], after: Key | None, limit: int) -> Found[T]:
    """What `ask` finds behind a key, and behind where it stopped, until there are `limit` rows."""
    rows = Found[T]()
    for _ in range(LOOKS):
        found = await ask(after)
        for row, key in zip(found, found.keys, strict=True):
            rows.add(row, key)
        rows.cut, after = found.cut, found.behind
        rows.behind = after
        if after is None or found.cut or len(rows) >= limit:
            break
    return rows


class ProjectOption(NamedTuple):
    """`is_guest`: the visitor is a client there."""

    id: str
    title: str
    owner: str
    is_guest: bool


async def project_options(visit: Visit) -> list[ProjectOption]:
    """By title, of the newest that the visitor sees, and of the one that the address names."""
    found = await list_newest(visit.database, visit.actor, limit=OPTIONS_MAX)
    chosen = visit.query("project_id")
    if chosen and all(each.id != chosen for each in found):
        found += (await find_visible(visit.database, visit.actor, [chosen])).values()
    options = [
        ProjectOption(each.id, each.title, each.repository.owner.login, each.repository.role is None) for each in found
    ]
    return sorted(options, key=lambda each: (each.title.casefold(), each.id))
