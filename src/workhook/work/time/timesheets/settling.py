"""What happens when time has been spent: the rate of its hours is fixed, and budgets are looked at. Decision 46."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from workhook.identity.context import Write
from workhook.storage import Transaction
from workhook.work.time.rates.rules import TimeTerms
from workhook.work.time.timesheets import budgets, queries
from workhook.work.time.timesheets.schemas import Timesheet


class Settled(msgspec.Struct, frozen=True):
    """Timesheets at their rates, and what counts for each, by its id."""

    timesheets: list[Timesheet]
    terms: dict[str, TimeTerms]

    async def tell(self, write: Write) -> None:
        """Call it once they are written and their events are published: the events of budgets follow."""
        there = [each for each in self.timesheets if not each.repository_gone]
        places = [each.repository for each in there if self.terms.get(each.id, TimeTerms()).has_budget]
        await budgets.tell_of_budgets(write, places)


async def settle(tx: Transaction, finished: Sequence[Timesheet]) -> Settled:
    """Timesheets that are finished now, each without a rate of its own at the one that counts now."""
    terms = await queries.find_terms(tx, [each.id for each in finished])
    at_rates = [each.at_rate(each.own_rate_minor, terms.get(each.id, TimeTerms())) for each in finished]
    return Settled(at_rates, terms)
