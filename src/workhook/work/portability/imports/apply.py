"""Execution of a plan in batches of tasks, one transaction each.

Every created record publishes an event, as if it had been created through the API. Each record is linked to its
original in the same commit, so an interrupted import can be resumed. Dependencies are written as edits once all tasks
exist.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from functools import partial

import msgspec

from workhook.core.errors import Conflict, Invalid, Message, NotFound, Number, phrase, say, shown
from workhook.identity.context import Write
from workhook.identity.schemas import Repository
from workhook.storage import Database, Transaction
from workhook.work.board.projects.actions import add_project, lock_names
from workhook.work.board.projects.schemas import ProjectCreate
from workhook.work.board.tasks.actions import edit_task, lock_task
from workhook.work.board.tasks.inputs import TaskEdit
from workhook.work.kernel.access import Access, find_access
from workhook.work.portability.imports.diff import (
    Counts,
    Dependency,
    Remaining,
    batches_of,
    insert_link,
    remaining_of,
    sum_batches,
)
from workhook.work.portability.imports.people import UnmatchedPerson, strangers_of, unknown_people
from workhook.work.portability.imports.plan import Lost, PlannedField, name_some
from workhook.work.portability.imports.writer import BatchWriter, Import, Progress

BATCH = 250
"""Tasks and comments per transaction, small enough for other writers to get a turn."""
SQLITE_PAUSE_S = 0.12
"""The pause between batches on SQLite, where waiting writers retry every tenth of a second."""


class CreatedCounts(msgspec.Struct, frozen=True):
    """The number of created records of each kind. `labels` is the number of distinct labels on the new tasks."""

    projects: int
    columns: int
    tasks: int
    comments: int
    labels: int


class ImportedColumn(msgspec.Struct, frozen=True):
    title: str
    finished: bool


class Imported(msgspec.Struct, frozen=True):
    """The result of an import.

    `skipped` counts records that already existed, `changed` those tasks among them that have since changed in the other
    service. `unmatched` lists people on new records who have no account here.
    """

    title: str
    project_id: str | None
    repository: str | None
    created: CreatedCounts
    skipped: Counts
    changed: int
    warnings: list[str]
    lost: list[Lost]
    columns: list[ImportedColumn]
    fields: list[PlannedField]
    unmatched: list[UnmatchedPerson]


async def preview(database: Database, task_import: Import) -> Imported:
    """Return the result that `import_plan` would have now."""
    rest = await remaining_of(database, task_import.organization, task_import.plan, task_import.actor.user.id)
    return await asyncio.to_thread(_summary, task_import, rest, rest.repository)


async def import_plan(database: Database, task_import: Import, progress: Progress) -> Imported:
    """Write the records of the plan that do not exist yet.

    The project and its columns are created with the first tasks, dependencies at the end. After an error, the records
    written so far remain, and repeating the import writes the rest.

    Raises `Forbidden`, `Conflict` if the project is archived or was deleted meanwhile, and `Invalid` for too many
    columns.
    """
    rest = await remaining_of(database, task_import.organization, task_import.plan, task_import.actor.user.id)
    place, done = rest.repository, list[Remaining]()
    for some in batches_of(task_import.plan, rest, BATCH) if not rest.is_empty else ():
        if done and database.name == "sqlite":
            await asyncio.sleep(SQLITE_PAUSE_S)
        counted = _counted(progress, rest.created, sum_batches(task_import.plan, rest, done).created)
        batch = partial(
            _write, task_import=msgspec.structs.replace(task_import, plan=some), begun=place, progress=counted
        )
        made, place = await database.in_transaction(batch)
        done.append(made)
    refused = await _write_waits(database, task_import, progress) if rest.waits else []
    made_of_all = sum_batches(task_import.plan, rest, done)
    return await asyncio.to_thread(_summary, task_import, made_of_all, place, refused)


async def _write(
    tx: Transaction, *, task_import: Import, begun: Repository | None, progress: Progress
) -> tuple[Remaining, Repository]:
    """Write one batch, and return the created records and the project.

    `begun` is the project of the previous batches.
    """
    await lock_names(tx, task_import.organization.id)  # a concurrent import of the same board finds these records
    rest = await remaining_of(tx, task_import.organization, task_import.plan, task_import.actor.user.id)
    if begun is not None and (rest.repository is None or rest.repository.id != begun.id):
        raise Conflict(say("The project {} was deleted during the import.", begun.full_name), code="deleted")
    if rest.repository is not None and rest.is_empty:  # written by another import
        return rest, rest.repository
    writer = BatchWriter(tx, task_import, await _access(tx, task_import, rest), progress)
    await writer.write(rest)
    return msgspec.structs.replace(rest, orphaned_subtasks=writer.alone), writer.access.repository


def _counted(progress: Progress, wanted: Counts, before: Counts) -> Progress:
    """Return a progress callback for one batch that adds the previous batches."""

    def add_up(kind: str, number: int, total: int) -> None:
        progress(kind, getattr(before, kind) + number, max(getattr(wanted, kind), getattr(before, kind) + total))

    return add_up


async def _access(tx: Transaction, task_import: Import, rest: Remaining) -> Access:
    """Return access to the project, which is created if necessary."""
    if rest.repository is not None:
        access = await find_access(tx, task_import.actor, rest.repository.project_id)
        access.require_writable()
        return access
    create = ProjectCreate(
        title=task_import.plan.title,
        organization=task_import.organization.login,
        label_colors=task_import.plan.label_colors,
    )
    made = await add_project(Write(tx, task_import.actor, task_import.base), create)
    return await find_access(tx, task_import.actor, made.repository.project_id)


def _summary(
    task_import: Import, rest: Remaining, repository: Repository | None, refused: Sequence[str] = ()
) -> Imported:
    labels = {label for task in rest.new_tasks for label in task.labels}
    made = rest.created
    comments = [comment for _, comment in rest.comments]
    unmatched = strangers_of(rest.new_tasks, comments, task_import.people, task_import.plan.source)
    return Imported(
        title=task_import.plan.title,
        project_id=repository.project_id if repository else None,
        repository=repository.full_name if repository else None,
        created=CreatedCounts(int(rest.repository is None), made.columns, made.tasks, made.comments, len(labels)),
        skipped=rest.skipped,
        changed=len(rest.changed),
        warnings=[
            *task_import.plan.warnings,
            *unknown_people(unmatched, task_import.hint),
            *remarks_of(rest),
            *refused,
        ],
        lost=task_import.plan.lost,
        columns=[ImportedColumn(each.title, each.completes) for each in task_import.plan.columns],
        fields=task_import.plan.fields,
        unmatched=unmatched,
    )


def remarks_of(rest: Remaining) -> list[Message]:
    """Return warnings about tasks that already exist and about tasks that cannot keep their parent."""
    warnings = []
    if rest.changed:
        number, names = Number(len(rest.changed)), name_some(rest.changed)
        one = say("1 task has changed in the source since the last import and was not updated here: {}", names)
        more = say(
            "{} tasks have changed in the source since the last import and were not updated here: {}",
            number,
            names,
        )
        warnings.append(one if number == 1 else more)
    if rest.elsewhere:
        warnings.append(
            say("already imported into another project, so not imported here: {}", name_some(rest.elsewhere))
        )
    if rest.orphaned_subtasks:
        names = name_some(rest.orphaned_subtasks)
        warnings.append(say("tasks that cannot be subtasks here were imported as separate tasks: {}", names))
    return warnings


async def _write_waits(database: Database, task_import: Import, progress: Progress) -> list[str]:
    """Write missing dependencies, and return a warning for each task that may not have them."""
    rest = await remaining_of(database, task_import.organization, task_import.plan, task_import.actor.user.id)
    by_task: dict[str, list[Dependency]] = defaultdict(list)
    for each in rest.waits:
        by_task[each.task_key].append(each)
    warnings = []
    for number, waits in enumerate(by_task.values(), 1):
        warnings += await database.in_transaction(partial(_write_waits_of_one, task_import=task_import, waits=waits))
        progress("dependencies", number, len(by_task))
    return warnings


async def _write_waits_of_one(tx: Transaction, *, task_import: Import, waits: Sequence[Dependency]) -> list[str]:
    await lock_names(tx, task_import.organization.id)  # a concurrent import finds these dependencies
    keys = {key for each in waits for key in (each.task_key, each.blocker_key)}
    some = msgspec.structs.replace(
        task_import.plan, columns=[], tasks=[each for each in task_import.plan.tasks if each.key in keys]
    )
    rest = await remaining_of(tx, task_import.organization, some, task_import.actor.user.id)
    wanted = [each for each in rest.waits if each.task_key == waits[0].task_key]
    if rest.repository is None or not wanted:
        return []
    task_id = rest.ids[waits[0].task_key]
    blockers = [rest.ids[each.blocker_key] for each in wanted]
    try:
        found = await lock_task(tx, task_import.actor, task_id, TaskEdit())
        edit = TaskEdit(blocked_by=[*found.task.blocked_by, *blockers])
        await edit_task(Write(tx, task_import.actor, task_import.base), found, edit)
    except (Invalid, NotFound) as problem:
        title = next(each.title for each in some.tasks if each.key == waits[0].task_key)
        return [say("task “{}” was imported without its blockers: {}", shown(title), phrase(problem.reasons[0]))]
    links = [
        {
            "account_id": task_import.organization.id,
            "source": task_import.plan.source,
            "external_id": each.key,
            "repository_id": rest.repository.id,
            "kind": "task_blocker",
            "internal_id": rest.ids[each.blocker_key],
            "fingerprint": "",
        }
        for each in wanted
    ]
    await tx.execute_many(insert_link, links)
    return []
