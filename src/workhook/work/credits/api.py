"""`/projects/{id}/task_credits`, `/task_credits`."""

from __future__ import annotations

from workhook.core.clock import now_ms, to_millis_text
from workhook.core.records import to_response
from workhook.http import conditions, lists, parameters
from workhook.http.calls import Answer, Call
from workhook.http.lists import ListQuery
from workhook.http.operations import AREA_A, Operation
from workhook.http.values import to_amount
from workhook.identity.guard import actor_of
from workhook.storage import Transaction
from workhook.work.announce import base_of
from workhook.work.credits import actions, queries
from workhook.work.credits.schemas import (
    TaskCreditAnswer,
    TaskCreditBalance,
    TaskCreditCreate,
    TaskCreditsAnswer,
)
from workhook.work.schemas import Done

TAG = "Task Credits"


async def list_task_credits(call: Call) -> Answer:
    query = parameters.read_query(call, ListQuery)
    key = lists.after(query, tuple[str])
    repository_id = await actions.look_into(call.database, actor_of(call), call.path("id"))
    after = key[0] if key else None
    found = await queries.list_entries(call.database, repository_id, after=after, limit=query.limit + 1)
    entries, headers = lists.page(call, found, query, lambda entry: (entry.id,))
    return Answer(TaskCreditsAnswer([to_response(each) for each in entries]), headers=headers)


async def create_task_credit(call: Call) -> Answer:
    wanted = await parameters.read(call, TaskCreditCreate)

    async def change(tx: Transaction) -> Answer:
        made = await actions.create(tx, actor_of(call), call.path("id"), wanted, base=base_of(call))
        return Answer(TaskCreditAnswer(to_response(made)))

    return await call.write(change)


async def get_balance(call: Call) -> Answer:
    repository_id = await actions.look_into(call.database, actor_of(call), call.path("id"))
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


async def reverse_task_credit(call: Call) -> Answer:
    async def change(tx: Transaction) -> Answer:
        taken = await actions.take(tx, actor_of(call), call.path("task_credit_id"))
        conditions.require_match(call, TaskCreditAnswer(to_response(taken.entry)))
        await actions.reverse(tx, actor_of(call), taken, base=base_of(call))
        return Answer(Done())

    return await call.write(change)


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        AREA_A,
        "GET",
        "/projects/{id}/task_credits",
        list_task_credits,
        "list_task_credits",
        "List the entries of a project's ledger of credits",
        "work.read",
        tag=TAG,
        query=parameters.documented(ListQuery),
        answers={200: TaskCreditsAnswer},
        problems=(404, 422),
    ),
    Operation(
        AREA_A,
        "POST",
        "/projects/{id}/task_credits",
        create_task_credit,
        "create_task_credit",
        "Grant credits, or spend some on a task",
        "work.write",
        tag=TAG,
        body=TaskCreditCreate,
        query=parameters.documented(TaskCreditCreate, or_body=True),
        answers={200: TaskCreditAnswer},
        problems=(400, 403, 404, 409, 413, 415, 422),
        description="The oldest grant is spent first. More than the balance is refused with `insufficient_credits`.",
    ),
    Operation(
        AREA_A,
        "GET",
        "/projects/{id}/task_credits/balance",
        get_balance,
        "get_task_credit_balance",
        "Get a project's balance of credits",
        "work.read",
        tag=TAG,
        answers={200: TaskCreditBalance},
        problems=(404,),
    ),
    Operation(
        AREA_A,
        "DELETE",
        "/task_credits/{task_credit_id}",
        reverse_task_credit,
        "delete_task_credit",
        "Reverse a spend, or a grant that was not used",
        "work.write",
        tag=TAG,
        answers={200: Done},
        problems=(403, 404, 409, 412),
        description="The entry stays; one that undoes it is appended. What goes back to a grant that has expired "
        "meanwhile expires at once.",
    ),
)
