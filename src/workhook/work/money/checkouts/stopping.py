"""Stop subscriptions that could no longer be changed: in a project that is archived or deleted, and in those of a
disabled user.

They are paused, so that no period begins meanwhile and none is billed afterwards. Somebody resumes them by hand. Such a
pause is not one of those that the service counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from workhook.identity.context import Write
from workhook.identity.removal import Loss
from workhook.identity.tables import projects
from workhook.storage import Transaction
from workhook.storage.metadata import big
from workhook.work.kernel.record_events import publish_event
from workhook.work.money.checkouts import billing, rules
from workhook.work.money.checkouts.schemas import Checkout, checkout_to_response, service_checkouts


def _locked(*where: sa.ColumnElement[bool]) -> sa.Select[Any]:
    return billing.with_project.where(*where).order_by(service_checkouts.c.id).with_for_update(of=service_checkouts)


_of_project = _locked(projects.c.id == sa.bindparam("project_id", type_=sa.Text))
_of_owner = _locked(projects.c.account_id == big("account_id"))


async def lock_checkouts(tx: Transaction, project_id: str) -> list[Checkout]:
    """Return the project's checkouts, pending ones too. Call it before the project is locked (decision 13)."""
    rows = await tx.fetch_all(_of_project, {"project_id": project_id, "user_id": 0})
    return [billing.checkout_of(row) for row in rows]


async def stop(write: Write, checkouts: Sequence[Checkout]) -> None:
    """Pause those whose next period would begin, with an event `paused` for each. They are locked."""
    for each in checkouts:
        state = rules.stop(each.state, write.now)
        if state != each.state:
            stopped = billing.changed(each, state, write.now)
            await billing.update_checkout(write.tx, stopped)
            record = checkout_to_response(stopped, write.now)
            await publish_event(write, stopped.repository, "service_checkout", "paused", record)


async def rights_lost(tx: Transaction, loss: Loss) -> None:
    """Stop the subscriptions in the projects of a disabled user; an `identity.removal.OnLoss`."""
    if loss.app_id is not None or loss.account_id is not None:
        return
    rows = await tx.fetch_all(_of_owner, {"account_id": loss.user_id, "user_id": 0})
    await stop(Write(tx, loss.actor, loss.base), [billing.checkout_of(row) for row in rows])
