"""How much of a project's budget is used, as its page of time shows it."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from workhook.web.frame.formats import money
from workhook.web.frame.texts import gettext
from workhook.work.time.budgets.api import BudgetStanding
from workhook.work.time.timesheets import rules


class BudgetBar(NamedTuple):
    """`words`: what is used of how much; `percent` may be above 100."""

    words: str
    percent: int

    @property
    def is_short(self) -> bool:
        return self.percent >= 80


def bar_of(standing: BudgetStanding, currency: str) -> BudgetBar | None:
    """None where there is no budget."""
    budget, whole, percent = standing.budget, standing.budget.whole, standing.budget.percent(standing.used)
    if whole is None or percent is None:
        return None
    used = budget.used_by(standing.used)
    write = rules.display if budget.minor is None else partial(money, currency=currency)
    message = (
        gettext("%(used)s of %(whole)s used")
        if budget.minor is not None
        else gettext("%(used)s of %(whole)s hours used")
    )
    return BudgetBar(message % {"used": write(used), "whole": write(whole)}, percent)
