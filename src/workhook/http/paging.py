"""`Link` headers, by page and by cursor."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode

from workhook.http.calls import Call
from workhook.http.operations import Query

PER_PAGE_DEFAULT = 30
PER_PAGE_MAX = 100
PER_PAGE = Query("per_page", "Results a page; more than 100 count as 100.", {"type": "integer", "minimum": 1})
PAGING = (PER_PAGE, Query("page", "The page to fetch, from 1.", {"type": "integer", "minimum": 1}))


def per_page_of(call: Call) -> int:
    """Raises `Invalid`."""
    return call.query_integer("per_page", PER_PAGE_DEFAULT, low=1, high=PER_PAGE_MAX)


def page_of(call: Call) -> tuple[int, int]:
    """The page that is asked for, from 1, and how many results it has. Raises `Invalid`."""
    per_page = per_page_of(call)
    return call.query_integer("page", 1, low=1, high=10**9), per_page


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


def page_link(call: Call, *, page: int, per_page: int, total: int) -> dict[str, str]:
    """The header of a list by page; empty if everything fits on one."""
    last = max(1, -(-total // per_page))
    relations: dict[str, dict[str, str | int]] = {}
    if page > 1:
        relations["prev"] = {"page": min(page - 1, last)}
    if page < last:
        relations["next"] = {"page": page + 1}
        relations["last"] = {"page": last}
    if page > 1:
        relations["first"] = {"page": 1}
    return {"Link": link(call, relations)} if relations else {}
