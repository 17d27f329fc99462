"""What changes of tasks and invoices tell people. Each is one statement that the commit takes along."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from workhook.identity.context import Write
from workhook.identity.notifications.telling import telling
from workhook.identity.schemas import Repository
from workhook.identity.tables import accounts, memberships, projects
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big
from workhook.work.board.tasks.schemas import Task, task_assignees, tasks
from workhook.work.people.clients.schemas import clients

_assigned = telling(
    "assignment",
    sa.select(accounts).where(any_of(accounts.c.id, "user_ids")),
    {"task_id": sa.bindparam("task_id", type_=sa.Text)},
)
_pair = task_assignees.c.task_id + ":" + sa.cast(task_assignees.c.user_id, sa.Text)
_assigned_in_bulk = telling(
    "assignment",
    sa.select(accounts)
    .select_from(
        task_assignees.join(accounts, accounts.c.id == task_assignees.c.user_id)
        .join(tasks, tasks.c.id == task_assignees.c.task_id)
        .join(projects, projects.c.repository_id == tasks.c.repository_id)
    )
    .where(any_of(task_assignees.c.task_id, "task_ids"), any_of(_pair, "pairs")),
    {
        "task_id": task_assignees.c.task_id,
        "repository_id": tasks.c.repository_id,
        "account_id": projects.c.account_id,
    },
)
# An invoice is the business of who owns the project, and of who is to pay it.
_concerned = sa.select(accounts).where(
    accounts.c.id.in_(
        sa.union_all(
            sa.select(big("account_id")),
            sa.select(memberships.c.user_id).where(
                memberships.c.organization_id == big("account_id"), memberships.c.role == "owner"
            ),
            sa.select(clients.c.user_id).where(clients.c.repository_id == big("repository_id")),
        )
    )
)
_invoice_id = sa.bindparam("invoice_id", type_=sa.Text)
_of_invoice = telling("invoice", _concerned, {"invoice_id": _invoice_id})
_of_payment = telling(
    "payment", _concerned, {"invoice_id": _invoice_id, "payment_id": sa.bindparam("payment_id", type_=sa.Text)}
)
TOLD_ACTIONS = frozenset({"sent", "voided", "credited"})
"""What is done with an invoice that people are told of, beside its payments."""


def tell_assigned(write: Write, repository: Repository, before: Task | None, after: Task) -> None:
    """Who was put on the task by somebody else. Its row, and those of its people, are written or deferred."""
    if user_ids := _newly_assigned(write, before, after):
        _assigned.defer(write.tx, {**_place(write, repository), "user_ids": user_ids, "task_id": after.id})


def tell_all_assigned(write: Write, changes: Sequence[tuple[Task | None, Task]]) -> None:
    """`tell_assigned` for many tasks, which are written with their people, also of several projects."""
    pairs = {
        f"{after.id}:{each}": after.id for before, after in changes for each in _newly_assigned(write, before, after)
    }
    if pairs:
        params = {"task_ids": sorted(set(pairs.values())), "pairs": sorted(pairs)}
        _assigned_in_bulk.defer(write.tx, {"actor_id": write.actor.user.id, "detail": None, "now": write.now, **params})


def tell_of_invoice(write: Write, repository: Repository, invoice_id: str, action: str) -> None:
    """That an invoice was `sent`, `voided` or `credited`."""
    _of_invoice.defer(write.tx, {**_place(write, repository), "invoice_id": invoice_id, "detail": action})


def tell_of_payment(write: Write, repository: Repository, invoice_id: str, payment_id: str) -> None:
    """That a payment or a refund was booked."""
    params = {"invoice_id": invoice_id, "payment_id": payment_id}
    _of_payment.defer(write.tx, {**_place(write, repository), **params})


def _newly_assigned(write: Write, before: Task | None, after: Task) -> list[int]:
    had = {person.id for person in before.assignees} if before else set()
    return sorted({person.id for person in after.assignees} - had - {write.actor.user.id})


def _place(write: Write, repository: Repository) -> dict[str, object]:
    return {
        "account_id": repository.owner.id,
        "repository_id": repository.id,
        "actor_id": write.caller.user.id if write.caller else None,
        "detail": None,
        "now": write.now,
    }
