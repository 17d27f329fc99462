"""Appends to the ledger of a project, and announces what was appended.

Entries come one after the other: whoever appends holds the project's row.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from workhook.core import json
from workhook.core.errors import NotFound
from workhook.core.ids import new_id
from workhook.core.records import to_response
from workhook.identity.context import Write
from workhook.identity.schemas import Actor, Repository
from workhook.work.credits import queries, rules
from workhook.work.credits.queries import Position
from workhook.work.credits.rules import Step
from workhook.work.credits.schemas import CreditTaskShape, TaskCredit
from workhook.work.people import person_shape
from workhook.work.record_events import publish_event

_ACTIONS = {"grant": "granted", "spend": "spent", "expire": "expired", "reversal": "reversed"}


class Words(msgspec.Struct, frozen=True):
    """What an entry says beside the amounts."""

    actor: Actor | None = None
    notes: str | None = None
    task: CreditTaskShape | None = None
    reverses_id: str | None = None
    reverses_at: int = 0  # when that was changed last


class Pen(msgspec.Struct, frozen=True):
    """What every entry of one transaction shares. The project's row is held."""

    context: Write
    repository: Repository


async def take(write: Write, repository: Repository) -> Pen:
    """Lock the project's row. Who writes anything else into the project in the same transaction does so after this: a
    row that refers to the project shares its lock, and two who share one cannot both go on to hold it alone.

    Raises `NotFound` for a project that was deleted.
    """
    if not await queries.lock_ledger(write.tx, repository.id):
        raise NotFound()
    return Pen(write, repository)


async def grant(pen: Pen, *, amount_minor: int, notes: str | None, expires_at: int | None) -> str:
    """Append a grant of `amount_minor` hundredths of a credit; the entry's id. Announces `task_credit granted`, and
    `expired` for what had run out before."""
    return (await write_grant(pen, await settle(pen), Words(pen.context.caller, notes), amount_minor, expires_at)).id


async def write_grant(
    pen: Pen, position: Position, words: Words, amount_minor: int, expires_at: int | None
) -> TaskCredit:
    """Behind `position`, which is settled."""
    step = Step("grant", amount_minor, position.balance_minor + amount_minor, expires_at=expires_at)
    return await write(pen, position.last_id, step, words)


async def settle(pen: Pen, *, enough_minor: int = 0) -> Position:
    """Append what has expired by now. The position after it has no lot that is due, and so many of the others that
    they hold `enough_minor`, if all together do."""
    return (await expire(pen, enough_minor=enough_minor))[0]


async def expire(pen: Pen, *, enough_minor: int = 0) -> tuple[Position, int]:
    """`settle`, and how many entries that took."""
    found = await queries.position(pen.context.tx, pen.repository.id, pen.context.now, enough_minor=enough_minor)
    steps = rules.expire(found.balance_minor, found.lots, pen.context.now)
    last_id = await write_all(pen, found.last_id, [(step, Words()) for step in steps])
    balance = steps[-1].balance_after_minor if steps else found.balance_minor
    left = tuple(each for each in found.lots if not each.is_due(pen.context.now))
    return Position(last_id, balance, left), len(steps)


async def write_all(pen: Pen, last_id: str, entries: Sequence[tuple[Step, Words]]) -> str:
    """One after the other, behind `last_id`. The id of the last."""
    for step, words in entries:
        last_id = (await write(pen, last_id, step, words)).id
    return last_id


async def write(pen: Pen, last_id: str, step: Step, words: Words) -> TaskCredit:
    """Append one entry behind `last_id`, change the lots that it changes, and announce it."""
    user = words.actor.user if words.actor else None
    entry = TaskCredit(
        id=rules.id_after(last_id, new_id("crd")),
        kind=step.kind,
        amount_minor=step.amount_minor,
        balance_after_minor=step.balance_after_minor,
        task=words.task,
        notes=words.notes,
        user=person_shape(user) if user else None,
        reversed=False,
        reverses_id=words.reverses_id,
        expires_at=step.expires_at,
        created_at=pen.context.now,
        updated_at=pen.context.now,
        remaining_minor=step.amount_minor if step.kind == "grant" else 0,
        uses=json.encode_text(step.uses),
    )
    await queries.insert_entry(pen.context.tx, pen.repository.id, entry)
    await queries.change_entries(
        pen.context.tx, step.lots, reversed_id=words.reverses_id, changed_at=max(pen.context.now, words.reverses_at + 1)
    )
    action = _ACTIONS[step.kind]
    context = pen.context if words.actor else pen.context.by_itself()
    await publish_event(context, pen.repository, "task_credit", action, to_response(entry))
    return entry
