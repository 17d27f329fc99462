"""What of a plan is not there yet. An import adds that, and leaves alone what is there: people go on working on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import sqlalchemy as sa

from workhook.identity.queries import find_project
from workhook.identity.schemas import Account, Repository, account_of
from workhook.identity.tables import accounts, memberships, projects
from workhook.storage import Reader, Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big, insert_into
from workhook.work.columns.schemas import columns
from workhook.work.comments.schemas import CommentedTask
from workhook.work.imports.plan import ImportPlan, PlannedColumn, PlannedComment, PlannedTask, fingerprint
from workhook.work.imports.tables import import_links
from workhook.work.tasks.tables import tasks


class ImportLink(msgspec.Struct, frozen=True):
    """What was made of a thing of another service, and in which project that is."""

    repository_id: int
    project_id: str
    internal_id: str
    fingerprint: str


_of_source = (import_links.c.account_id == big("account_id"), import_links.c.source == sa.bindparam("source"))
_links = (
    sa.select(
        import_links.c.external_id,
        import_links.c.repository_id,
        projects.c.id.label("project_id"),
        import_links.c.internal_id,
        import_links.c.fingerprint,
    )
    .join_from(import_links, projects, projects.c.repository_id == import_links.c.repository_id)
    .where(*_of_source, any_of(import_links.c.external_id, "keys"), projects.c.deleted_at.is_(None))
)
_forget = sa.delete(import_links).where(
    *_of_source,
    import_links.c.repository_id.in_(
        sa.select(projects.c.repository_id).where(
            projects.c.account_id == big("account_id"), projects.c.deleted_at.is_not(None)
        )
    ),
)
_forget_keys = sa.delete(import_links).where(*_of_source, any_of(import_links.c.external_id, "keys"))
_insert = insert_into(
    import_links, "account_id", "source", "external_id", "repository_id", "kind", "internal_id", "fingerprint"
)
_columns = sa.select(columns.c.id).where(columns.c.repository_id == big("repository_id"))
_tasks = sa.select(tasks.c.id, tasks.c.title).where(
    tasks.c.repository_id == big("repository_id"), tasks.c.deleted_at.is_(None), any_of(tasks.c.id, "task_ids")
)
_members = (
    sa.select(*(accounts.c[name] for name in Account.__struct_fields__))
    .join_from(accounts, memberships, memberships.c.user_id == accounts.c.id)
    .where(memberships.c.organization_id == big("organization_id"), accounts.c.kind == "user")
    .order_by(accounts.c.id)
)


async def find_links(reader: Reader, account_id: int, source: str, keys: Sequence[str]) -> dict[str, ImportLink]:
    """By key. Links into projects that were deleted count for nothing."""
    rows = await reader.fetch_all(_links, {"account_id": account_id, "source": source, "keys": list(keys)})
    return {
        row["external_id"]: ImportLink(row["repository_id"], row["project_id"], row["internal_id"], row["fingerprint"])
        for row in rows
    }


async def forget_links(tx: Transaction, account_id: int, source: str, gone: Sequence[str]) -> None:
    """Those into projects that were deleted, and the keys in `gone`."""
    await tx.execute(_forget, {"account_id": account_id, "source": source})
    if gone:
        await tx.execute(_forget_keys, {"account_id": account_id, "source": source, "keys": list(gone)})


async def insert_links(
    tx: Transaction, account_id: int, source: str, repository_id: int, made: Sequence[Mapping[str, str]]
) -> None:
    """`made`: external_id, kind, internal_id, fingerprint."""
    place = {"account_id": account_id, "source": source, "repository_id": repository_id}
    await tx.execute_many(_insert, [{**place, **each} for each in made])


async def living_columns(reader: Reader, repository_id: int) -> set[str]:
    return {row["id"] for row in await reader.fetch_all(_columns, {"repository_id": repository_id})}


async def living_tasks(reader: Reader, repository_id: int, task_ids: Sequence[str]) -> dict[str, str]:
    """Titles by id."""
    rows = await reader.fetch_all(_tasks, {"repository_id": repository_id, "task_ids": list(task_ids)})
    return {row["id"]: row["title"] for row in rows}


async def members_of(reader: Reader, organization_id: int) -> list[Account]:
    """Who is in the organization, oldest first."""
    return [account_of(row) for row in await reader.fetch_all(_members, {"organization_id": organization_id})]


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


async def remaining_of(reader: Reader, organization: Account, plan: ImportPlan, user_id: int) -> Remaining:
    """With the role of the user in the project, if there is one."""
    comment_keys = [each.key for task in plan.tasks for each in task.comments]
    keys = [plan.key, *(each.key for each in plan.columns), *(each.key for each in plan.tasks), *comment_keys]
    links = await find_links(reader, organization.id, plan.source, keys)
    link = links.get(plan.key)
    repository = await find_project(reader, link.project_id, user_id) if link else None
    here, living = set[str](), dict[str, str]()
    if repository is not None:
        here = await living_columns(reader, repository.id)
        task_ids = [links[each.key].internal_id for each in plan.tasks if each.key in links]
        living = await living_tasks(reader, repository.id, task_ids)
    return _compare(plan, repository, links, here, living)


def batches_of(plan: ImportPlan, rest: Remaining, size: int) -> Iterator[ImportPlan]:
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


def _with(plan: ImportPlan, comments: Sequence[tuple[CommentedTask, PlannedComment]]) -> Iterator[PlannedTask]:
    """The tasks of these comments."""
    keys = {comment.key for _, comment in comments}
    return (each for each in plan.tasks if any(comment.key in keys for comment in each.comments))


def together(plan: ImportPlan, before: Remaining, done: Sequence[Remaining]) -> Remaining:
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
        before, repository=repository, new_columns=columns, new_tasks=tasks, comments=comments, skipped=skipped
    )


def _compare(
    plan: ImportPlan,
    repository: Repository | None,
    links: dict[str, ImportLink],
    here: set[str],
    living: dict[str, str],
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
