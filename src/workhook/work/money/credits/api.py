"""Task credits: `/projects/{id}/task_credits` and `/task_credits`, for owners and members. Clients get 404."""

from __future__ import annotations

from workhook.core.clock import now_ms, to_millis_text
from workhook.core.money import to_hundredths
from workhook.core.records import to_response
from workhook.http.calls import Call
from workhook.http.endpoints import Listed, Routes
from workhook.http.lists import ListQuery
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.work.kernel.access import find_access
from workhook.work.kernel.lists import cursor_of, read_for
from workhook.work.kernel.scopes import source_of_project
from workhook.work.money.credits import ledger
from workhook.work.money.credits.schemas import TaskCreditBalance, TaskCreditsAnswer

routes = Routes(WORK_API, "Task Credits", read="work.read", write="work.write")


@routes.get("/projects/{id}/task_credits")
async def list_task_credits(call: Call, project_id: str, query: ListQuery) -> Listed[TaskCreditsAnswer]:
    """List the entries of a project's credit ledger."""
    after = cursor_of(query)
    access = await find_access(call.database, actor_of(call), project_id)
    access.require_not_client()
    entries, headers = await read_for(call, ledger.ENTRIES, source_of_project(access), query, after)
    return Listed(TaskCreditsAnswer([to_response(each) for each in entries]), headers)


routes.post("/projects/{id}/task_credits")(ledger.create_task_credit)


@routes.get("/projects/{id}/task_credits/balance")
async def get_task_credit_balance(call: Call, project_id: str) -> TaskCreditBalance:
    """Get the credit balance of a project."""
    access = await find_access(call.database, actor_of(call), project_id)
    access.require_not_client()
    found = await ledger.find_balance(call.database, access.repository.id, now_ms())
    next_ms = found.expires_next
    return TaskCreditBalance(
        balance=to_hundredths(found.balance_minor),
        granted=to_hundredths(found.granted_minor),
        used=to_hundredths(found.used_minor),
        expires_next=None if next_ms is None else to_millis_text(next_ms),
    )


routes.delete("/task_credits/{task_credit_id}")(ledger.delete_task_credit)
