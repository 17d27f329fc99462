"""Writes a plan, a batch of tasks in each transaction: one event for each thing that is made, as if it had been made
over the API. What is made is linked to what it was made of in the same commit, so whoever is interrupted goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

import msgspec

from workhook.core.errors import Conflict, Message, Number, say
from workhook.identity.context import Write
from workhook.identity.schemas import Repository
from workhook.storage import Database, Transaction
from workhook.work.board.projects.actions import add_project, lock_names
from workhook.work.board.projects.schemas import ProjectCreate
from workhook.work.kernel.access import Access, find_access
from workhook.work.portability.imports import dependencies
from workhook.work.portability.imports.losses import name_some
from workhook.work.portability.imports.people import Stranger, strangers_of, unknown_people
from workhook.work.portability.imports.plan import Lost, PlannedField
from workhook.work.portability.imports.remaining import Counts, Remaining, batches_of, made_in_all, remaining_of
from workhook.work.portability.imports.writer import BatchWriter, Import, Progress

BATCH = 250
"""Tasks and comments that one transaction makes: others write in between."""
SQLITE_PAUSE_S = 0.12
"""Between two of them on SQLite, where one who waits for the lock looks every tenth of a second whether it is free."""


class CreatedCounts(msgspec.Struct, frozen=True):
    """`labels`: how many different ones the new tasks have."""

    projects: int
    columns: int
    tasks: int
    comments: int
    labels: int


class ImportedColumn(msgspec.Struct, frozen=True):
    """A column of the plan. `finished`: its tasks are."""

    title: str
    finished: bool


class Imported(msgspec.Struct, frozen=True):
    """`skipped`: what was there already. `changed`: how many of those tasks have changed there since.
    `lost`: what of the plan has no place here. `columns`: all of the plan. `fields`: what those of a table become.
    `unmatched`: people of what is new who are nobody here."""

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
    """What `import_plan` would do now."""
    rest = await remaining_of(database, this.organization, this.plan, this.actor.user.id)
    return await asyncio.to_thread(_summary, this, rest, rest.repository)


async def import_plan(database: Database, this: Import, progress: Progress) -> Imported:
    """Write what of the plan is not there yet. Where there is nothing to write, nothing is written.

    Project and columns are made with the first tasks, and what tasks wait for at the end. What raises later, or dies,
    leaves what was made before it; the same import again makes the rest.

    Raises `Forbidden`, `Conflict` (the project is archived, or was deleted meanwhile), `Invalid` (more columns than a
    project may have).
    """
    rest = await remaining_of(database, this.organization, this.plan, this.actor.user.id)
    place, done = rest.repository, list[Remaining]()
    for part in batches_of(this.plan, rest, BATCH) if not rest.is_empty else ():
        if done and database.name == "sqlite":
            await asyncio.sleep(SQLITE_PAUSE_S)
        counted = _counted(progress, rest.created, made_in_all(this.plan, rest, done).created)
        batch = partial(_write, this=msgspec.structs.replace(this, plan=part), begun=place, progress=counted)
        made, place = await database.in_transaction(batch)
        done.append(made)
    refused = await dependencies.write(database, this, progress) if rest.waits else []
    made_of_all = made_in_all(this.plan, rest, done)
    return await asyncio.to_thread(_summary, this, made_of_all, place, refused)


async def _write(
    tx: Transaction, *, this: Import, begun: Repository | None, progress: Progress
) -> tuple[Remaining, Repository]:
    """One batch: what was made, and where. `begun`: the project that the ones before went to."""
    await lock_names(tx, this.organization.id)  # of two imports of a new board the second finds what the first made
    rest = await remaining_of(tx, this.organization, this.plan, this.actor.user.id)
    if begun is not None and (rest.repository is None or rest.repository.id != begun.id):
        raise Conflict(say("The project {} was deleted while it was imported.", begun.full_name), code="deleted")
    if rest.repository is not None and rest.is_empty:  # another import was here
        return rest, rest.repository
    writer = BatchWriter(tx, this, await _access(tx, this, rest), progress)
    await writer.write(rest)
    return msgspec.structs.replace(rest, alone=writer.alone), writer.access.repository


def _counted(progress: Progress, wanted: Counts, before: Counts) -> Progress:
    """What a batch calls with its progress; it passes on that of the whole import."""

    def add_up(what: str, number: int, total: int) -> None:
        progress(what, getattr(before, what) + number, max(getattr(wanted, what), getattr(before, what) + total))

    return add_up


async def _access(tx: Transaction, this: Import, rest: Remaining) -> Access:
    """The access to the project, which is made if it is not there."""
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
    """What there is to say of tasks that are there already, or cannot be what they were."""
    warnings = []
    if rest.changed:
        number, names = Number(len(rest.changed)), name_some(rest.changed)
        one = say("1 task has changed there since, and stayed as here: {}", names)
        more = say("{} tasks have changed there since, and stayed as here: {}", number, names)
        warnings.append(one if number == 1 else more)
    if rest.elsewhere:
        warnings.append(say("imported to another project before, and left there: {}", name_some(rest.elsewhere)))
    if rest.alone:
        warnings.append(say("tasks that cannot be subtasks here stand by themselves: {}", name_some(rest.alone)))
    return warnings
