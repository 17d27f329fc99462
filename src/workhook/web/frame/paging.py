"""Filters, pagination and addresses of lists."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import msgspec

from workhook.http import parameters
from workhook.http.lists import Key, ListQuery, Rows
from workhook.storage.pages import Page
from workhook.web.frame.places import Visit
from workhook.work.board.projects.listing import find_visible, list_newest
from workhook.work.board.projects.schemas import Project

T = TypeVar("T")
Q = TypeVar("Q", bound=ListQuery)

QUERY_MAX_CHARS = 2000
TEXTS_MAX_CHARS = 512 * 1024
"""Maximum number of characters in the texts of a list, because an editable text is on the page twice, and rendering and
compression block the event loop."""


def that_fit(listed: Sequence[T], limit: int, chars: Callable[[T], int]) -> Sequence[T]:
    """Return the first `limit` rows, or fewer if their `chars` exceed `TEXTS_MAX_CHARS` in total, but at least one."""
    left = TEXTS_MAX_CHARS
    for number, each in enumerate(listed[:limit]):
        left -= chars(each)
        if left < 0 and number:
            return listed[:number]
    return listed[:limit]


def address_of(owner: str, project: str, *more: str) -> str:
    """Return the address of a project or of a page in it."""
    return "/" + "/".join(quote(each, safe="") for each in (owner, project, *more))


def project_address(visit: Visit, *more: str) -> str:
    return address_of(visit.path("owner"), visit.path("project"), *more)


def given(visit: Visit) -> dict[str, str]:
    """Return the non-empty query parameters."""
    return {name: values[-1] for name, values in visit.call.query.items() if values[-1] != ""}


def query_of(shape: type[Q], values: Mapping[str, str], rows: int) -> Q:
    """Return the list query from the parameters that it knows, ignoring others. Raises `Invalid`."""
    names = _names_of(shape)
    return parameters.gather(
        shape, {name: [each] for name, each in values.items() if name in names}, {"per_page": rows}
    )


def is_filtered(shape: type[ListQuery], values: Mapping[str, str]) -> bool:
    return bool(_names_of(shape) & set(values) - {"sort", "cursor"})


def _names_of(shape: type[ListQuery]) -> set[str]:
    return {each.encode_name for each in msgspec.structs.fields(shape)} - {"per_page", "timezone"}


def numbered_page(visit: Visit, rows: int) -> tuple[int, Page]:
    """Return the requested page number, from 1, and its range of rows."""
    number = visit.call.query_integer("page", 1, low=1, high=10_000)
    return number, Page(rows, (number - 1) * rows)


def with_query(visit: Visit, **changes: str | None) -> str:
    """Return the current query with changed parameters, including the `?`. None removes a parameter."""
    kept = {**given(visit), **changes}
    return "?" + urlencode({name: value for name, value in kept.items() if value})


def next_page(headers: Mapping[str, str]) -> str | None:
    """Return the query of the next page, from the `Link` header of `http.lists.page`."""
    link = headers.get("Link")
    return None if link is None else "?" + urlsplit(link[1:].partition(">")[0]).query


def back_to(visit: Visit, address: str) -> str:
    """Return `address` with the query in the form field `back`, which can't lead to another page."""
    query = visit.fields.get("back", "").removeprefix("?")[:QUERY_MAX_CHARS]
    return f"{address}?{urlencode(parse_qsl(query))}" if query else address


OPTIONS_MAX = 500
"""Maximum number of projects in the project filter."""

LOOKS = 5
"""How often a page searches further if too few rows match."""


async def fill_page(ask: Callable[[Key | None], Awaitable[Rows[T]]], after: Key | None, limit: int) -> Rows[T]:
    """Call `ask` repeatedly, each time from where it stopped, until there are `limit` rows."""
    rows = Rows[T]()
    for _ in range(LOOKS):
        found = await ask(after)
        for row, key in zip(found, found.keys, strict=True):
            rows.add(row, key)
        rows.truncated, after = found.truncated, found.next_key
        rows.next_key = after
        if after is None or found.truncated or len(rows) >= limit:
            break
    return rows


async def project_options(visit: Visit) -> list[Project]:
    """Return the newest projects that the visitor sees and the one in the query, by title."""
    found = await list_newest(visit.database, visit.actor, limit=OPTIONS_MAX)
    chosen = visit.query("project_id")
    if chosen and all(each.id != chosen for each in found):
        found += (await find_visible(visit.database, visit.actor, [chosen])).values()
    return sorted(found, key=lambda each: (each.title.casefold(), each.id))
