"""Lists: by opaque cursor in the work API, by page number or ID in the webhook API. `Link` leads to other pages.

A cursor contains the sort key of the last row shown. Every page costs the same, and rows added or removed in the
meantime neither repeat nor hide others.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.core import json
from workhook.core.errors import Invalid, Malformed
from workhook.http.calls import Call
from workhook.http.operations import Query
from workhook.http.parameters import Rule
from workhook.storage import Row
from workhook.storage.pages import Page

R = TypeVar("R")
K = TypeVar("K")

WHOLE_LIST_MAX = 1000  # rows in a response without `per_page`

PER_PAGE_DEFAULT = 30
PER_PAGE_MAX = 100
PER_PAGE = Query(
    "per_page", f"Results per page. Default: {PER_PAGE_DEFAULT}. Above 100 counts as 100, below 1 as the default.",
    {"type": "integer"},
)  # fmt: skip
PAGING = (PER_PAGE, Query("page", "Number of the page, starting at 1. Less than 1 counts as 1.", {"type": "integer"}))

_MARK = "v1_"
_LESS_THAN_ONE = re.compile(r"0+|-[0-9]+")


_WANTED = "one from a Link header"
Key = tuple[Any, ...]
"""The values of a row by which a list is sorted."""


class Rows(list[R]):
    """Rows of a list. `truncated` means that the read limit was reached before the end.

    `keys` contains the sort keys of the rows if the list provides them. `next_key` is the key after which there may be
    more rows.
    """

    def __init__(self, rows: Iterable[R] = (), *, truncated: bool = False) -> None:
        super().__init__(rows)
        self.truncated = truncated
        self.keys: list[Key] = []
        self.next_key: Key | None = None

    def add(self, row: R, key: Key) -> None:
        self.append(row)
        self.keys.append(key)


# A malformed cursor is reported together with other invalid parameters. `after` checks its contents.
Cursor = Annotated[
    str,
    Meta(max_length=1024, description="Cursor from the `Link` header."),
    Rule.accepts(lambda text: _decode(text, list[object]) is not None, _WANTED),
]


class ListQuery(msgspec.Struct):
    """The parameters of every list. Lists with filters add fields in a subclass."""

    per_page: (
        Annotated[int, Meta(ge=1, le=PER_PAGE_MAX, description="Rows per page. Default: up to 1,000 rows.")] | UnsetType
    ) = UNSET
    cursor: Cursor | UnsetType = UNSET

    @property
    def limit(self) -> int:
        return WHOLE_LIST_MAX if isinstance(self.per_page, UnsetType) else self.per_page


def after(query: ListQuery, key: type[K]) -> K | None:
    """Return the sort key after which the page starts, or None for the first page.

    `key` is a tuple type such as `tuple[str]`. Raises `Invalid` for a cursor that Workhook did not create.
    """
    if isinstance(query.cursor, UnsetType):
        return None
    found = _decode(query.cursor, key)
    if found is None:
        raise Invalid.at("cursor", f"cursor must be {_WANTED}")
    return found


def _decode(cursor: str, key: type[K]) -> K | None:
    if not cursor.startswith(_MARK):
        return None
    try:
        data = base64.urlsafe_b64decode(cursor.removeprefix(_MARK) + "==")
        found = None if b"\\u0000" in data else json.decode_untrusted(data, key)
    except (ValueError, Malformed):  # base64 raises the former, also for non-ASCII text
        return None
    # Drivers reject integers that do not fit a column.
    parts = found if isinstance(found, tuple) else ()
    return None if any(isinstance(each, int) and not -(2**63) <= each < 2**63 for each in parts) else found


def page(
    call: Call,
    rows: Sequence[R],
    query: ListQuery,
    key: Callable[[R], Key] | None = None,
    *,
    last_seen: Key | None = None,
) -> tuple[Sequence[R], Mapping[str, str]]:
    """Return the rows to show and the `Link` header.

    The caller has read one row more than `query.limit`, unless the rows were `truncated` (see `Rows`) or it read no
    further than the key `last_seen`. Without `key`, the rows are a `Rows` with keys.
    """
    found = rows if isinstance(rows, Rows) else None
    if len(rows) <= query.limit and not (found is not None and found.truncated):
        behind = last_seen if found is None or key is not None else found.next_key
        return rows, {} if behind is None else _next(call, behind)
    shown = rows[: query.limit]
    if key is not None:
        return shown, _next(call, key(shown[-1]))
    assert found is not None, "a list without keys needs a function that makes them"
    return shown, _next(call, found.keys[len(shown) - 1])


def _next(call: Call, behind: Key) -> Mapping[str, str]:
    cursor = _MARK + base64.urlsafe_b64encode(json.encode(behind)).decode().rstrip("=")
    return {"Link": link(call, {"next": {"cursor": cursor}})}


# --- cursors that are IDs, of histories -------------------------------------------------------------------------------

ID_CURSOR = {"type": "string", "pattern": f"^{_MARK}[0-9]{{1,16}}$"}
"""The JSON Schema of a cursor of `cursor_at`."""


def cursor_at(row: Row) -> str:
    """Return the cursor of a row. Each list decides whether the page of a cursor includes its row."""
    return f"{_MARK}{row['id']}"


def parse_cursor(text: str | None) -> int | None:
    """Return the ID in a cursor of `cursor_at`, or None without a cursor. Raises `Malformed` for other texts."""
    if text is None:
        return None
    number = text.removeprefix(_MARK)
    if not text.startswith(_MARK) or not number.isascii() or not number.isdigit() or len(number) > 16:
        raise Malformed("The cursor does not come from a Link header.", code="bad_cursor")
    return int(number)


# --- numbered pages, and `Link` ---------------------------------------------------------------------------------------


def per_page_of(call: Call) -> int:
    """Return the `per_page` parameter. Raises `Invalid`."""
    return _count(call, "per_page", PER_PAGE_DEFAULT, PER_PAGE_MAX)


def page_of(call: Call) -> Page:
    """Return the requested page. Raises `Invalid`."""
    limit = per_page_of(call)
    return Page(limit, (_count(call, "page", 1, 10**9) - 1) * limit)


def _count(call: Call, name: str, default: int, high: int) -> int:
    """Return an integer, or the default if it is less than 1, as GitHub does. Raises `Invalid` for other values."""
    if _LESS_THAN_ONE.fullmatch(call.query_text(name) or ""):
        return default
    return call.query_integer(name, default, low=1, high=high)


def link(call: Call, relations: Mapping[str, Mapping[str, str | int | None]]) -> str:
    """Return a `Link` header with absolute URLs.

    `relations` maps a rel to query parameters that replace those of the request; None removes a parameter.
    """
    path = quote(call.request.scope["path"], safe="/:@!$&'()*+,;=")
    address = call.base.removesuffix(call.prefix) + path
    kept = {name: values[-1] for name, values in call.query.items()}
    parts = []
    for rel, changes in relations.items():
        params = {**kept, **changes}
        query = urlencode({name: str(value) for name, value in params.items() if value is not None})
        parts.append(f'<{address}?{query}>; rel="{rel}"')
    return ", ".join(parts)


def page_link(call: Call, page: Page, total: int) -> dict[str, str]:
    """Return the `Link` header of a numbered page, or nothing if one page contains the whole list."""
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
