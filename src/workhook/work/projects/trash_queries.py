"""The SQL of projects that were deleted: they can be restored for 30 days."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from workhook.core.clock import DAY_MS
from workhook.identity.queries import key_of, repository_columns, repository_of, role_columns
from workhook.identity.schemas import Actor
from workhook.identity.tables import accounts, projects
from workhook.identity.tokens.lookup import check_reach
from workhook.storage import Reader, Row, Transaction
from workhook.storage.metadata import big, metadata
from workhook.work.files.tables import files
from workhook.work.invoices.issued import has_issued
from workhook.work.invoices.tables import invoices
from workhook.work.projects.schemas import Project
from workhook.work.tasks.tables import tasks

KEPT_MS = 30 * DAY_MS
BATCH = 1000  # rows that one transaction removes of a table


def _deleted_of(table: sa.Table, kind: str, *, further: bool) -> sa.Select[Any]:
    """No more than a page of them can be on it: each kind is read by its own index, in order."""
    some = (
        sa.select(table.c.id, table.c.title, table.c.deleted_at)
        .where(table.c.repository_id == big("repository_id"), table.c.deleted_at.is_not(None))
        .order_by(table.c.deleted_at.desc(), table.c.id.desc())
        .limit(big("limit"))
    )
    if further:
        behind = sa.tuple_(big("deleted_at"), sa.bindparam("after_id", type_=sa.Text))
        some = some.where(sa.tuple_(table.c.deleted_at, table.c.id) < behind)
    found = some.subquery(kind)
    return sa.select(sa.literal_column(f"'{kind}'").label("type"), found.c.id, found.c.title, found.c.deleted_at)


def _deleted_in_project(*, further: bool) -> sa.Select[Any]:
    either = sa.union_all(
        _deleted_of(tasks, "task", further=further), _deleted_of(files, "file", further=further)
    ).subquery("deleted")
    return sa.select(either).order_by(either.c.deleted_at.desc(), either.c.id.desc()).limit(big("limit"))


_in_trash = _deleted_in_project(further=False)
_in_trash_after = _deleted_in_project(further=True)
_deleted = (
    sa.select(*repository_columns(), *role_columns, projects.c.avatar, projects.c.deleted_at)
    .join_from(projects, accounts, accounts.c.id == projects.c.account_id)
    .where(projects.c.id == sa.bindparam("project_id"), projects.c.deleted_at.is_not(None))
    .with_for_update(of=projects, key_share=True)
)
_restore = (
    sa.update(projects)
    .where(projects.c.repository_id == big("id"))
    .values(deleted_at=None, updated_at=big("now"), name=sa.bindparam("name"), name_key=sa.bindparam("name_key"))
)


class Deleted(msgspec.Struct, frozen=True):
    """`deleted_at`: milliseconds since the epoch."""

    project: Project
    deleted_at: int


async def list_contents(
    reader: Reader, repository_id: int, *, after: tuple[int, str] | None, limit: int
) -> Sequence[Row]:
    """The tasks and files of a project that can be restored: type, id, title, deleted_at; the last deleted first."""
    params = {"repository_id": repository_id, "limit": limit}
    if after is None:
        return await reader.fetch_all(_in_trash, params)
    return await reader.fetch_all(_in_trash_after, {**params, "deleted_at": after[0], "after_id": after[1]})


async def lock_deleted(tx: Transaction, project_id: str, actor: Actor) -> Deleted | None:
    """With the role that the user had and still has there. Until the transaction ends nobody else restores it.

    Raises `NotFound` outside the token's reach, and `Forbidden` where its permissions are not enough."""
    row = await tx.fetch_one(_deleted, {"project_id": project_id, "user_id": actor.user.id})
    if row is None:
        return None
    repository = repository_of(row, actor.user.id)
    actor.request.touches(repository.owner.id, repository.id, hidden=repository.role is None)
    if repository.role is not None:
        check_reach(actor, repository.owner.id, repository.id)
    return Deleted(Project(repository, row["avatar"]), row["deleted_at"])


async def restore_project(tx: Transaction, repository_id: int, name: str, now: int) -> None:
    await tx.execute(_restore, {"id": repository_id, "name": name, "name_key": key_of(name), "now": now})


# --- for good --------------------------------------------------------------------------------------------------------

# Projects with issued invoices cannot be deleted now. One that was deleted by an earlier version is not purged.
_old = (
    sa.select(projects.c.repository_id)
    .where(projects.c.deleted_at < big("before"), ~has_issued)
    .order_by(projects.c.deleted_at)
)
_take = (
    sa.select(projects.c.account_id, projects.c.name)
    .where(projects.c.repository_id == big("repository_id"), projects.c.deleted_at < big("before"), ~has_issued)
    .with_for_update(skip_locked=True)
)
_blobs = sa.select(files.c.blob).where(files.c.repository_id == big("repository_id"))
_remove = sa.delete(projects).where(projects.c.repository_id == big("repository_id"), ~has_issued)


def _contents() -> list[sa.Table]:
    """The tables that hold what belongs to a project, each before those that it refers to.

    One that this process has not imported goes with the project's row, in one piece.
    """
    return [
        table
        for table in reversed(metadata.sorted_tables)
        if any(key.column is projects.c.repository_id and key.ondelete == "CASCADE" for key in table.foreign_keys)
    ]


def _some(table: sa.Table) -> sa.Delete:
    """Removes a batch of what a project has in the table; all of it where a row has no single key. Issued invoices stay
    whatever happens."""
    if len(table.primary_key.columns) > 1:
        return sa.delete(table).where(table.c.repository_id == big("repository_id"))
    key = next(iter(table.primary_key.columns))
    batch = table.alias("batch")  # by itself, whatever the statement around it looks at
    mine = batch.c.repository_id == big("repository_id")
    if table is invoices:
        mine = sa.and_(mine, batch.c.status == "draft")
    return sa.delete(table).where(key.in_(sa.select(batch.c[key.name]).where(mine).limit(BATCH)))


_steps: list[sa.Delete] = []


async def deleted_before(reader: Reader, before: int) -> list[int]:
    """Repository ids, the first deleted first."""
    return [row["repository_id"] for row in await reader.fetch_all(_old, {"before": before})]


async def lock_expired(tx: Transaction, repository_id: int, before: int) -> Row | None:
    """account_id and name; None if it was restored, is gone, or somebody else is at it."""
    return await tx.fetch_one(_take, {"repository_id": repository_id, "before": before})


async def blobs_of(reader: Reader, repository_id: int) -> list[str]:
    return [row["blob"] for row in await reader.fetch_all(_blobs, {"repository_id": repository_id})]


async def empty(tx: Transaction, repository_id: int) -> bool:
    """Remove a batch of what is in the project. Answers whether it was the last."""
    if not _steps:  # now that every table is known
        _steps.extend(map(_some, _contents()))
    for step in _steps:
        if await tx.execute(step, {"repository_id": repository_id}) >= BATCH:
            return False
    return True


async def remove(tx: Transaction, repository_id: int) -> None:
    await tx.execute(_remove, {"repository_id": repository_id})
