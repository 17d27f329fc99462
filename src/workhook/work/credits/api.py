"""`/projects/{id}/task_credits`, `/task_credits`."""

from __future__ import annotations

from workhook.core.clock import now_ms, to_millis_text
from workhook.core.records import to_response
from workhook.http import lists
from workhook.http.calls import Answer, Call
from workhook.http.endpoints import Listed, Routes
from workhook.http.lists import ListQuery
from workhook.http.operations import WORK_API
from workhook.http.wire_types import to_amount
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.work.credits import actions, queries
from workhook.work.credits.schemas import (
    TaskCreditAnswer,
    TaskCreditBalance,
    TaskCreditCreate,
    TaskCreditsAnswer,
)
from workhook.work.schemas import Done

routes = Routes(WORK_API, "Task Credits", read="work.read", write="work.write")


@routes.get("/projects/{id}/task_credits")
async def list_task_credits(call: Call, project_id: str, query: ListQuery) -> Listed[TaskCreditsAnswer]:
    """List the entries of a project's ledger of credits."""
    key = lists.after(query, tuple[str])
    repository_id = await actions.look_into(call.database, actor_of(call), project_id)
    after = key[0] if key else None
    found = await queries.list_entries(call.database, repository_id, after=after, limit=query.limit + 1)
    entries, headers = lists.page(call, found, query, lambda entry: (entry.id,))
    return Listed(TaskCreditsAnswer([to_response(each) for each in entries]), headers)


@routes.post("/projects/{id}/task_credits")
async def create_task_credit(write: Write, project_id: str, wanted: TaskCreditCreate) -> TaskCreditAnswer:
    """Grant credits, or spend some on a task.

    The oldest grant is spent first. More than the balance is refused with `insufficient_credits`.
    """
    made = await actions.create(write, project_id, wanted)
    return TaskCreditAnswer(to_response(made))


@routes.get("/projects/{id}/task_credits/balance", answers={200: TaskCreditBalance})
async def get_task_credit_balance(call: Call, project_id: str) -> Answer:
    """Get a project's balance of credits."""
    repository_id = await actions.look_into(call.database, actor_of(call), project_id)
    row = await queries.balance(call.database, repository_id, now_ms())
    next_ms = row["expires_next"]
    return Answer(
        TaskCreditBalance(
            balance=to_amount(row["balance_minor"]),
            granted=to_amount(row["granted_minor"]),
            used=to_amount(row["used_minor"]),
            expires_next=None if next_ms is None else to_millis_text(next_ms),
        )
    )


@routes.delete("/task_credits/{task_credit_id}")
async def delete_task_credit(write: Write, task_credit_id: str) -> Done:
    """Reverse a spend, or a grant that was not used.

    The entry stays; one that undoes it is appended. What goes back to a grant that has expired meanwhile expires at
    once.
    """
    taken = await actions.take(write.tx, write.actor, task_credit_id)
    write.require_match(TaskCreditAnswer(to_response(taken.entry)))
    await actions.reverse(write, taken)
    return Done()
