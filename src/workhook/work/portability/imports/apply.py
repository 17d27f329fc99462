"""Execution of a plan: the records that do not exist yet are written in batches of tasks, one transaction each.

An import only adds missing records. It never changes existing ones, because people continue to work on them. Every
created record publishes an event, as if it had been created through the API. Each record is linked to its original in
the same commit, so an interrupted import can be resumed. Dependencies are written as edits once all tasks exist.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial

import msgspec
import sqlalchemy as sa

from workhook.core import json
from workhook.core.errors import Conflict, Invalid, Message, NotFound, Number, phrase, say, shown
from workhook.core.ids import new_id
from workhook.core.records import to_response
from workhook.identity.context import Write
from workhook.identity.queries import find_project
from workhook.identity.schemas import Account, Actor, Repository
from workhook.identity.tables import projects
from workhook.storage import Database, Reader, Row, Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import bigint_param, insert_into
from workhook.work.board.columns import ColumnCreate, add_column
from workhook.work.board.projects.actions import add_project, lock_names
from workhook.work.board.projects.schemas import ProjectCreate
from workhook.work.board.tasks import relations
from workhook.work.board.tasks.actions import build_blank_task, edit_task, lock_task
from workhook.work.board.tasks.assignees import find_people
from workhook.work.board.tasks.inputs import TaskEdit
from workhook.work.board.tasks.queries import LockedColumn, TaskChange, lock_column
from workhook.work.board.tasks.schemas import CONTENT, Task, columns, tasks
from workhook.work.board.tasks.writer import TaskWriter
from workhook.work.discussion import actions as comments
from workhook.work.discussion.schemas import CommentedTask, TaskComment
from workhook.work.kernel.access import Access, find_access
from workhook.work.kernel.people import person_to_response
from workhook.work.kernel.record_events import RecordEvent, publish_events
from workhook.work.kernel.tables import import_links
from workhook.work.portability.imports.mapping import title_of
from workhook.work.portability.imports.people import (
    People,
    UnmatchedPerson,
    add_strangers_field,
    insert_unmatched,
    rows_of,
    strangers_of,
    unknown_people,
)
from workhook.work.portability.imports.plan import (
    ImportPlan,
    Lost,
    Person,
    PlannedColumn,
    PlannedComment,
    PlannedField,
    PlannedTask,
    fingerprint,
    name_some,
)

# --- comparison of a plan with the existing records -------------------------------------------------------------------

_of_source = (import_links.c.account_id == bigint_param("account_id"), import_links.c.source == sa.bindparam("source"))
_links = (
    sa.select(import_links, projects.c.id.label("project_id"))
    .join_from(import_links, projects, projects.c.repository_id == import_links.c.repository_id)
    .where(*_of_source, any_of(import_links.c.external_id, "keys"), projects.c.deleted_at.is_(None))
)
# Links into deleted projects.
_forget = sa.delete(import_links).where(
    *_of_source,
    import_links.c.repository_id.in_(
        sa.select(projects.c.repository_id).where(
            projects.c.account_id == bigint_param("account_id"), projects.c.deleted_at.is_not(None)
        )
    ),
)
_forget_keys = sa.delete(import_links).where(*_of_source, any_of(import_links.c.external_id, "keys"))
insert_link = insert_into(
    import_links, "account_id", "source", "external_id", "repository_id", "kind", "internal_id", "fingerprint"
)
_columns = sa.select(columns.c.id).where(columns.c.repository_id == bigint_param("repository_id"))
_tasks = sa.select(tasks.c.id, tasks.c.title).where(
    tasks.c.repository_id == bigint_param("repository_id"), tasks.c.deleted_at.is_(None), any_of(tasks.c.id, "task_ids")
)


class Counts(msgspec.Struct, frozen=True):
    columns: int
    tasks: int
    comments: int


class Dependency(msgspec.Struct, frozen=True):
    """A dependency, as the keys of the blocked task and of its blocker."""

    task_key: str
    blocker_key: str

    @property
    def key(self) -> str:
        return f"task_blocker:{self.task_key}>{self.blocker_key}"


class Remaining(msgspec.Struct, frozen=True):
    """The records of a plan that do not exist yet.

    `repository` is None if the project does not exist either. `columns` and `ids` contain the IDs of existing columns
    and tasks, by key. `recreated_columns` contains keys of columns that were deleted here but are needed by new tasks.
    `comments` contains new comments on existing tasks. The other lists contain titles: `changed` of tasks that have
    since changed in the other service, `elsewhere` of tasks imported to another project before, and `orphaned_subtasks`
    of subtasks without their parent.
    """

    repository: Repository | None
    columns: dict[str, str]
    recreated_columns: list[str]
    new_columns: list[PlannedColumn]
    new_tasks: list[PlannedTask]
    comments: list[tuple[CommentedTask, PlannedComment]]
    skipped: Counts
    changed: list[str]
    ids: dict[str, str]
    waits: list[Dependency]
    elsewhere: list[str] = []
    orphaned_subtasks: list[str] = []

    @property
    def is_empty(self) -> bool:
        """Return whether all columns, tasks and comments exist. `waits` is ignored."""
        return self.repository is not None and not (self.new_columns or self.new_tasks or self.comments)

    @property
    def created(self) -> Counts:
        comments = len(self.comments) + sum(len(each.comments) for each in self.new_tasks)
        return Counts(len(self.new_columns), len(self.new_tasks), comments)


async def remaining_of(reader: Reader, organization: Account, plan: ImportPlan, user_id: int) -> Remaining:
    """Return the parts of the plan that do not exist in the database yet."""
    comment_keys = [each.key for task in plan.tasks for each in task.comments]
    keys = [plan.key, *(each.key for each in plan.columns), *(each.key for each in plan.tasks), *comment_keys]
    keys += [each.key for each in waits_of(plan)]
    params = {"account_id": organization.id, "source": plan.source, "keys": keys}
    links = {row["external_id"]: row for row in await reader.fetch_all(_links, params)}
    link = links.get(plan.key)
    repository = await find_project(reader, link["project_id"], user_id) if link else None
    column_ids, titles = set[str](), dict[str, str]()
    if repository is not None:
        column_ids = {row["id"] for row in await reader.fetch_all(_columns, {"repository_id": repository.id})}
        task_ids = [links[each.key]["internal_id"] for each in plan.tasks if each.key in links]
        rows = await reader.fetch_all(_tasks, {"repository_id": repository.id, "task_ids": task_ids})
        titles = {row["id"]: row["title"] for row in rows}
    return await asyncio.to_thread(_compare, plan, repository, links, column_ids, titles)


def waits_of(plan: ImportPlan) -> Iterator[Dependency]:
    keys = {each.key for each in plan.tasks}
    for task in plan.tasks:
        yield from (Dependency(task.key, each) for each in task.blocked_by if each in keys)


def batches_of(plan: ImportPlan, rest: Remaining, size: int) -> Iterator[ImportPlan]:
    """Split the plan into batches of up to `size` tasks and comments.

    There is at least one batch, and the first creates the columns.

    A task always stays with its comments and subtasks, even if these exceed `size`.
    """
    new_tasks, new_comments = {each.key for each in rest.new_tasks}, {each.key for _, each in rest.comments}

    def is_new(task: PlannedTask) -> bool:
        return task.key in new_tasks or any(each.key in new_comments for each in task.comments)

    batch: list[PlannedTask] = []
    left = size
    for family in _families(plan.tasks):
        some = [each for each in family if is_new(each)]
        if not some:
            continue
        if some[0] is not family[0]:
            some.insert(0, family[0])
        weight = sum(1 + len(each.comments) for each in some)
        if batch and weight > left:
            yield msgspec.structs.replace(plan, tasks=batch)
            batch, left = [], size
        batch += some
        left -= weight
    yield msgspec.structs.replace(plan, tasks=batch)


def _families(tasks: Sequence[PlannedTask]) -> Iterator[list[PlannedTask]]:
    """Yield each task with its subtasks."""
    family: list[PlannedTask] = []
    for task in tasks:
        if family and task.parent_key is None:
            yield family
            family = []
        family.append(task)
    if family:
        yield family


def sum_batches(plan: ImportPlan, before: Remaining, done: Sequence[Remaining]) -> Remaining:
    """Add up the records created by all batches. Another import may have created some of those in `before`."""
    columns = [column for each in done for column in each.new_columns]
    tasks = [task for each in done for task in each.new_tasks]
    comments = [comment for each in done for comment in each.comments]
    made = len(comments) + sum(len(each.comments) for each in tasks)
    skipped = Counts(
        len(plan.columns) - len(columns),
        len(plan.tasks) - len(tasks),
        before.skipped.comments + before.created.comments - made,
    )
    repository = done[0].repository if done else before.repository
    return msgspec.structs.replace(
        before,
        repository=repository,
        new_columns=columns,
        new_tasks=tasks,
        comments=comments,
        skipped=skipped,
        orphaned_subtasks=[title for each in done for title in each.orphaned_subtasks],
    )


def _compare(
    plan: ImportPlan,
    repository: Repository | None,
    links: Mapping[str, Row],
    column_ids: set[str],
    titles: dict[str, str],
) -> Remaining:
    """Compare the plan with the records that still exist: `column_ids`, and the `titles` of tasks by ID."""
    ids: dict[str, str] = {key: row["internal_id"] for key, row in links.items()}
    new_tasks = [each for each in plan.tasks if each.key not in ids]
    old_tasks = [each for each in plan.tasks if each.key in ids]
    needed = {each.column_key for each in new_tasks}
    columns = {each.key: ids[each.key] for each in plan.columns if ids.get(each.key) in column_ids}
    again = [each.key for each in plan.columns if each.key in ids and each.key not in columns and each.key in needed]
    new_columns = [each for each in plan.columns if each.key not in ids or each.key in again]
    comments = [
        (CommentedTask(ids[task.key], titles[ids[task.key]]), comment)
        for task in old_tasks
        if ids[task.key] in titles
        for comment in task.comments
        if comment.key not in ids
    ]
    known = sum(len(task.comments) for task in old_tasks) - len(comments)
    skipped = Counts(len(plan.columns) - len(new_columns), len(old_tasks), known)
    changed = [each.title for each in old_tasks if fingerprint(each) != links[each.key]["fingerprint"]]
    alive = {each.key: ids[each.key] for each in old_tasks if ids[each.key] in titles}
    present = {*alive, *(each.key for each in new_tasks)}
    waits = [
        each for each in waits_of(plan) if each.key not in ids and present.issuperset((each.task_key, each.blocker_key))
    ]
    project_id = repository.project_id if repository else None
    elsewhere = [each.title for each in old_tasks if links[each.key]["project_id"] != project_id]
    return Remaining(
        repository, columns, again, new_columns, new_tasks, comments, skipped, changed, alive, waits, elsewhere
    )


# --- one batch --------------------------------------------------------------------------------------------------------

Progress = Callable[[str, int, int], None]
"""A callback that receives the step, its progress and its total."""


class Import(msgspec.Struct, frozen=True):
    """A plan, the organization that receives it, and the importer. `base` is the start of links in events.

    If `keeps_authors` is true, comments belong to the members who wrote them. Only the server's operator may choose
    that, because anyone can forge an export. Otherwise comments belong to the importer and show the author's name.
    """

    plan: ImportPlan
    organization: Account
    actor: Actor
    people: People
    base: str
    keeps_authors: bool = True
    hint: str = "use --member NAME=LOGIN to match people"


_KEPT = sorted({*CONTENT} & {*PlannedTask.__struct_fields__} - {"fields", "sections", "labels"})
"""The fields that a task has as planned."""


class BatchWriter:
    def __init__(self, tx: Transaction, task_import: Import, access: Access, progress: Progress) -> None:
        self._tx = tx
        self._this = task_import
        self.access = access
        self._progress = progress
        self._context = Write(tx, task_import.actor, task_import.base)
        self._links: list[dict[str, str]] = []
        self._ids: dict[str, str] = {}  # existing tasks, by key
        self.alone: list[str] = []  # titles of subtasks without their parent

    async def write(self, rest: Remaining) -> None:
        task_import, source = self._this, self._this.plan.source
        account = {"account_id": task_import.organization.id, "source": source}
        await self._tx.execute(_forget, account)
        if rest.recreated_columns:
            await self._tx.execute(_forget_keys, {**account, "keys": rest.recreated_columns})
        self._ids = dict(rest.ids)
        if rest.repository is None:
            self._link("project", task_import.plan.key, self.access.repository.project_id, "")
        column_ids = rest.columns | await self._columns(rest.new_columns)
        made = await self._tasks(rest.new_tasks, column_ids)
        on_new = [
            (CommentedTask(task.id, task.title), comment)
            for task, planned in zip(made, rest.new_tasks, strict=True)
            for comment in planned.comments
        ]
        await self._comments([*rest.comments, *on_new])
        ids = {**account, "repository_id": self.access.repository.id}
        await self._tx.execute_many(insert_link, [{**ids, **each} for each in self._links])

    def _link(self, kind: str, key: str, internal_id: str, mark: str) -> None:
        self._links.append({"kind": kind, "external_id": key, "internal_id": internal_id, "fingerprint": mark})

    async def _columns(self, wanted: Sequence[PlannedColumn]) -> dict[str, str]:
        """Create the columns, and return their IDs by key."""
        made = {}
        for number, each in enumerate(wanted, 1):
            create = ColumnCreate(title=each.title, stage=each.stage, finished=each.finished)
            column = await add_column(self._context, self.access.repository.project_id, create)
            made[each.key] = column.id
            self._link("column", each.key, column.id, fingerprint(each))
            self._progress("columns", number, len(wanted))
        return made

    async def _tasks(self, wanted: Sequence[PlannedTask], column_ids: Mapping[str, str]) -> list[Task]:
        targets = {}
        used = {each.column_key: column_ids[each.column_key] for each in wanted}
        for key, column_id in sorted(used.items(), key=lambda item: item[1]):  # in the usual locking order
            _, targets[key] = await lock_column(self._tx, self._this.actor, column_id)
        found = (self._this.people.find(each, self._this.plan.source) for task in wanted for each in task.members)
        logins = {each.login for each in found if each is not None}
        people = (await find_people(self._tx, self.access, logins)).by_name
        made = await self._append(wanted, targets, {each.id for each in people.values()})
        for number, (planned, task) in enumerate(zip(wanted, made, strict=True), 1):
            self._link("task", planned.key, task.id, fingerprint(planned))
            self._progress("tasks", number, len(wanted))
        return made

    async def _append(
        self, wanted: Sequence[PlannedTask], targets: Mapping[str, LockedColumn], seeing: Collection[int]
    ) -> list[Task]:
        """Insert tasks at the ends of their columns with few statements.

        `seeing` contains the IDs of assigned people who can see the project. Returns the tasks in the order of
        `wanted`, which is also the sort order of their IDs.
        """
        task_ids = sorted(new_id("tsk") for _ in wanted)
        ids = {**self._ids, **{each.key: task_id for task_id, each in zip(task_ids, wanted, strict=True)}}
        writer = TaskWriter(self._context, notify=False)
        for task_id, each in zip(task_ids, wanted, strict=True):
            target = targets[each.column_key]
            change = writer.create(self.access, target, self._task(target, task_id, each, seeing), None)
            parent_id = ids.get(each.parent_key) if each.parent_key else None
            change.after = msgspec.structs.replace(change.after, parent_id=parent_id)
        await self._settle(list(writer.changes.values()))
        await writer.write(check_relations=False)
        unmatched = [
            {"repository_id": self.access.repository.id, **row}
            for task_id, planned in zip(task_ids, wanted, strict=True)
            for row in rows_of(task_id, self._assigned(planned, seeing)[1], self._this.plan.source)
        ]
        await self._tx.execute_many(insert_unmatched, unmatched)
        return [each.after for each in writer.changes.values()]

    def _assigned(self, planned: PlannedTask, seeing: Collection[int]) -> tuple[list[Account], list[Person]]:
        """Return the assignees, oldest account first, and the strangers: people without an account or access."""
        known = [self._this.people.find(each, self._this.plan.source) for each in planned.members]
        assignees = {each.id: each for each in known if each is not None and each.id in seeing}
        strangers = [
            member
            for member, account in zip(planned.members, known, strict=True)
            if account is None or account.id not in seeing
        ]
        return [assignees[account_id] for account_id in sorted(assignees)], strangers

    async def _settle(self, made: Sequence[TaskChange]) -> None:
        """Remove parents that cannot have these subtasks."""
        new_ids = {each.after.id for each in made}
        parented = [each for each in made if each.after.parent_id and each.after.parent_id not in new_ids]
        for at, each in enumerate(parented):
            each.named = partial("{}.{}".format, at)
        try:
            await relations.check_relations(self._tx, parented)
        except Invalid as problem:
            for at in sorted({int((fault.field or "").partition(".")[0]) for fault in problem.faults}):
                alone = parented[at]
                self.alone.append(alone.after.title)
                alone.after = msgspec.structs.replace(alone.after, parent_id=None)

    def _task(self, target: LockedColumn, task_id: str, planned: PlannedTask, seeing: Collection[int]) -> Task:
        now = self._context.now
        assignees, strangers = self._assigned(planned, seeing)
        fields = add_strangers_field(planned, strangers, self._this.plan.source)
        return msgspec.structs.replace(
            build_blank_task(self.access, target, task_id, planned.title, now),
            **{name: getattr(planned, name) for name in _KEPT},
            fields=json.encode_text(fields),
            sections=json.encode_text(planned.sections),
            labels=json.encode_text(planned.labels),
            assignees=tuple(map(person_to_response, assignees)),
            completed_at=min(planned.finished_at or now, now) if planned.finished or target.completes else None,
            created_at=min(planned.created_at or now, now),
        )

    async def _comments(self, wanted: Sequence[tuple[CommentedTask, PlannedComment]]) -> None:
        records = []
        authors = self._this.people if self._this.keeps_authors else People((), {})
        for number, (task, planned) in enumerate(wanted, 1):
            found = authors.find(planned.author, self._this.plan.source)
            author, name = found or self.access.user, None if found else title_of(planned.author.display_name)
            at = min(planned.created_at or self._context.now, self._context.now)
            places = {"task_id": task.id, "repository_id": self.access.repository.id, "user_id": author.id}
            new = TaskComment(0, planned.text, False, task, person_to_response(author), at, at, name)
            comment = await comments.insert(self._tx, new, **places)
            self._link("task_comment", planned.key, str(comment.id), fingerprint(planned))
            records.append(to_response(comment))
            self._progress("comments", number, len(wanted))
        created = [RecordEvent(self.access.repository, "task_comment", "created", each) for each in records]
        await publish_events(self._context, created)


# --- all batches ------------------------------------------------------------------------------------------------------

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
