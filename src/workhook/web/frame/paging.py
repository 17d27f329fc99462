"""Addresses that keep what a page was asked for: its filters, its order, the page behind it."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from workhook.web.frame.places import Visit

QUERY_MAX_CHARS = 2000


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
