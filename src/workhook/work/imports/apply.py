"""Writes a plan, a batch of tasks in each transaction: one event for each thing that is made, as if it had been made
over the API. What is made is linked to what it was made of in the same commit, so whoever is interrupted goes on."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import msgspec

from workhook.core import json
from workhook.core.errors import Conflict
from workhook.core.ids import new_id
from workhook.core.records import to_response
from workhook.identity.context import Write
from workhook.identity.schemas import Account, Actor, Repository
from workhook.storage import Database, Transaction
from workhook.storage.metadata import insert_into
from workhook.storage.record_rows import stored_names, values_of
from workhook.work.access import Access, find_access
from workhook.work.columns.api import ColumnCreate, add_column
from workhook.work.comments.queries import insert_task_comment
from workhook.work.comments.schemas import CommentedTask, TaskComment
from workhook.work.imports.diff import Counts, Remaining, batches_of, forget_links, insert_links, remaining_of, together
from workhook.work.imports.plan import (
    AssignedTask,
    ImportPlan,
    People,
    PlannedColumn,
    PlannedComment,
    PlannedTask,
    assign,
    author_and_text,
    fingerprint,
    name_some,
    unknown_people,
)
from workhook.work.people import person_shape
from workhook.work.projects.api import ProjectCreate, add_project, lock_names
from workhook.work.record_events import RecordEvent, publish_events
from workhook.work.tasks.actions import blank_task
from workhook.work.tasks.assignees import find_people
from workhook.work.tasks.order import BUCKET_FILL, STEP, Bucket, new_bucket_id
from workhook.work.tasks.queries import Target, lock_column
from workhook.work.tasks.schemas import Task
from workhook.work.tasks.tables import task_assignees, task_buckets, tasks

BATCH = 250
"""Tasks and comments that one transaction makes: others write in between."""
SQLITE_PAUSE_S = 0.12
"""Between two of them on SQLite, where one who waits for the lock looks every tenth of a second whether it is free."""

Progress = Callable[[str, int, int], None]
"""What is done, how much of it, of how much."""


class CreatedCounts(msgspec.Struct, frozen=True):
    """`labels`: how many different ones the new tasks have."""

    projects: int
    columns: int
    tasks: int
    comments: int
    labels: int


class Imported(msgspec.Struct, frozen=True):
    """`skipped`: what was there already. `changed`: how many of those tasks have changed in the other service since."""

    title: str
    project_id: str | None
    repository: str | None
    created: CreatedCounts
    skipped: Counts
    changed: int
    warnings: list[str]


class Import(msgspec.Struct, frozen=True):
    """One plan, where it goes, and who brings it. `base` is what links in events start with."""

    plan: ImportPlan
    organization: Account
    actor: Actor
    people: People
    base: str


async def preview(database: Database, this: Import) -> Imported:
    """What `import_plan` would do now."""
    rest = await remaining_of(database, this.organization, this.plan, this.actor.user.id)
    return _summary(this, rest, rest.repository)


async def import_plan(database: Database, this: Import, progress: Progress) -> Imported:
    """Write what of the plan is not there yet. Where there is nothing to write, nothing is written.

    Project and columns are made with the first tasks. What raises later, or dies, leaves what was made before it; the
    same import again makes the rest.

    Raises `Forbidden`, `Conflict` (the project is archived, or was deleted meanwhile), `Invalid` (more columns than a
    project may have).
    """
    rest = await remaining_of(database, this.organization, this.plan, this.actor.user.id)
    if rest.is_nothing:
        return _summary(this, rest, rest.repository)
    place, done = rest.repository, list[Remaining]()
    for part in batches_of(this.plan, rest, BATCH):
        if done and database.name == "sqlite":
            await asyncio.sleep(SQLITE_PAUSE_S)
        counted = _counted(progress, rest.created, together(this.plan, rest, done).created)
        batch = partial(_write, this=msgspec.structs.replace(this, plan=part), begun=place, progress=counted)
        made, place = await database.in_transaction(batch)
        done.append(made)
    return _summary(this, together(this.plan, rest, done), place)


async def _write(
    tx: Transaction, *, this: Import, begun: Repository | None, progress: Progress
) -> tuple[Remaining, Repository]:
    """One batch: what was made, and where. `begun`: the project that the ones before went to."""
    await lock_names(tx, this.organization.id)  # of two imports of a new board the second finds what the first made
    rest = await remaining_of(tx, this.organization, this.plan, this.actor.user.id)
    if begun is not None and (rest.repository is None or rest.repository.id != begun.id):
        raise Conflict(f"The project {begun.full_name} was deleted while it was imported.", code="deleted")
    if rest.repository is not None and rest.is_nothing:  # another import was here
        return rest, rest.repository
    writer = _Writer(tx, this, await _access(tx, this, rest), progress)
    await writer.write(rest)
    return rest, writer.access.repository


def _counted(progress: Progress, wanted: Counts, before: Counts) -> Progress:
    """`progress` of one batch, told as that of all."""

    def tell(what: str, number: int, total: int) -> None:
        progress(what, getattr(before, what) + number, max(getattr(wanted, what), getattr(before, what) + total))

    return tell


async def _access(tx: Transaction, this: Import, rest: Remaining) -> Access:
    """To the project, which is made if it is not there."""
    if rest.repository is not None:
        access = await find_access(tx, this.actor, rest.repository.project_id)
        access.require_writable()
        return access
    create = ProjectCreate(title=this.plan.title, organization=this.organization.login)
    made = await add_project(Write(tx, this.actor, this.base), create)
    return await find_access(tx, this.actor, made.repository.project_id)


class _Writer:
    """One batch's work."""

    def __init__(self, tx: Transaction, this: Import, access: Access, progress: Progress) -> None:
        self._tx = tx
        self._this = this
        self.access = access
        self._progress = progress
        self._context = Write(tx, this.actor, this.base)
        self._links: list[dict[str, str]] = []

    async def write(self, rest: Remaining) -> None:
        this, source = self._this, self._this.plan.source
        await forget_links(self._tx, this.organization.id, source, rest.again)
        if rest.repository is None:
            self._link("project", this.plan.key, self.access.repository.project_id, "")
        column_ids = rest.columns | await self._columns(rest.new_columns)
        made = await self._tasks(rest.new_tasks, column_ids)
        on_new = [
            (CommentedTask(task.id, task.title), comment)
            for task, planned in zip(made, rest.new_tasks, strict=True)
            for comment in planned.comments
        ]
        await self._comments([*rest.comments, *on_new])
        await insert_links(self._tx, this.organization.id, source, self.access.repository.id, self._links)

    def _link(self, kind: str, key: str, internal_id: str, mark: str) -> None:
        self._links.append({"kind": kind, "external_id": key, "internal_id": internal_id, "fingerprint": mark})

    async def _columns(self, wanted: Sequence[PlannedColumn]) -> dict[str, str]:
        """Ids by key."""
        made = {}
        for number, each in enumerate(wanted, 1):
            create = ColumnCreate(title=each.title, stage=each.stage, finished=each.finished)
            column = await add_column(self._context, self.access.repository.project_id, create)
            made[each.key] = column.id
            self._link("column", each.key, column.id, fingerprint(each))
            self._progress("columns", number, len(wanted))
        return made

    async def _tasks(self, wanted: Sequence[PlannedTask], column_ids: Mapping[str, str]) -> list[Task]:
        targets = await self._targets({each.column_key: column_ids[each.column_key] for each in wanted})
        seeing = await self._seeing(wanted)
        assigned = [assign(each, self._this.people, seeing) for each in wanted]
        made = await append_tasks(self._tx, self.access, targets, assigned, self._context.now)
        for number, (planned, task) in enumerate(zip(wanted, made, strict=True), 1):
            self._link("task", planned.key, task.id, fingerprint(planned))
            self._progress("tasks", number, len(wanted))
        await self._announce("task", [to_response(each) for each in made])
        return made

    async def _targets(self, column_ids: Mapping[str, str]) -> dict[str, Target]:
        """The columns that tasks come to, locked in the order in which everybody locks them."""
        found = {}
        for key, column_id in sorted(column_ids.items(), key=lambda item: item[1]):
            _, found[key] = await lock_column(self._tx, self._this.actor, column_id)
        return found

    async def _seeing(self, wanted: Iterable[PlannedTask]) -> set[int]:
        """Ids of those who are assigned and see the project: of a private one not every member does."""
        people = (self._this.people.find(member) for task in wanted for member in task.members)
        logins = {each.login for each in people if each is not None}
        found = (await find_people(self._tx, self.access, logins)).by_name
        return {each.id for each in found.values()}

    async def _comments(self, wanted: Sequence[tuple[CommentedTask, PlannedComment]]) -> None:
        shapes = []
        for number, (task, planned) in enumerate(wanted, 1):
            author, text = author_and_text(planned, self._this.people, self.access.user)
            at = min(planned.created_at or self._context.now, self._context.now)
            places = {"task_id": task.id, "repository_id": self.access.repository.id, "user_id": author.id}
            values = {"text": text, "private": False, "created_at": at, "updated_at": at}
            comment_id = await insert_task_comment(self._tx, {**places, **values})
            self._link("task_comment", planned.key, str(comment_id), fingerprint(planned))
            comment = TaskComment(comment_id, text, False, task, person_shape(author), at, at)
            shapes.append(to_response(comment))
            self._progress("comments", number, len(wanted))
        await self._announce("task_comment", shapes)

    async def _announce(self, noun: str, records: Iterable[msgspec.Struct]) -> None:
        created = [RecordEvent(self.access.repository, noun, "created", each) for each in records]
        await publish_events(self._context, created)


