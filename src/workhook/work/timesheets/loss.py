"""A timer ends with the right to stop it: it is finished, with its event, in the transaction that takes the right."""

from __future__ import annotations

from msgspec.structs import replace

from workhook.identity.context import Write
from workhook.identity.removal import Loss
from workhook.identity.schemas import Repository
from workhook.storage import Transaction
from workhook.work.timesheets import queries, rights, timers


async def rights_lost(tx: Transaction, loss: Loss) -> None:
    """An `identity.removal.OnLoss`. What an app may do less for its user takes nothing from the user."""
    if loss.app_id is not None:
        return
    if loss.account_id is not None:
        rows = await rights.lock_lost(tx, loss.account_id, loss.repository_id, loss.user_id)
    elif loss.user_id is not None:
        rows = await rights.lock_lost_everywhere(tx, loss.user_id)
    else:
        raise ValueError("a loss is of a place, of an app or of a user")
    running = queries.timesheets_of(rows, 0)
    await timers.finish(Write(tx, loss.actor, loss.base), running)


async def project_ends(write: Write, repository: Repository) -> None:
    """Call it once the project is deleted, and before that is told: its webhooks still hear of its timers.

    Deleting waits for whoever adds something to the project, and they may be about to start a timer: so the project is
    locked before the accounts.
    """
    rows = await rights.lock_all_running(write.tx, repository.owner.id, repository.id)
    running = [replace(each, repository_gone=False) for each in queries.timesheets_of(rows, 0)]
    # They run until now: deleting the project may have waited long for its locks.
    await timers.finish(Write(write.tx, write.caller, write.base), running)
