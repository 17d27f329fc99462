"""Lists by an opaque cursor: `per_page` and `cursor` in, `Link: <…>; rel="next"` out.

A cursor holds the sort key of the last row that was shown, so a page costs the same wherever it begins, and rows that
come or go meanwhile neither repeat nor hide others.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.core import json
from workhook.core.errors import Fault, Invalid
from workhook.http.calls import Call
from workhook.http.paging import PER_PAGE_MAX, link
from workhook.http.parameters import Checked

R = TypeVar("R")
K = TypeVar("K")

WHOLE_LIST_MAX = 1000
"""Rows that are answered when `per_page` is absent."""

_MARK = "v1_"


def _not_a_cursor(text: str) -> str | None:
    """So that a wrong cursor is named with the other wrong parameters; `after` looks at what is in it."""
    return None if _decode(text, list[object]) is not None else _WANTED


_WANTED = "one that a Link header gave"


class Found(list[R]):
    """Rows of a list, which end early if they are `cut`: there are more, which would have been too much at once."""

    def __init__(self, rows: Iterable[R], *, cut: bool) -> None:
        super().__init__(rows)
        self.cut = cut


class ListQuery(msgspec.Struct):
    """What every list takes; a list with filters adds fields in a subclass."""

    per_page: (
        Annotated[
            int, Meta(ge=1, le=PER_PAGE_MAX, description="Rows of a page; without it up to 1,000 rows are answered.")
        ]
        | UnsetType
    ) = UNSET
    cursor: (
        Annotated[
            str,
            Meta(max_length=1024, description="Where the page starts, as the Link header gave it."),
            Checked(_not_a_cursor),
        ]
        | UnsetType
    ) = UNSET

    @property
    def limit(self) -> int:
        return WHOLE_LIST_MAX if isinstance(self.per_page, UnsetType) else self.per_page


def after(query: ListQuery, key: type[K]) -> K | None:
    """The sort key (a tuple type such as `tuple[str]`) behind which the page starts; None: the first page.

    Raises `Invalid` for a cursor that Workhook did not make.
    """
    if isinstance(query.cursor, UnsetType):
        return None
    found = _decode(query.cursor, key)
    if found is None:
        raise Invalid(faults=[Fault(field="cursor", message=f"cursor must be {_WANTED}")])
    return found


def _decode(cursor: str, key: type[K]) -> K | None:
    if not cursor.startswith(_MARK):
        return None
    try:
        data = base64.urlsafe_b64decode(cursor.removeprefix(_MARK) + "==")
        found = None if b"\\u0000" in data else msgspec.json.decode(data, type=key)
    except ValueError:  # base64's and msgspec's errors are of this kind, and that of text that is not ASCII
        return None
    # What no column holds, no driver takes.
    parts = found if isinstance(found, tuple) else ()
    return None if any(isinstance(each, int) and not -(2**63) <= each < 2**63 for each in parts) else found


def page(
    call: Call,
    rows: Sequence[R],
    query: ListQuery,
    key: Callable[[R], tuple[object, ...]],
    *,
    cut: bool = False,
    last_seen: tuple[object, ...] | None = None,
) -> tuple[Sequence[R], Mapping[str, str]]:
    """What to show of `rows`, and the `Link` header. The caller has read one row more than `query.limit`, unless they
    were `cut` (see `Found`), or it looked no further than the key `last_seen`."""
    cut = cut or (isinstance(rows, Found) and rows.cut)
    if len(rows) <= query.limit and not cut:
        return rows, {} if last_seen is None else _next(call, last_seen)
    shown = rows[: query.limit]
    return shown, _next(call, key(shown[-1]))


def _next(call: Call, behind: tuple[object, ...]) -> Mapping[str, str]:
    cursor = _MARK + base64.urlsafe_b64encode(json.encode(behind)).decode().rstrip("=")
    return {"Link": link(call, {"next": {"cursor": cursor}})}