def _summary(this: Import, rest: Remaining, repository: Repository | None) -> Imported:
    labels = {label for task in rest.new_tasks for label in task.labels}
    made = rest.created
    return Imported(
        title=this.plan.title,
        project_id=repository.project_id if repository else None,
        repository=repository.full_name if repository else None,
        created=CreatedCounts(int(rest.repository is None), made.columns, made.tasks, made.comments, len(labels)),
        skipped=rest.skipped,
        changed=len(rest.changed),
        warnings=[*this.plan.warnings, *_about(this, rest)],
    )


def _about(this: Import, rest: Remaining) -> list[str]:
    said = unknown_people(rest.new_tasks, [comment for _, comment in rest.comments], this.people)
    if rest.changed:
        number = f"{len(rest.changed):,} task{'s have' if len(rest.changed) > 1 else ' has'}"
        said.append(f"{number} changed there since, and stayed as here: {name_some(rest.changed)}")
    return said


_insert = insert_into(tasks, "repository_id", "column_id", "bucket_id", "rank", *stored_names(Task))
_insert_bucket = insert_into(task_buckets, "id", "column_id", "rank", "size")
_insert_assignee = insert_into(task_assignees, "task_id", "user_id")


async def append_tasks(
    tx: Transaction, access: Access, targets: Mapping[str, Target], wanted: Sequence[AssignedTask], now: int
) -> list[Task]:
    """Insert tasks at the ends of their columns, in few statements: an import holds locks for as long as it writes.

    Returns them in the order of `wanted`, in which their ids sort, too. `targets`: locked columns, by the keys of the
    plan. `work/tasks/tables.py` says how the order of a column is stored; here whole buckets are added to it.
    """
    made = []
    by_column: dict[str, list[Task]] = defaultdict(list)
    for task_id, each in zip(sorted(new_id("tsk") for _ in wanted), wanted, strict=True):
        target = targets[each.task.column_key]
        tasks_there = by_column[target.column.id]
        position = sum(bucket.size for bucket in target.buckets) + len(tasks_there)
        made.append(_task(access, target, task_id, each, position, now))
        tasks_there.append(made[-1])
    rows: dict[str, dict[str, object]] = {}
    for target in {each.column.id: each for each in targets.values()}.values():
        new_tasks = by_column[target.column.id]
        buckets, reused = _buckets(target, len(new_tasks))
        for at, task in enumerate(new_tasks):
            rows[task.id] = _row(access, task, buckets[at // BUCKET_FILL].id, at % BUCKET_FILL * STEP)
        new_buckets = [
            {"id": each.id, "column_id": target.column.id, "rank": each.rank, "size": 0} for each in buckets[reused:]
        ]
        await tx.execute_many(_insert_bucket, new_buckets)  # a trigger counts what is in a bucket
    await tx.execute_many(_insert, [rows[task.id] for task in made])
    people = [{"task_id": each.id, "user_id": person.id} for each in made for person in each.assignees]
    await tx.execute_many(_insert_assignee, people)
    return made


def _buckets(target: Target, number: int) -> tuple[list[Bucket], int]:
    """Buckets for so many tasks at the end of a column, and how many of them are there: a last one that is empty."""
    last = target.buckets[-1]
    buckets = [Bucket(last.id, last.rank, 0)] if last.size == 0 else []
    reused = len(buckets)
    while len(buckets) * BUCKET_FILL < number:
        buckets.append(Bucket(new_bucket_id(), last.rank + STEP * (len(buckets) + 1 - reused), 0))
    return buckets, reused


def _task(access: Access, target: Target, task_id: str, assigned: AssignedTask, position: int, now: int) -> Task:
    said = assigned.task
    finished_at = min(said.finished_at or now, now)
    return msgspec.structs.replace(
        blank_task(access, target, task_id, said.title, now),
        description=said.description,
        cover_url=said.cover_url,
        deadline=said.deadline,
        position=position,
        fields=json.encode_text(assigned.fields),
        sections=json.encode_text(said.sections),
        labels=json.encode_text(said.labels),
        assignees=tuple(person_shape(each) for each in sorted(assigned.assignees, key=lambda one: one.id)),
        completed_at=finished_at if said.finished or target.completes else None,
        created_at=min(said.created_at or now, now),
    )


def _row(access: Access, task: Task, bucket_id: int, rank: int) -> dict[str, object]:
    return {
        **values_of(task),
        "repository_id": access.repository.id,
        "column_id": task.column.id,
        "bucket_id": bucket_id,
        "rank": rank,
    }
