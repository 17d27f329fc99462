"""The pure rules of rates: whose rate counts, and what time is rounded to. Decision 46."""

from __future__ import annotations

from typing import Literal

import msgspec

from workhook.core.clock import MINUTE_MS, SECOND_MS
from workhook.work.kernel.settings.schemas import RoundMode

RateSource = Literal["timesheet", "task", "project_member", "project", "member", "organization", "none"]
"""Where the rate of an hour is from: the nearest that says one."""


BudgetMark = Literal[0, 80, 100]
"""The percentage of a budget that was told last."""


class TimeTerms(msgspec.Struct, frozen=True):
    """`rate_minor`: of an hour, None if nobody says one; `source`: who says it. `has_budget`: the project's budget is
    not used up yet, as far as was told."""

    rate_minor: int | None = None
    source: RateSource = "none"
    billable: bool = False
    has_budget: bool = False


class Rounding(msgspec.Struct, frozen=True):
    """What the time of an entry is rounded to on an invoice. `minutes` 0: it is not.

    A fraction of a second never counts: it does not begin another step.
    """

    minutes: int = 0
    mode: RoundMode = "up"

    def of(self, duration_ms: int) -> int:
        counted_ms, unit = duration_ms // SECOND_MS * SECOND_MS, self.minutes * MINUTE_MS
        if not unit:
            return counted_ms
        more = unit - 1 if self.mode == "up" else unit // 2
        return (counted_ms + more) // unit * unit
