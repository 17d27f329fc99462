"""What later rooms answer to the questions of earlier ones (`kernel/questions.py`).

The rooms are imported when they are first asked: commands that ask nothing need not wait for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from workhook.core.errors import Conflict
from workhook.identity.context import Write
from workhook.identity.schemas import Repository
from workhook.storage import Reader, Transaction
from workhook.work.kernel import questions
from workhook.work.kernel.access import Access
from workhook.work.kernel.questions import Ending


def register() -> None:
    """Register the answers. Call it before anything of `work` is changed."""
    questions.require_project_unbilled.answered_by(_require_project_unbilled)
    questions.require_tasks_unbilled.answered_by(_require_tasks_unbilled)
    questions.require_own_tasks.answered_by(_require_own_tasks)
    questions.require_own_file.answered_by(_require_own_file)
    questions.require_not_logo.answered_by(_require_not_logo)
    questions.find_invoiced_conflict.answered_by(_find_invoiced_conflict)
    questions.lock_for_ending.answered_by(_lock_for_ending)
    questions.tasks_completed.answered_by(_tasks_completed)
    questions.task_started.answered_by(_task_started)
    questions.tasks_deleted.answered_by(_tasks_deleted)


async def _require_project_unbilled(tx: Transaction, repository_id: int) -> None:
    from workhook.work.money import issued

    await issued.require_none_of_project(tx, repository_id)


async def _require_tasks_unbilled(tx: Transaction, names: Mapping[str, str]) -> None:
    from workhook.work.money import issued

    await issued.require_none_of_tasks(tx, names)


async def _require_own_tasks(tx: Transaction, access: Access, names: Mapping[str, str]) -> None:
    from workhook.work.time import worked_on

    await worked_on.require_none_on_tasks(tx, access, names)


async def _require_own_file(tx: Transaction, access: Access, file_id: str) -> None:
    from workhook.work.time import worked_on

    await worked_on.require_none_on_file(tx, access, file_id)


async def _require_not_logo(
    tx: Transaction, repository_id: int, file_id: str, verb: Literal["deleted", "made private"]
) -> None:
    from workhook.work.money import issued

    await issued.require_not_logo(tx, repository_id, file_id, verb)


async def _find_invoiced_conflict(reader: Reader, invoice_id: str, verb: Literal["changed", "deleted"]) -> Conflict:
    from workhook.work.money import issued

    return await issued.find_conflict(reader, invoice_id, verb)


async def _lock_for_ending(tx: Transaction, project_id: str) -> Ending:
    from workhook.work.money.checkouts.billing import lock_checkouts, stop
    from workhook.work.time.timesheets import timers

    subscriptions = await lock_checkouts(tx, project_id)

    async def end(write: Write, repository: Repository) -> None:
        await stop(write, subscriptions)
        await timers.project_ends(write, repository)

    return end


async def _tasks_completed(write: Write, access: Access, task_ids: Sequence[str]) -> None:
    from workhook.work.time.timesheets import timers

    await timers.finish_running(write, access, task_ids)


async def _task_started(write: Write, access: Access, task_id: str) -> None:
    from workhook.work.time.timesheets import timers

    await timers.start_for(write, access, task_id)


async def _tasks_deleted(write: Write, task_ids: Sequence[str]) -> None:
    from workhook.work.time.timesheets import timers

    await timers.tasks_end(write, task_ids)
