"""The budget of a project: `/projects/{id}/budget`."""

from __future__ import annotations

from typing import Annotated

import msgspec
import sqlalchemy as sa
from msgspec import Meta

from workhook.core.money import to_amount
from workhook.http.calls import Call
from workhook.http.endpoints import Routes
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.storage import Reader
from workhook.storage.metadata import bigint_param
from workhook.work.kernel.access import find_access
from workhook.work.kernel.billing_settings import BudgetShape, budget_to_response, project_billing
from workhook.work.kernel.durations import signed_hours
from workhook.work.money.invoices.schemas import invoices
from workhook.work.time.timesheets import budgets
from workhook.work.time.timesheets.budgets import HoursOrMoney, TimeAndMoney
from workhook.work.time.timesheets.schemas import timesheets


class BudgetAnswer(msgspec.Struct):
    """`used`, `billed` and `left` are hours or money, like the budget itself; hours if the project has no budget."""

    budget: BudgetShape | None
    used: Annotated[float, Meta(ge=0, description="All finished billable time, on an invoice or not.")]
    billed: Annotated[float, Meta(ge=0, description="The part that is on issued invoices.")]
    left: Annotated[float, Meta(description="Negative if the budget is exceeded.")] | None
    percent: Annotated[int, Meta(ge=0, description="Percentage used, rounded down.")] | None
    success: bool = True


routes = Routes(WORK_API, "Timesheets")


@routes.get("/projects/{id}/budget", etag=False)
async def get_project_budget(call: Call, project_id: str) -> BudgetAnswer:
    """Get the budget of a project and how much of it is used.

    Only owners and members can call this. Set the budget with `PATCH /projects/{id}/billing`. A `project` event with
    the action `budget_reached` is sent when 80 % and 100 % of the budget are used.
    """
    access = await find_access(call.database, actor_of(call), project_id)
    access.require_not_client()
    standing, currency = await find_budget_usage(call.database, access.repository.id), access.repository.currency
    budget, whole = standing.budget, standing.budget.whole
    used, billed = budget.used_by(standing.used), budget.used_by(standing.billed)

    def shown(value: int) -> float:
        return signed_hours(value) if budget.minor is None else to_amount(value, currency)

    return BudgetAnswer(
        budget_to_response(budget.time_ms, budget.minor, currency),
        shown(used),
        shown(billed),
        None if whole is None else shown(whole - used),
        budget.percent(standing.used),
    )


class BudgetUsage(msgspec.Struct, frozen=True):
    budget: HoursOrMoney
    used: TimeAndMoney
    billed: TimeAndMoney


async def find_budget_usage(reader: Reader, repository_id: int) -> BudgetUsage:
    row = await reader.fetch_row(_standing, {"repository_id": repository_id})
    used, billed = (
        TimeAndMoney(int(row[f"{name}_ms"] or 0), int(row[f"{name}_minor"] or 0)) for name in ("used", "billed")
    )
    return BudgetUsage(HoursOrMoney(row["budget_ms"], row["budget_minor"]), used, billed)


# An outer join makes SQLite read the invoices first instead of all timesheets.
_claimed = (
    sa.select(*budgets.NEGATED)
    .join_from(
        invoices,
        timesheets,
        sa.and_(timesheets.c.invoice_id == invoices.c.id, timesheets.c.billable),
        isouter=True,
    )
    .where(invoices.c.repository_id == bigint_param("repository_id"), invoices.c.status == sa.literal_column("'draft'"))
)
# The time on invoices, without that on drafts.
_billed = budgets.summed("billed", lambda table: table.c.invoiced, less=_claimed).subquery("billed_sums")
_used = budgets.used.subquery("used_sums")
# One statement, for consistent sums.
_standing = (
    sa.select(_used, _billed, project_billing.c.budget_ms, project_billing.c.budget_minor)
    .select_from(_used.join(_billed, sa.true()))
    .outerjoin(project_billing, project_billing.c.repository_id == bigint_param("repository_id"))
)
