"""Execution of a plan in batches of tasks, one transaction each.

Every created record publishes an event, as if it had been created through the API. Each record is linked to its
original in the same commit, so an interrupted import can be resumed. Dependencies are written as edits after all tasks
exist.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from functools import partial

import msgspec

from workhook.core.errors import Conflict, Invalid, Message, NotFound, Number, part, say, shown
from workhook.identity.context import Write
from workhook.identity.schemas import Repository
from workhook.storage import Database, Transaction
from workhook.work.board.projects.actions import add_project, lock_names
from workhook.work.board.projects.schemas import ProjectCreate
from workhook.work.board.tasks.actions import edit_task, lock_task
from workhook.work.board.tasks.inputs import TaskEdit
from workhook.work.kernel.access import Access, find_access
from workhook.work.portability.imports.people import Stranger, strangers_of, unknown_people
from workhook.work.portability.imports.plan import Lost, PlannedField, name_some
from workhook.work.portability.imports.remaining import (
    Counts,
    Remaining,
    Wait,
    batches_of,
    insert_link,
    made_in_all,
    remaining_of,
)
from workhook.work.portability.imports.writer import BatchWriter, Import, Progress

BATCH = 250
"""Tasks and comments per transaction, small enough for other writers to get a turn."""
SQLITE_PAUSE_S = 0.12
"""The pause between batches on SQLite, where waiting writers retry every tenth of a second."""


class CreatedCounts(msgspec.Struct, frozen=True):
    """The numbers of created records. `labels` counts the distinct labels of the new tasks."""

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
    unmatched: list[Stranger]


async def preview(database: Database, this: Import) -> Imported:
    """Return the result that `import_plan` would have now."""
    rest = await remaining_of(database, this.organization, this.plan, this.actor.user.id)
    return await asyncio.to_thread(_summary, this, rest, rest.repository)


async def import_plan(database: Database, this: Import, progress: Progress) -> Imported:
    """Write the records of the plan that do not exist yet.

    The project and its columns are created with the first tasks, dependencies at the end. After an error, the records
    written so far remain, and repeating the import writes the rest.

    Raises `Forbidden`, `Conflict` if the project is archived or was deleted meanwhile, and `Invalid` for too many
    columns.
    """
    rest = await remaining_of(database, this.organization, this.plan, this.actor.user.id)
    place, done = rest.repository, list[Remaining]()
    for some in batches_of(this.plan, rest, BATCH) if not rest.is_empty else ():
        if done and database.name == "sqlite":
            await asyncio.sleep(SQLITE_PAUSE_S)
        counted = _counted(progress, rest.created, made_in_all(this.plan, rest, done).created)
        batch = partial(_write, this=msgspec.structs.replace(this, plan=some), begun=place, progress=counted)
        made, place = await database.in_transaction(batch)
        done.append(made)
    refused = await _write_waits(database, this, progress) if rest.waits else []
    made_of_all = made_in_all(this.plan, rest, done)
    return await asyncio.to_thread(_summary, this, made_of_all, place, refused)


async def _write(
    tx: Transaction, *, this: Import, begun: Repository | None, progress: Progress
) -> tuple[Remaining, Repository]:
    """Write one batch, and return the created records and the project. `begun` is the project of the previous
    batches."""
    await lock_names(tx, this.organization.id)  # a concurrent import of the same board finds these records
    rest = await remaining_of(tx, this.organization, this.plan, this.actor.user.id)
    if begun is not None and (rest.repository is None or rest.repository.id != begun.id):
        raise Conflict(say("The project {} was deleted during the import.", begun.full_name), code="deleted")
    if rest.repository is not None and rest.is_empty:  # written by another import
        return rest, rest.repository
    writer = BatchWriter(tx, this, await _access(tx, this, rest), progress)
    await writer.write(rest)
    return msgspec.structs.replace(rest, alone=writer.alone), writer.access.repository


def _counted(progress: Progress, wanted: Counts, before: Counts) -> Progress:
    """Return a progress callback for one batch that adds the previous batches."""

    def add_up(what: str, number: int, total: int) -> None:
        progress(what, getattr(before, what) + number, max(getattr(wanted, what), getattr(before, what) + total))

    return add_up


async def _access(tx: Transaction, this: Import, rest: Remaining) -> Access:
    """Return access to the project, which is created if necessary."""
    if rest.repository is not None:
        access = await find_access(tx, this.actor, rest.repository.project_id)
        access.require_writable()
        return access
    create = ProjectCreate(
        title=this.plan.title, organization=this.organization.login, label_colors=this.plan.label_colors
    )
    made = await add_project(Write(tx, this.actor, this.base), create)
    return await find_access(tx, this.actor, made.repository.project_id)


def _summary(this: Import, rest: Remaining, repository: Repository | None, refused: Sequence[str] = ()) -> Imported:
    labels = {label for task in rest.new_tasks for label in task.labels}
    made = rest.created
    comments = [comment for _, comment in rest.comments]
    unmatched = strangers_of(rest.new_tasks, comments, this.people, this.plan.source)
    return Imported(
        title=this.plan.title,
        project_id=repository.project_id if repository else None,
        repository=repository.full_name if repository else None,
        created=CreatedCounts(int(rest.repository is None), made.columns, made.tasks, made.comments, len(labels)),
        skipped=rest.skipped,
        changed=len(rest.changed),
        warnings=[*this.plan.warnings, *unknown_people(unmatched, this.hint), *remarks_of(rest), *refused],
        lost=this.plan.lost,
        columns=[ImportedColumn(each.title, each.completes) for each in this.plan.columns],
        fields=this.plan.fields,
        unmatched=unmatched,
    )


def remarks_of(rest: Remaining) -> list[Message]:
    """Return warnings about tasks that already exist and about tasks that cannot keep their parent."""
    warnings = []
    if rest.changed:
        number, names = Number(len(rest.changed)), name_some(rest.changed)
        one = say("1 task was changed in the source since the last import and was left as it is here: {}", names)
        more = say(
            "{} tasks were changed in the source since the last import and were left as they are here: {}",
            number,
            names,
        )
        warnings.append(one if number == 1 else more)
    if rest.elsewhere:
        warnings.append(say("already imported to another project and left there: {}", name_some(rest.elsewhere)))
    if rest.alone:
        warnings.append(
            say("tasks that cannot be subtasks here were imported as separate tasks: {}", name_some(rest.alone))
        )
    return warnings


async def _write_waits(database: Database, this: Import, progress: Progress) -> list[str]:
    """Write missing dependencies, and return a warning for each task that may not have them."""
    rest = await remaining_of(database, this.organization, this.plan, this.actor.user.id)
    by_task: dict[str, list[Wait]] = defaultdict(list)
    for each in rest.waits:
        by_task[each.task_key].append(each)
    warnings = []
    for number, waits in enumerate(by_task.values(), 1):
        warnings += await database.in_transaction(partial(_write_waits_of_one, this=this, waits=waits))
        progress("dependencies", number, len(by_task))
    return warnings


async def _write_waits_of_one(tx: Transaction, *, this: Import, waits: Sequence[Wait]) -> list[str]:
    await lock_names(tx, this.organization.id)  # a concurrent import finds these dependencies
    keys = {key for each in waits for key in (each.task_key, each.blocker_key)}
    some = msgspec.structs.replace(this.plan, columns=[], tasks=[each for each in this.plan.tasks if each.key in keys])
    rest = await remaining_of(tx, this.organization, some, this.actor.user.id)
    wanted = [each for each in rest.waits if each.task_key == waits[0].task_key]
    if rest.repository is None or not wanted:
        return []
    task_id = rest.ids[waits[0].task_key]
    blockers = [rest.ids[each.blocker_key] for each in wanted]
    try:
        found = await lock_task(tx, this.actor, task_id, TaskEdit())
        edit = TaskEdit(blocked_by=[*found.task.blocked_by, *blockers])
        await edit_task(Write(tx, this.actor, this.base), found, edit)
    except (Invalid, NotFound) as problem:
        title = next(each.title for each in some.tasks if each.key == waits[0].task_key)
        return [say("task {} does not wait for others here: {}", repr(shown(title)), part(problem.message))]
    links = [
        {
            "account_id": this.organization.id,
            "source": this.plan.source,
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
