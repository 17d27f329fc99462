"""The definition of a row in the tables of lists.

To add a row, put `Row("the operationId", {"filter": "value"})` into the table of its area. The parameters are read from
the operations, and `test_every_filter_and_sort_has_a_row` names those without a row. A row with a value that few rows
of `filled.py` have detects queries that scan all of them. `place="other"` requests the same in the project in which
rare values are common.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

PAGING = frozenset({"per_page", "page", "cursor"})


@dataclass(frozen=True)
class Row:
    """A request for a list.

    `finds` is the minimum number of results, so that no row tests an empty list by mistake. `caller` is the owner or a
    caller of `work_callers`. `bound` is the allowed work per page if the default is not enough, with the reason next to
    it, and `sqlite_more` is what SQLite needs in addition. With `walks`, a page ends after a number of rows, whether
    they match or not, and `finds` is ignored. With `counts`, the list reports its total, and exactly the counted rows
    are read for that.
    """

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
        written = "&".join(f"{name}={value}" for name, value in self.query.items())
        more = [each for each in (self.place, self.caller) if each not in ("project", "owner")]
        return " ".join([f"{self.operation}?{written}", *more])


NO_LISTS = frozenset(
    {
        "get_task",  # `project_id` only states where the task must be
        "get_file_content",  # a signature
        "follow_project",  # a stream
    }
)
"""Operations that take parameters but return a single resource."""
