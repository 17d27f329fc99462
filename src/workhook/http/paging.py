"""`Link` headers, by page and by cursor."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode

from workhook.http.calls import Call

PER_PAGE_DEFAULT = 30
PER_PAGE_MAX = 100


def link(call: Call, relations: Mapping[str, Mapping[str, str | int]]) -> str:
    """`relations`: rel → query parameters that replace the request's. The URLs are absolute."""
    path = quote(call.request.scope["path"], safe="/:@!$&'()*+,;=")
    address = call.base.removesuffix(call.prefix) + path
    kept = {name: values[-1] for name, values in call.query.items()}
    parts = []
    for rel, changes in relations.items():
        query = urlencode({**kept, **{name: str(value) for name, value in changes.items()}})
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
