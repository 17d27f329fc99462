"""Writes a plan, a batch of tasks in each transaction: one event for each thing that is made, as if it had been made
over the API. What is made is linked to what it was made of in the same commit, so whoever is interrupted goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

import msgspec

from workhook.core import json
from workhook.core.errors import Conflict
from workhook.core.ids import new_id
from workhook.core.records import to_response
from workhook.identity.context import Write
from workhook.identity.schemas import Account, Actor, Repository
from workhook.storage import Database, Transaction
from workhook.work.access import Access, find_access
from workhook.work.columns.api import ColumnCreate, add_column
from workhook.work.comments import actions as comments
from workhook.work.comments.schemas import CommentedTask, TaskComment
from workhook.work.imports.plan import (
    Counts,
    ImportPlan,
    People,
    PlannedColumn,
    PlannedComment,
    PlannedTask,
    Remaining,
    assign,
    author_and_text,
    batches_of,
    fingerprint,
    forget_links,
    insert_link,
    made_in_all,
    name_some,
    remaining_of,
    unknown_people,
)
from workhook.work.people import person_shape
from workhook.work.projects.api import ProjectCreate, add_project, lock_names
from workhook.work.record_events import RecordEvent, publish_events
from workhook.work.tasks import bulk_queries
from workhook.work.tasks.actions import blank_task
from workhook.work.tasks.assignees import find_people
from workhook.work.tasks.bulk_queries import TaskChange
from workhook.work.tasks.numbers import take_numbers
from workhook.work.tasks.ordering.column_order import ColumnOrder, Rank, ranks_in
from workhook.work.tasks.queries import LockedColumn, lock_column
from workhook.work.tasks.schemas import Task

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
    """`skipped`: what was there already. `changed`: how many of those tasks have changed in Trello since."""

    title: str
    project_id: str | None
    repository: str | None
    created: CreatedCounts
    skipped: Counts
    changed: int
    warnings: list[str]


class Import(msgspec.Struct, frozen=True):
    """One plan, where it goes, and who brings it. `base` is what links in events start with.

    `keeps_authors`: a comment becomes that of the member who wrote it. Only whoever runs the server may say so: anybody
    can write an export. Else it becomes the importer's, and begins with the author's name. `hint`: how to tell who is
    who.
    """

    plan: ImportPlan
    organization: Account
    actor: Actor
    people: People
    base: str
    keeps_authors: bool = True
    hint: str = "--member TRELLO=LOGIN says who is who"


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
    if rest.is_empty:
        return _summary(this, rest, rest.repository)
    place, done = rest.repository, list[Remaining]()
    for part in batches_of(this.plan, rest, BATCH):
        if done and database.name == "sqlite":
            await asyncio.sleep(SQLITE_PAUSE_S)
        counted = _counted(progress, rest.created, made_in_all(this.plan, rest, done).created)
        batch = partial(_write, this=msgspec.structs.replace(this, plan=part), begun=place, progress=counted)
        made, place = await database.in_transaction(batch)
        done.append(made)
    return _summary(this, made_in_all(this.plan, rest, done), place)


async def _write(
    tx: Transaction, *, this: Import, begun: Repository | None, progress: Progress
) -> tuple[Remaining, Repository]:
    """One batch: what was made, and where. `begun`: the project that the ones before went to."""
    await lock_names(tx, this.organization.id)  # of two imports of a new board the second finds what the first made
    rest = await remaining_of(tx, this.organization, this.plan, this.actor.user.id)
    if begun is not None and (rest.repository is None or rest.repository.id != begun.id):
        raise Conflict(f"The project {begun.full_name} was deleted while it was imported.", code="deleted")
    if rest.repository is not None and rest.is_empty:  # another import was here
        return rest, rest.repository
    writer = _Writer(tx, this, await _access(tx, this, rest), progress)
    await writer.write(rest)
    return rest, writer.access.repository


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
        ids = {"account_id": this.organization.id, "source": source, "repository_id": self.access.repository.id}
        await self._tx.execute_many(insert_link, [{**ids, **each} for each in self._links])

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
        made = await self._append(wanted, targets, await self._seeing(wanted))
        for number, (planned, task) in enumerate(zip(wanted, made, strict=True), 1):
            self._link("task", planned.key, task.id, fingerprint(planned))
            self._progress("tasks", number, len(wanted))
        await self._publish("task", [to_response(each) for each in made])
        return made

    async def _targets(self, column_ids: Mapping[str, str]) -> dict[str, LockedColumn]:
        """The columns that tasks come to, locked in the order in which everybody locks them."""
        found = {}
        for key, column_id in sorted(column_ids.items(), key=lambda item: item[1]):
            _, found[key] = await lock_column(self._tx, self._this.actor, column_id)
        return found

    async def _seeing(self, wanted: Iterable[PlannedTask]) -> set[int]:
        """Ids of the assigned people who see the project: not every member sees a private one."""
        people = (self._this.people.find(member) for task in wanted for member in task.members)
        logins = {each.login for each in people if each is not None}
        found = (await find_people(self._tx, self.access, logins)).by_name
        return {each.id for each in found.values()}

    async def _append(
        self, wanted: Sequence[PlannedTask], targets: Mapping[str, LockedColumn], seeing: Collection[int]
    ) -> list[Task]:
        """Insert tasks at the ends of their columns, in few statements: an import holds locks for as long as it writes.

        Returns them in the order of `wanted`, in which their ids sort, too. `targets`: locked columns, by their keys.
        """
        locked = {each.column.id: each for each in targets.values()}
        ranks = await ranks_in(self._tx, [each.buckets[-1].id for each in locked.values()])
        orders = {key: ColumnOrder(each.buckets, ranks[each.buckets[-1].id]) for key, each in locked.items()}
        made = []
        for task_id, each in zip(sorted(new_id("tsk") for _ in wanted), wanted, strict=True):
            target = targets[each.column_key]
            orders[target.column.id].insert(task_id, None)
            made.append(self._task(target, task_id, each, seeing))
        positions, new_ranks = dict[str, int](), dict[str, Rank]()
        for order in orders.values():
            positions |= order.positions(each.id for each in made)
            new_ranks |= order.changed
        first = await take_numbers(self._tx, self.access.repository.id, len(made)) if made else 0
        made = [
            msgspec.structs.replace(each, number=number, position=positions[each.id])
            for number, each in enumerate(made, first)
        ]
        changes = [TaskChange(self.access, None, each, new_ranks[each.id]) for each in made]
        await bulk_queries.write(self._tx, changes, [], orders)
        return made

    def _task(self, target: LockedColumn, task_id: str, planned: PlannedTask, seeing: Collection[int]) -> Task:
        now = self._context.now
        assignees, fields = assign(planned, self._this.people, seeing)
        return msgspec.structs.replace(
            blank_task(self.access, target, task_id, planned.title, now),
            description=planned.description,
            cover_url=planned.cover_url,
            deadline=planned.deadline,
            fields=json.encode_text(fields),
            sections=json.encode_text(planned.sections),
            labels=json.encode_text(planned.labels),
            assignees=tuple(map(person_shape, assignees)),
            completed_at=min(planned.finished_at or now, now) if planned.finished or target.completes else None,
            created_at=min(planned.created_at or now, now),
        )

    async def _comments(self, wanted: Sequence[tuple[CommentedTask, PlannedComment]]) -> None:
        records = []
        authors = self._this.people if self._this.keeps_authors else People((), {})
        for number, (task, planned) in enumerate(wanted, 1):
            author, text = author_and_text(planned, authors, self.access.user)
            at = min(planned.created_at or self._context.now, self._context.now)
            places = {"task_id": task.id, "repository_id": self.access.repository.id, "user_id": author.id}
            new = TaskComment(0, text, False, task, person_shape(author), at, at)
            comment = await comments.insert(self._tx, new, **places)
            self._link("task_comment", planned.key, str(comment.id), fingerprint(planned))
            records.append(to_response(comment))
            self._progress("comments", number, len(wanted))
        await self._publish("task_comment", records)

    async def _publish(self, noun: str, records: Iterable[msgspec.Struct]) -> None:
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
        warnings=[*this.plan.warnings, *_warnings(this, rest)],
    )


def _warnings(this: Import, rest: Remaining) -> list[str]:
    warnings = unknown_people(rest.new_tasks, [comment for _, comment in rest.comments], this.people, this.hint)
    if rest.changed:
        number = f"{len(rest.changed):,} task{'s have' if len(rest.changed) > 1 else ' has'}"
        warnings.append(f"{number} changed there since, and stayed as here: {name_some(rest.changed)}")
    return warnings
