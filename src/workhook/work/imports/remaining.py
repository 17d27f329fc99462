"""What of a plan is not there yet. An import adds that, and leaves alone what is there: people go on working on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from workhook.identity.queries import find_project
from workhook.identity.schemas import Account, Repository
from workhook.storage import Reader
from workhook.work.comments.schemas import CommentedTask
from workhook.work.imports import queries
from workhook.work.imports.plan import Plan, PlannedColumn, PlannedComment, PlannedTask, fingerprint
from workhook.work.imports.queries import Link


class Counts(msgspec.Struct, frozen=True):
    columns: int
    tasks: int
    comments: int


class Remaining(msgspec.Struct, frozen=True):
    """`repository` None: the project is to be made too. `columns`: ids of those that are there, by key. `again`: keys
    of columns that were deleted here and that new tasks need. `comments`: new ones on tasks that are there, with the
    task. `changed`: titles of tasks that have changed in the other service since they were imported."""

    repository: Repository | None
    columns: dict[str, str]
    again: list[str]
    new_columns: list[PlannedColumn]
    new_tasks: list[PlannedTask]
    comments: list[tuple[CommentedTask, PlannedComment]]
    skipped: Counts
    changed: list[str]

    @property
    def is_nothing(self) -> bool:
        return self.repository is not None and not (self.new_columns or self.new_tasks or self.comments)

    @property
    def created(self) -> Counts:
        comments = len(self.comments) + sum(len(each.comments) for each in self.new_tasks)
        return Counts(len(self.new_columns), len(self.new_tasks), comments)


async def remaining_of(reader: Reader, organization: Account, plan: Plan, user_id: int) -> Remaining:
    """With the role of the user in the project, if there is one."""
    comment_keys = [each.key for task in plan.tasks for each in task.comments]
    keys = [plan.key, *(each.key for each in plan.columns), *(each.key for each in plan.tasks), *comment_keys]
    links = await queries.find_links(reader, organization.id, plan.source, keys)
    link = links.get(plan.key)
    repository = await find_project(reader, link.project_id, user_id) if link else None
    here, living = set[str](), dict[str, str]()
    if repository is not None:
        here = await queries.living_columns(reader, repository.id)
        task_ids = [links[each.key].internal_id for each in plan.tasks if each.key in links]
        living = await queries.living_tasks(reader, repository.id, task_ids)
    return _compare(plan, repository, links, here, living)


def batches_of(plan: Plan, rest: Remaining, size: int) -> Iterator[Plan]:
    """The plan in parts, each with whole tasks of which something is new: `size` tasks and comments in all, or one task
    with its comments. The first part makes the columns; there is one in any case."""
    wanted = {each.key for each in rest.new_tasks} | {each.key for each in _with(plan, rest.comments)}
    some: list[PlannedTask] = []
    left = size
    for task in plan.tasks:
        if task.key not in wanted:
            continue
        weight = 1 + len(task.comments)
        if some and weight > left:
            yield msgspec.structs.replace(plan, tasks=some)
            some, left = [], size
        some.append(task)
        left -= weight
    yield msgspec.structs.replace(plan, tasks=some)


def _with(plan: Plan, comments: Sequence[tuple[CommentedTask, PlannedComment]]) -> Iterator[PlannedTask]:
    """The tasks of these comments."""
    keys = {comment.key for _, comment in comments}
    return (each for each in plan.tasks if any(comment.key in keys for comment in each.comments))


def together(plan: Plan, before: Remaining, done: Sequence[Remaining]) -> Remaining:
    """What was made in all, where `before` was what there was to make; another import may have made a part of it."""
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
    )


def _compare(
    plan: Plan, repository: Repository | None, links: dict[str, Link], here: set[str], living: dict[str, str]
) -> Remaining:
    new_tasks = [each for each in plan.tasks if each.key not in links]
    old_tasks = [each for each in plan.tasks if each.key in links]
    needed = {each.column_key for each in new_tasks}
    columns = {
        each.key: links[each.key].internal_id
        for each in plan.columns
        if each.key in links and links[each.key].internal_id in here
    }
    again = [each.key for each in plan.columns if each.key in links and each.key not in columns and each.key in needed]
    new_columns = [each for each in plan.columns if each.key not in links or each.key in again]
    comments = [
        (CommentedTask(links[task.key].internal_id, living[links[task.key].internal_id]), comment)
        for task in old_tasks
        if links[task.key].internal_id in living
        for comment in task.comments
        if comment.key not in links
    ]
    known = sum(len(task.comments) for task in old_tasks) - len(comments)
    skipped = Counts(len(plan.columns) - len(new_columns), len(old_tasks), known)
    changed = [each.title for each in old_tasks if fingerprint(each) != links[each.key].fingerprint]
    return Remaining(repository, columns, again, new_columns, new_tasks, comments, skipped, changed)
