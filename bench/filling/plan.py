"""How many rows of each kind there are to be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from workhook.core.clock import DAY_MS, now_ms
from workhook.core.ids import least_id

LEAST = 1000
MOST = 100_000_000
DAYS = 20  # that the rows are spread over: fewer than any retention takes

PROJECTS = 10  # of each organization
COLUMNS = 4  # of each project
PEOPLE = 60  # the first forty are in the first organization, the last forty in the second
IN_BOTH = (21, 40)
ORGANIZATIONS = ("acme", "globex")
OWNER, SELDOM = "person1", "person7"  # owns both; did what is seldom, and that long ago

IN_BUCKET = 80
BUCKETS_FROM = 1 << 60  # ids of buckets, which are random otherwise


@dataclass(frozen=True)
class RowCounts:
    """`deliveries` is what was asked for; the other numbers follow from it."""

    deliveries: int
    start_ms: int
    span_ms: int = DAYS * DAY_MS

    @classmethod
    def of(cls, deliveries: int) -> RowCounts:
        span_ms = DAYS * DAY_MS
        return cls(deliveries, now_ms() - span_ms, span_ms)

    @property
    def dispatches(self) -> int:
        """Each twentieth delivery is another attempt at the one before it."""
        return self.deliveries - self.deliveries // 20

    @property
    def events(self) -> int:
        """Each goes to the webhook of its repository and to that of the organization."""
        return (self.dispatches + 1) // 2

    @property
    def audit(self) -> int:
        return self.deliveries // 10

    @property
    def tasks(self) -> int:
        """As many timesheets, and half as many comments. A multiple of what is in ten buckets."""
        return max(1, self.deliveries // 100 // (IN_BUCKET * 10)) * IN_BUCKET * 10

    @property
    def first_tasks(self) -> int:
        """Those of the first project; the others are spread over the other projects."""
        return self.tasks // 10 * 6

    @property
    def some(self) -> int:
        """Files, invoices and entries of credit, all of the first project."""
        return max(100, self.deliveries // 1000)

    @property
    def repositories(self) -> int:
        return len(ORGANIZATIONS) * PROJECTS

    def params(self) -> dict[str, Any]:
        """Of every statement."""
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
        """Of what was there from the first."""
        return least_id(prefix, self.start_ms)[: len(prefix) + 11] + f"{number:016d}"

    def guid(self, dispatch: int) -> str:
        """As `sql.guid` makes it."""
        at = f"{self.start_ms + (dispatch + 1) // 2 * self.span_ms // self.events:012x}"
        return f"{at[:8]}-{at[8:]}-7000-8000-{dispatch:012d}"

    def task_id(self, number: int) -> str:
        at_ms = self.start_ms + number * 7919 % self.tasks * self.span_ms // self.tasks
        return least_id("tsk", at_ms)[:14] + f"{number:016d}"
