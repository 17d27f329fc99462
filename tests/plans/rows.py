"""What a row of the table is.

To add one: `Row("the operationId", {"filter": "value"})` in the table of its area. What is offered is read from the
operations, so whatever has no row is named by `test_every_filter_and_sort_has_a_row`. A row with a value
that few rows of `filled.py` have finds out what looks at all of them. `place="other"` asks the same of the
project in which the rare is common, and the other way round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

PAGING = frozenset({"per_page", "page", "cursor"})


@dataclass(frozen=True)
class Row:
    """A list as it is asked for. `finds`: how many it answers at least, so that a row does not ask for nothing.
    `caller`: the owner, or one of `work_callers`. `bound`: of work for a page, where the ordinary one is not enough,
    with the reason beside it; `sqlite_more`: what SQLite needs besides. `walks`: a page ends when it has looked at
    some, whether they fit or not; `finds` counts nothing then. `counts`: it tells how many there are on all pages,
    which are looked at for that; others are not."""

    operation: str
    query: Mapping[str, str] = field(default_factory=dict)
    place: str = "project"
    caller: str = "owner"
    finds: int = 1
    bound: int = 0
    sqlite_more: int = 0
    walks: bool = False
    counts: bool = False

    def __str__(self) -> str:
        told = "&".join(f"{name}={value}" for name, value in self.query.items())
        more = [each for each in (self.place, self.caller) if each not in ("project", "owner")]
        return " ".join([f"{self.operation}?{told}", *more])


NO_LISTS = frozenset(
    {
        "get_task",  # `project_id` only says where it has to be
        "get_file_content",  # a signature
        "follow_project",  # a stream
    }
)
"""Operations that take parameters and answer one thing."""
