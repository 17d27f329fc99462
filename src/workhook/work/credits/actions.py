"""Granting, spending and reversing: for owners and members. Credits do not exist for clients."""

from __future__ import annotations

import msgspec
from msgspec import UnsetType

from workhook.core.errors import Conflict, Fault, Invalid
from workhook.http.wire_types import AMOUNT_MAX_MINOR, to_amount
from workhook.identity.context import Write
from workhook.identity.schemas import Actor
from workhook.storage import Reader, Row, Transaction
from workhook.work.access import Access, access_of, find_access
from workhook.work.credits import queries, rules
from workhook.work.credits.ledger import Pen, Words, settle, write, write_all, write_grant
from workhook.work.credits.schemas import CreditTaskShape, TaskCredit, TaskCreditCreate, faults_of


async def look_into(reader: Reader, actor: Actor, project_id: str) -> int:
    """The repository whose ledger the caller may read. Raises `NotFound`."""
    access = await find_access(reader, actor, project_id)
    access.hide_from_clients()
    return access.repository.id


async def create(write: Write, project_id: str, wanted: TaskCreditCreate) -> TaskCredit:
    """Grant or spend. Raises `NotFound`, `Forbidden`, `Invalid`, and `Conflict` if the project is archived or there is
    not enough to spend."""
    task_id = wanted.task_id or None
    row = await queries.lock_project(write.tx, project_id, write.actor.user.id, task_id)
    access = _writer(row, write.actor)
    assert row is not None, "access_of refuses none"
    faults = faults_of(wanted, write.now)
    if wanted.kind == "spend" and task_id and row["task_title"] is None:
        faults.append(Fault(field="task_id", message="task_id: the project has no such task"))
    if faults:
        raise Invalid(faults=faults)
    pen = Pen(write, access.repository)
    words = Words(write.actor, wanted.notes or None, CreditTaskShape(task_id, row["task_title"]) if task_id else None)
    if wanted.kind == "grant":
        return await _grant(pen, words, wanted)
    return await _spend(pen, words, wanted.amount)


async def _grant(pen: Pen, words: Words, wanted: TaskCreditCreate) -> TaskCredit:
    position = await settle(pen)
    if position.balance_minor + wanted.amount > AMOUNT_MAX_MINOR:
        message = f"amount must leave the balance at {AMOUNT_MAX_MINOR // 100} or less"
        raise Invalid(faults=[Fault(field="amount", message=message)])
    expires_at = None if isinstance(wanted.expires_at, UnsetType) else wanted.expires_at
    return await write_grant(pen, position, words, wanted.amount, expires_at)


async def _spend(pen: Pen, words: Words, amount_minor: int) -> TaskCredit:
    position = await settle(pen, enough_minor=amount_minor)
    step = rules.spend(position.balance_minor, position.lots, amount_minor)
    if step is None:
        have, want = to_amount(position.balance_minor), to_amount(amount_minor)
        raise Conflict(f"The balance is {have}; {want} cannot be spent.", code="insufficient_credits")
    return await write(pen, position.last_id, step, words)


class Taken(msgspec.Struct, frozen=True):
    """An entry whose ledger nobody else changes until the transaction ends."""

    access: Access
    entry: TaskCredit
    position: queries.Position


async def take(tx: Transaction, actor: Actor, entry_id: str) -> Taken:
    """For reversing it. Raises `NotFound`, `Forbidden`, `Conflict` if the project is archived."""
    row = await queries.lock_entry(tx, entry_id, actor.user.id)
    access = _writer(row, actor)
    assert row is not None, "access_of refuses none"
    entry = queries.entry_of(row)
    lot_ids = [use.grant_id for use in queries.uses_of(entry)]
    # What the lock returned is of before it was waited for.
    position, fresh = await queries.position_of(tx, access.repository.id, entry_id, lot_ids)
    entry = msgspec.structs.replace(entry, reversed=bool(fresh["reversed"]), updated_at=fresh["updated_at"])
    return Taken(access, entry, position)


async def reverse(write: Write, taken: Taken) -> None:
    """Undo a spend, or a grant of which nothing was spent. What is reversed already stays so, without an event.

    Raises `Conflict` for a grant that was used, and for what cannot be undone.
    """
    entry, now = taken.entry, write.now
    if entry.reversed:
        return
    if entry.kind not in ("grant", "spend"):
        raise Conflict("Only grants and spends can be reversed.", code="not_reversible")
    lots = {each.id: each for each in taken.position.lots}
    balance = taken.position.balance_minor
    if entry.kind == "grant":
        steps = _taken_back(balance, lots[entry.id], now)
    else:
        steps = rules.reverse_spend(balance, queries.uses_of(entry), lots.values(), write.now)
    first = Words(write.actor, task=entry.task, reverses_id=entry.id, reverses_at=entry.updated_at)
    pen = Pen(write, taken.access.repository)
    await write_all(pen, taken.position.last_id, [(step, Words() if n else first) for n, step in enumerate(steps)])


def _taken_back(balance_minor: int, lot: rules.Lot, now: int) -> list[rules.Step]:
    step = None if lot.is_due(now) else rules.reverse_grant(balance_minor, lot)
    if step is None:
        raise Conflict("Some of this grant was spent or has expired.", code="credit_used")
    return [step]


def _writer(row: Row | None, actor: Actor) -> Access:
    access = access_of(row, actor)
    access.hide_from_clients()
    access.require_writable()
    return access
