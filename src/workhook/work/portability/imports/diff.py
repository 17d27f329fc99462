"""Comparison of a plan with the existing records.

An import only adds missing records. It never changes existing ones, because people continue to work on them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import sqlalchemy as sa

from workhook.identity.queries import find_project
from workhook.identity.schemas import Account, Repository
from workhook.identity.tables import projects
from workhook.storage import Reader, Row, Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import bigint_param, insert_into
from workhook.work.board.tasks.schemas import columns, tasks
from workhook.work.discussion.schemas import CommentedTask
from workhook.work.kernel.tables import import_links
from workhook.work.portability.imports.plan import ImportPlan, PlannedColumn, PlannedComment, PlannedTask, fingerprint

_of_source = (import_links.c.account_id == bigint_param("account_id"), import_links.c.source == sa.bindparam("source"))
_links = (
    sa.select(import_links, projects.c.id.label("project_id"))
    .join_from(import_links, projects, projects.c.repository_id == import_links.c.repository_id)
    .where(*_of_source, any_of(import_links.c.external_id, "keys"), projects.c.deleted_at.is_(None))
)
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


async def forget_links(tx: Transaction, account_id: int, source: str, gone: Sequence[str]) -> None:
    """Delete links into deleted projects, and the links with keys in `gone`."""
    await tx.execute(_forget, {"account_id": account_id, "source": source})
    if gone:
        await tx.execute(_forget_keys, {"account_id": account_id, "source": source, "keys": list(gone)})


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
    """Compare the plan with the records that still exist, given as `column_ids` and as `titles` of tasks by ID."""
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
