"""The number of rows of each kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from workhook.core.clock import DAY_MS, now_ms
from workhook.core.ids import lower_bound_id

LEAST = 1000
MOST = 100_000_000
DAYS = 20  # spanned by the rows; less than any retention period

PROJECTS = 10  # per organization
COLUMNS = 4  # per project
PEOPLE = 60  # the first forty are in the first organization, the last forty in the second
IN_BOTH = (21, 40)
ORGANIZATIONS = ("acme", "globex")
OWNER, SELDOM = "person1", "person7"  # owns both organizations; did everything rare, long ago

IN_BUCKET = 80
BUCKETS_FROM = 1 << 60  # IDs of buckets, which are otherwise random


@dataclass(frozen=True)
class RowCounts:
    """The number of rows of each kind, all derived from the requested number of `deliveries`."""

    deliveries: int
    start_ms: int
    span_ms: int = DAYS * DAY_MS

    @classmethod
    def of(cls, deliveries: int) -> RowCounts:
        span_ms = DAYS * DAY_MS
        return cls(deliveries, now_ms() - span_ms, span_ms)

    @property
    def dispatches(self) -> int:
        """Return the number of dispatches. Every twentieth delivery is a second attempt at the one before it."""
        return self.deliveries - self.deliveries // 20

    @property
    def events(self) -> int:
        """Return the number of events. Each is sent to a webhook of its repository and to one of the organization."""
        return (self.dispatches + 1) // 2

    @property
    def audit(self) -> int:
        return self.deliveries // 10

    @property
    def tasks(self) -> int:
        """Return the number of tasks, a multiple of ten buckets.

        There are as many timesheets, and half as many comments.
        """
        return max(1, self.deliveries // 100 // (IN_BUCKET * 10)) * IN_BUCKET * 10

    @property
    def first_tasks(self) -> int:
        """Return the number of tasks in the first project. The rest are spread over the other projects."""
        return self.tasks // 10 * 6

    @property
    def some(self) -> int:
        """Return the number of files, of invoices and of credit entries, all in the first project."""
        return max(100, self.deliveries // 1000)

    @property
    def repositories(self) -> int:
        return len(ORGANIZATIONS) * PROJECTS

    def params(self) -> dict[str, Any]:
        """Return the parameters that all statements share."""
        old = max(1, self.events // 10)
        return {
            "start": self.start_ms,
            "span": self.span_ms,
            "events": self.events,
            "old_events": old,
            "seldom_every": max(1, old // 20),
            "old_deliveries": self.deliveries // 10,
            "audit": self.audit,
            "old_audit": self.audit // 10,
            "seldom_audit": max(1, self.audit // 200),
            "tasks": self.tasks,
            "first_tasks": self.first_tasks,
            "first_buckets": self.first_tasks // IN_BUCKET,
            "other_buckets": (self.tasks - self.first_tasks) // IN_BUCKET,
            "seldom_task": max(1, self.tasks // 20),
            "some": self.some,
        }

    def text_id(self, prefix: str, number: int) -> str:
        """Return an ID of a row created at the start."""
        return lower_bound_id(prefix, self.start_ms)[: len(prefix) + 11] + f"{number:016d}"

    def guid(self, dispatch: int) -> str:
        """Return the GUID of a dispatch, as created by `sql.guid`."""
        at = f"{self.start_ms + (dispatch + 1) // 2 * self.span_ms // self.events:012x}"
        return f"{at[:8]}-{at[8:]}-7000-8000-{dispatch:012d}"

    def task_id(self, number: int) -> str:
        at_ms = self.start_ms + number * 7919 % self.tasks * self.span_ms // self.tasks
        return lower_bound_id("tsk", at_ms)[:14] + f"{number:016d}"
