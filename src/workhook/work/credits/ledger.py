"""Appends entries to the ledgers of projects, with an event for each, and the chore that expires what is due.

Entries come one after the other: whoever appends holds the project's row.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from workhook.core import json
from workhook.core.errors import NotFound
from workhook.core.ids import new_id
from workhook.core.records import to_response
from workhook.http.calls import Services
from workhook.identity.context import Write
from workhook.identity.queries import find_repository_by_id
from workhook.identity.schemas import Actor, Repository
from workhook.storage.sweeping import for_each_isolated
from workhook.work.credits import queries, rules
from workhook.work.credits.queries import Position
from workhook.work.credits.rules import LedgerStep
from workhook.work.credits.schemas import CreditTaskShape, TaskCredit
from workhook.work.people import person_shape
from workhook.work.record_events import publish_event

LEDGERS_AT_ONCE = 100

_ACTIONS = {"grant": "granted", "spend": "spent", "expire": "expired", "reversal": "reversed"}


class EntryDetails(msgspec.Struct, frozen=True):
    """What an entry says beside the amounts. `caller` is None where Workhook makes it by itself."""

    caller: Actor | None = None
    notes: str | None = None
    task: CreditTaskShape | None = None
    reverses_id: str | None = None
    reverses_at: int = 0  # when that was changed last


class LedgerWriter(msgspec.Struct, frozen=True):
    """Appends to the ledger of a project, whose row the transaction holds."""

    write: Write
    repository: Repository

    async def grant(self, amount_minor: int, notes: str | None) -> str:
        """Append a grant, which does not expire, of `amount_minor` hundredths of a credit; returns the entry's id."""
        position, _ = await self.expire_due()
        return (await self.append_grant(position, EntryDetails(self.write.caller, notes), amount_minor)).id

    async def append_grant(
        self, position: Position, details: EntryDetails, amount_minor: int, expires_at: int | None = None
    ) -> TaskCredit:
        """`position` is what `expire_due` returned."""
        balance = position.balance_minor + amount_minor
        return await self.append(
            position.last_id, LedgerStep("grant", amount_minor, balance, expires_at=expires_at), details
        )

    async def expire_due(self, *, enough_minor: int = 0) -> tuple[Position, int]:
        """Append what has expired by now; returns the position after it, and how many entries that took.

        The position has no lot that is due, and so many of the others that they hold `enough_minor`, if all do.
        """
        now = self.write.now
        found = await queries.position(self.write.tx, self.repository.id, now, enough_minor=enough_minor)
        steps = rules.expire(found.balance_minor, found.lots, now)
        last_id = await self.append_all(found.last_id, [(step, EntryDetails()) for step in steps])
        balance = steps[-1].balance_after_minor if steps else found.balance_minor
        left = tuple(each for each in found.lots if not each.is_due(now))
        return Position(last_id, balance, left), len(steps)

    async def append_all(self, last_id: str, entries: Sequence[tuple[LedgerStep, EntryDetails]]) -> str:
        """Append one entry after the other, behind `last_id`; returns the id of the last."""
        for step, details in entries:
            last_id = (await self.append(last_id, step, details)).id
        return last_id

    async def append(self, last_id: str, step: LedgerStep, details: EntryDetails) -> TaskCredit:
        """Append one entry behind `last_id`, change the lots that it changes, and publish its event."""
        tx, now = self.write.tx, self.write.now
        entry = TaskCredit(
            id=rules.id_after(last_id, new_id("crd")),
            kind=step.kind,
            amount_minor=step.amount_minor,
            balance_after_minor=step.balance_after_minor,
            task=details.task,
            notes=details.notes,
            user=person_shape(details.caller.user) if details.caller else None,
            reversed=False,
            reverses_id=details.reverses_id,
            expires_at=step.expires_at,
            created_at=now,
            updated_at=now,
            remaining_minor=step.amount_minor if step.kind == "grant" else 0,
            uses=json.encode_text(step.uses),
        )
        await queries.insert_entry(tx, self.repository.id, entry)
        changed_at = max(now, details.reverses_at + 1)
        await queries.change_entries(tx, step.lots, reversed_id=details.reverses_id, changed_at=changed_at)
        write = self.write if details.caller else self.write.by_itself()
        await publish_event(write, self.repository, "task_credit", _ACTIONS[step.kind], to_response(entry))
        return entry


async def lock_ledger(write: Write, repository: Repository) -> LedgerWriter:
    """Lock the project's row. Who writes anything else into the project in the same transaction does so after this: a
    row that refers to the project shares its lock, and two who share one cannot both go on to hold it alone.

    Raises `NotFound` for a project that was deleted.
    """
    if not await queries.lock_ledger(write.tx, repository.id):
        raise NotFound()
    return LedgerWriter(write, repository)


async def expire_credits(services: Services, now: int) -> int:
    """The chore: take away what has expired; returns how many grants lost what was left of them.

    Each ledger has a transaction of its own that holds the project's row, so several processes may be at it; one that
    fails keeps no other waiting. Raises `Unavailable`.
    """

    async def expire(repository_id: int) -> int:
        return await services.database.in_transaction(
            lambda tx: _expire_ledger(Write(tx, None, services.base, moment=now), repository_id)
        )

    done, after = 0, 0
    while True:
        overdue = await queries.overdue_ledgers(services.database, now, after, LEDGERS_AT_ONCE)
        done += await for_each_isolated("expired_task_credits", overdue, expire)
        if len(overdue) < LEDGERS_AT_ONCE:
            return done
        after = overdue[-1]


async def _expire_ledger(write: Write, repository_id: int) -> int:
    if not await queries.lock_ledger(write.tx, repository_id):
        return 0
    repository = await find_repository_by_id(write.tx, repository_id)
    assert repository is not None, "its row is held"
    _, count = await LedgerWriter(write, repository).expire_due()
    return count
