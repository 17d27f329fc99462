"""Implementations of the late-bound functions in `kernel/questions.py`, from the packages that those must not import.

They are bound on the first call, so commands that never make such a call don't import every package.
"""

from __future__ import annotations

from workhook.identity.context import Write
from workhook.identity.schemas import Repository
from workhook.storage import Transaction
from workhook.work.kernel import questions
from workhook.work.kernel.questions import Ending
from workhook.work.money import issued
from workhook.work.money.checkouts.actions import lock_checkouts, pause_renewals
from workhook.work.time import shared_work
from workhook.work.time.timesheets import timers


def register() -> None:
    """Bind all implementations."""
    questions.require_project_unbilled.answered_by(issued.require_project_unbilled)
    questions.require_tasks_unbilled.answered_by(issued.require_tasks_unbilled)
    questions.require_own_tasks.answered_by(shared_work.require_none_on_tasks)
    questions.require_own_file.answered_by(shared_work.require_none_on_file)
    questions.require_not_logo.answered_by(issued.require_not_logo)
    questions.find_invoiced_conflict.answered_by(issued.find_conflict)
    questions.lock_for_ending.answered_by(_lock_for_ending)
    questions.tasks_completed.answered_by(timers.finish_running)
    questions.task_started.answered_by(timers.start_for)
    questions.tasks_deleted.answered_by(timers.tasks_end)


async def _lock_for_ending(tx: Transaction, project_id: str) -> Ending:
    """Lock the subscriptions of a project, and return a function that ends them and the project's timers."""
    subscriptions = await lock_checkouts(tx, project_id)

    async def end(write: Write, repository: Repository) -> None:
        await pause_renewals(write, subscriptions)
        await timers.project_ends(write, repository)

    return end
