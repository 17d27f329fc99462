"""`Link` headers, by page and by cursor."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode

from workhook.http.calls import Call
from workhook.http.operations import Query
from workhook.storage.pages import Page

PER_PAGE_DEFAULT = 30
PER_PAGE_MAX = 100
PER_PAGE = Query("per_page", "Results a page; more than 100 count as 100.", {"type": "integer", "minimum": 1})
PAGING = (PER_PAGE, Query("page", "The page to fetch, from 1.", {"type": "integer", "minimum": 1}))


def per_page_of(call: Call) -> int:
    """Raises `Invalid`."""
    return call.query_integer("per_page", PER_PAGE_DEFAULT, low=1, high=PER_PAGE_MAX)


def page_of(call: Call) -> Page:
    """Raises `Invalid`."""
    limit = per_page_of(call)
    return Page(limit, (call.query_integer("page", 1, low=1, high=10**9) - 1) * limit)


def link(call: Call, relations: Mapping[str, Mapping[str, str | int | None]]) -> str:
    """`relations`: rel → query parameters that replace the request's; None takes one away. The URLs are absolute."""
    path = quote(call.request.scope["path"], safe="/:@!$&'()*+,;=")
    address = call.base.removesuffix(call.prefix) + path
    kept = {name: values[-1] for name, values in call.query.items()}
    parts = []
    for rel, changes in relations.items():
        given = {**kept, **changes}
        query = urlencode({name: str(value) for name, value in given.items() if value is not None})
        parts.append(f'<{address}?{query}>; rel="{rel}"')
    return ", ".join(parts)


def page_link(call: Call, page: Page, total: int) -> dict[str, str]:
    """The header of a list by page; empty if everything fits on one."""
    number, last = page.offset // page.limit + 1, max(1, -(-total // page.limit))
    relations: dict[str, dict[str, str | int]] = {}
    if number > 1:
        relations["prev"] = {"page": min(number - 1, last)}
    if number < last:
        relations["next"] = {"page": number + 1}
        relations["last"] = {"page": last}
    if number > 1:
        relations["first"] = {"page": 1}
    return {"Link": link(call, relations)} if relations else {}
