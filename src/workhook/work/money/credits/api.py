"""`/projects/{id}/task_credits`, `/task_credits`: for owners and members. Credits do not exist for clients."""

from __future__ import annotations

import msgspec
from msgspec import UnsetType

from workhook.core.clock import now_ms, to_millis_text
from workhook.core.errors import Conflict, Fault, Invalid
from workhook.core.money import AMOUNT_MAX_MINOR, HUNDREDTHS_MAX, to_hundredths
from workhook.core.records import to_response
from workhook.http import lists
from workhook.http.calls import Call
from workhook.http.endpoints import Listed, Routes
from workhook.http.lists import ListQuery
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.work.kernel.access import Access, find_access, find_with_access
from workhook.work.kernel.schemas import Done
from workhook.work.money.credits import ledger, rules
from workhook.work.money.credits.ledger import EntryDetails, LedgerWriter
from workhook.work.money.credits.schemas import (
    CreditTaskShape,
    TaskCredit,
    TaskCreditAnswer,
    TaskCreditBalance,
    TaskCreditCreate,
    TaskCreditsAnswer,
    faults_of,
)

routes = Routes(WORK_API, "Task Credits", read="work.read", write="work.write")


@routes.get("/projects/{id}/task_credits")
async def list_task_credits(call: Call, project_id: str, query: ListQuery) -> Listed[TaskCreditsAnswer]:
    """List the entries of a project's ledger of credits."""
    key = lists.after(query, tuple[str])
    access = await find_access(call.database, actor_of(call), project_id)
    access.hide_from_clients()
    after = key[0] if key else None
    found = await ledger.list_entries(call.database, access.repository.id, after=after, limit=query.limit + 1)
    entries, headers = lists.page(call, found, query, lambda entry: (entry.id,))
    return Listed(TaskCreditsAnswer([to_response(each) for each in entries]), headers)


@routes.post("/projects/{id}/task_credits")
async def create_task_credit(write: Write, project_id: str, wanted: TaskCreditCreate) -> TaskCreditAnswer:
    """Grant credits, or spend some on a task.

    The oldest grant is spent first. A spend above the balance is refused with `insufficient_credits`.
    """
    task_id = wanted.task_id or None
    row, access = await find_with_access(
        write.tx, ledger.project_locked, write.actor, project_id=project_id, task_id=task_id
    )
    _require_writable(access)
    faults = faults_of(wanted, write.now)
    if wanted.kind == "spend" and task_id and row["task_title"] is None:
        faults.append(Fault(field="task_id", message="task_id: the project has no such task"))
    if faults:
        raise Invalid(faults=faults)
    task = CreditTaskShape(task_id, row["task_title"]) if task_id else None
    details = EntryDetails(write.actor, wanted.notes or None, task)
    change = _grant if wanted.kind == "grant" else _spend
    return TaskCreditAnswer(to_response(await change(LedgerWriter(write, access.repository), details, wanted)))


async def _grant(writer: LedgerWriter, details: EntryDetails, wanted: TaskCreditCreate) -> TaskCredit:
    position, _ = await writer.expire_due()
    if position.balance_minor + wanted.amount > AMOUNT_MAX_MINOR:
        message = f"amount must leave the balance at {HUNDREDTHS_MAX} or less"
        raise Invalid(faults=[Fault(field="amount", message=message)])
    expires_at = None if isinstance(wanted.expires_at, UnsetType) else wanted.expires_at
    return await writer.append_grant(position, details, wanted.amount, expires_at)


async def _spend(writer: LedgerWriter, details: EntryDetails, wanted: TaskCreditCreate) -> TaskCredit:
    position, _ = await writer.expire_due(enough_minor=wanted.amount)
    step = rules.spend(position.balance_minor, position.lots, wanted.amount)
    if step is None:
        have, want = to_hundredths(position.balance_minor), to_hundredths(wanted.amount)
        raise Conflict(f"The balance is {have}; {want} cannot be spent.", code="insufficient_credits")
    return await writer.append(position.last_id, step, details)


@routes.get("/projects/{id}/task_credits/balance")
async def get_task_credit_balance(call: Call, project_id: str) -> TaskCreditBalance:
    """Get a project's balance of credits."""
    access = await find_access(call.database, actor_of(call), project_id)
    access.hide_from_clients()
    found = await ledger.find_balance(call.database, access.repository.id, now_ms())
    next_ms = found.expires_next
    return TaskCreditBalance(
        balance=to_hundredths(found.balance_minor),
        granted=to_hundredths(found.granted_minor),
        used=to_hundredths(found.used_minor),
        expires_next=None if next_ms is None else to_millis_text(next_ms),
    )


@routes.delete("/task_credits/{task_credit_id}")
async def delete_task_credit(write: Write, task_credit_id: str) -> Done:
    """Reverse a spend, or a grant that was not used.

    The entry stays; another one that undoes it is appended. Credits that go back to a grant that has expired meanwhile
    expire at once.
    """
    row, access = await find_with_access(write.tx, ledger.entry_locked, write.actor, id=task_credit_id)
    _require_writable(access)
    entry = ledger.entry_of(row)
    uses = ledger.uses_of(entry)
    # The locked row may be older than the wait for its lock, so read what changes again.
    grant_ids = [each.grant_id for each in uses]
    position, fresh = await ledger.position_of(write.tx, access.repository.id, entry.id, grant_ids)
    entry = msgspec.structs.replace(entry, reversed=bool(fresh["reversed"]), updated_at=fresh["updated_at"])
    write.require_match(TaskCreditAnswer(to_response(entry)))
    if entry.reversed:
        return Done()
    if entry.kind not in ("grant", "spend"):
        raise Conflict("Only grants and spends can be reversed.", code="not_reversible")
    if entry.kind == "grant":
        steps = _reverse_grant(position, entry.id, write.now)
    else:
        steps = rules.reverse_spend(position.balance_minor, uses, position.lots, write.now)
    first = EntryDetails(write.actor, task=entry.task, reverses_id=entry.id, reverses_at=entry.updated_at)
    entries = [(step, EntryDetails() if number else first) for number, step in enumerate(steps)]
    await LedgerWriter(write, access.repository).append_all(position.last_id, entries)
    return Done()


def _reverse_grant(position: ledger.Position, entry_id: str, now: int) -> list[rules.LedgerStep]:
    lot = next(each for each in position.lots if each.id == entry_id)
    step = None if lot.is_due(now) else rules.reverse_grant(position.balance_minor, lot)
    if step is None:
        raise Conflict("Some of this grant was spent or has expired.", code="credit_used")
    return [step]


def _require_writable(access: Access) -> None:
    """Raises `NotFound`, `Forbidden`, and `Conflict` if the project is archived."""
    access.hide_from_clients()
    access.require_writable()
