"""Deleted projects, tasks and files, which can be restored for 30 days and are then purged.

`/trash`, `/projects/{id}/trash`, `/projects/{id}/restore`, and the chores that purge expired items.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Literal

import msgspec
import sqlalchemy as sa
import structlog

from workhook.core.clock import DAY_MS, now_ms, to_millis_text
from workhook.core.errors import NotFound
from workhook.core.records import to_response
from workhook.http import lists
from workhook.http.calls import Call, Services
from workhook.http.endpoints import Listed, Routes
from workhook.http.operations import WORK_API
from workhook.identity import audit, removal
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.identity.queries import key_of, repository_columns, repository_of, role_columns
from workhook.identity.tables import accounts, collaborators, memberships, projects
from workhook.identity.tokens.lookup import check_reach, reach_params
from workhook.storage import Row, Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import bigint_param, metadata
from workhook.storage.statements import PerDialect
from workhook.storage.sweeping import for_each_isolated, in_order
from workhook.work.board.projects import actions, schemas
from workhook.work.board.projects.deletion import delete_in_batches
from workhook.work.board.projects.listing import FLAGS, each_chosen
from workhook.work.board.tasks.schemas import tasks
from workhook.work.files.schemas import files
from workhook.work.kernel.access import find_access, role_in
from workhook.work.kernel.list_statements import Columns, caller_accounts, select_first, select_first_per_group
from workhook.work.kernel.scopes import CALLER, CHOSEN, WHOLE
from workhook.work.money.invoices.schemas import invoices
from workhook.work.money.issued import has_any, has_issued
from workhook.work.time.timesheets.schemas import timesheets

routes = Routes(WORK_API, "Trash")
log = structlog.get_logger(__name__)

KEPT_MS = 30 * DAY_MS
TASKS_BATCH = 100  # deleted tasks removed in one transaction

_TRASH = ("id", "title", "deleted_at")


def _last_first(found: sa.FromClause) -> Columns:
    return [found.c.deleted_at.desc(), found.c.id.desc()]


def _further(found: sa.FromClause, continues: bool) -> list[sa.ColumnElement[bool]]:
    behind = sa.tuple_(bigint_param("deleted_at"), sa.bindparam("after_id", type_=sa.Text))
    return [sa.tuple_(found.c.deleted_at, found.c.id) < behind] if continues else []


def _deleted_of(table: sa.Table, kind: str, continues: bool) -> sa.Select[Any]:
    """Select a page of one kind, in order, from its own index."""
    conditions = [table.c.repository_id == bigint_param("repository_id"), table.c.deleted_at.is_not(None)]
    some = sa.select(*(table.c[name] for name in _TRASH)).where(*conditions, *_further(table, continues))
    found = some.order_by(*_last_first(table)).limit(bigint_param("limit")).subquery(kind)
    return sa.select(sa.literal_column(f"'{kind}'").label("type"), *found.c)


_in_trash = {
    continues: select_first(
        [_deleted_of(tasks, "task", continues), _deleted_of(files, "file", continues)], ["type", *_TRASH], _last_first
    )
    for continues in (False, True)
}
_deleted = (
    sa.select(*repository_columns(), *role_columns, projects.c.avatar, projects.c.label_colors, projects.c.deleted_at)
    .join_from(projects, accounts, accounts.c.id == projects.c.account_id)
    .where(projects.c.id == sa.bindparam("project_id"), projects.c.deleted_at.is_not(None))
    .with_for_update(of=projects, key_share=True)
)
_restore = (
    sa.update(projects)
    .where(projects.c.repository_id == bigint_param("id"))
    .values(
        deleted_at=None, updated_at=bigint_param("now"), name=sa.bindparam("name"), name_key=sa.bindparam("name_key")
    )
)


class TrashShape(msgspec.Struct):
    """A deleted item that can be restored."""

    type: Literal["project", "task", "file"]
    id: str
    title: str
    deleted_at: str


class TrashAnswer(msgspec.Struct):
    trash: list[TrashShape]
    success: bool = True


@routes.get("/trash")
async def list_trash(call: Call, query: lists.ListQuery) -> Listed[TrashAnswer]:
    """List deleted projects that the caller can restore.

    The most recently deleted come first. A project is purged with all its contents 30 days after it was deleted.
    """
    return await list_trash_of(call, query)


async def list_trash_of(call: Call, query: lists.ListQuery, account_id: int | None = None) -> Listed[TrashAnswer]:
    """List the caller's deleted projects, or only those of the account. Only sessions may pass `account_id`."""
    actor, after = actor_of(call), lists.after(query, tuple[int, str])
    params: dict[str, object] = {"user_id": actor.user.id, "since": now_ms() - KEPT_MS, "limit": query.limit + 1}
    params |= reach_params(actor)
    if account_id is not None:
        assert actor.grants is None, "only sessions ask"
        params[WHOLE], params[CHOSEN] = [account_id], []
    if after is not None:
        params["deleted_at"], params["after_id"] = after
    confined = actor.grants is not None or account_id is not None
    return _page(call, query, await call.database.fetch_all(_deleted_projects[confined, after is not None], params))


@routes.get("/projects/{id}/trash")
async def list_project_trash(call: Call, project_id: str, query: lists.ListQuery) -> Listed[TrashAnswer]:
    """List deleted tasks and files of a project that can be restored.

    The most recently deleted come first. Not available to clients.
    """
    after = lists.after(query, tuple[int, str])
    access = await find_access(call.database, actor_of(call), project_id)
    access.require_member("see deleted items")
    params: dict[str, object] = {"repository_id": access.repository.id, "limit": query.limit + 1}
    if after is not None:
        params["deleted_at"], params["after_id"] = after
    return _page(call, query, await call.database.fetch_all(_in_trash[after is not None], params))


def _page(call: Call, query: lists.ListQuery, found: Sequence[Row]) -> Listed[TrashAnswer]:
    rows, headers = lists.page(call, found, query, lambda row: (row["deleted_at"], row["id"]))
    trash = [TrashShape(row["type"], row["id"], row["title"], to_millis_text(row["deleted_at"])) for row in rows]
    return Listed(TrashAnswer(trash), headers)


@routes.post("/projects/{id}/restore")
async def restore_project(write: Write, project_id: str) -> schemas.ProjectAnswer:
    """Restore a deleted project.

    Available for 30 days to owners of its organization and admins of the project. Its webhooks work again and receive
    the event `project` with the action `created`. The project's name gets a suffix if another project uses it now.
    """
    row = await write.tx.fetch_one(_deleted, {"project_id": project_id, "user_id": write.actor.user.id})
    if row is None:  # restoring a project that is not deleted changes nothing
        project = await actions.lock_project(write, project_id)
        actions.require_role(project, "admin")
        return schemas.ProjectAnswer(to_response(project))
    old = repository_of(row, write.actor.user.id)  # with the role that the caller had and still has
    write.actor.request.set_subject(old.owner.id, old.id, hidden=old.role is None)
    if old.role is not None:
        check_reach(write.actor, old.owner.id, old.id)
    if old.role != "admin":
        raise NotFound()
    if row["deleted_at"] < write.now - KEPT_MS and not await has_any(write.tx, old.id):
        raise NotFound()
    await actions.lock_names_for_rename(write.tx, old.id)
    name = await actions.free_name(write.tx, old.owner.id, old.name)
    updated_at = max(write.now, old.updated_at + 1)
    await write.tx.execute(_restore, {"id": old.id, "name": name, "name_key": key_of(name), "now": updated_at})
    project = await actions.find_project(write.tx, write.actor, project_id)
    await actions.publish(write, project, "created", verb="restore")  # its webhooks received the deletion
    return schemas.ProjectAnswer(to_response(project))


# --- deleted projects, most recent first ------------------------------------------------------------------------------


def _restorable(project: sa.FromClause, continues: bool) -> Columns:
    """Include projects with issued invoices, which are never purged."""
    bill = invoices.alias("bill")
    issued = (
        sa.select(bill.c.id)
        .where(bill.c.repository_id == project.c.repository_id, bill.c.status != "draft")
        .limit(1)
        .correlate(project)
        .scalar_subquery()
    )
    kept = sa.or_(project.c.deleted_at >= bigint_param("since"), issued.is_not(None))
    return [project.c.deleted_at.is_not(None), kept, *_further(project, continues)]


def _of_owned(dialect: str, *, confined: bool, continues: bool) -> sa.Select[Any]:
    place = caller_accounts(within=WHOLE if confined else None)
    owned = sa.select(place.c.account_id).where(place.c.role == "owner").subquery("owned")

    def fits(row: sa.FromClause) -> Columns:
        return [row.c.account_id == owned.c.account_id, *_restorable(row, continues)]

    return select_first_per_group(dialect, projects, "repository_id", owned, fits, _last_first, _TRASH)


def _as_admin(*, confined: bool, continues: bool) -> sa.Select[Any]:
    """Read all projects that the caller administers as a collaborator, because no index covers both conditions."""
    hand, there = collaborators.alias("hand"), projects.alias("there")
    found = sa.select(*(there.c[name] for name in _TRASH)).join_from(
        hand, there, there.c.repository_id == hand.c.repository_id
    )
    found = found.where(hand.c.user_id == CALLER, hand.c.role == "admin", *_restorable(there, continues))
    return found.where(any_of(there.c.account_id, WHOLE)) if confined else found


def _chosen_as_admin(*, continues: bool) -> sa.Select[Any]:
    one = each_chosen()
    is_admin = sa.or_(
        one.c.account_id == CALLER,
        role_in(memberships, one, CALLER) == "owner",
        role_in(collaborators, one, CALLER) == "admin",
    )
    return sa.select(*(one.c[name] for name in _TRASH)).where(is_admin, *_restorable(one, continues))


def _trash(confined: bool, continues: bool) -> PerDialect:
    def make(dialect: str) -> sa.Select[Any]:
        ways = [
            _of_owned(dialect, confined=confined, continues=continues),
            _as_admin(confined=confined, continues=continues),
            *([_chosen_as_admin(continues=continues)] if confined else []),
        ]
        return select_first(ways, _TRASH, _last_first).add_columns(sa.literal_column("'project'").label("type"))

    return PerDialect.made_by(make)


_deleted_projects = {flags: _trash(*flags) for flags in FLAGS}


# --- purging ----------------------------------------------------------------------------------------------------------

# A project with issued invoices cannot be deleted and is never purged.
_old = (
    sa.select(projects.c.repository_id)
    .where(projects.c.deleted_at < bigint_param("before"), ~has_issued)
    .order_by(projects.c.deleted_at)
)
# Returns no row if the project was restored, purged, or locked by another process.
_lock_expired = (
    sa.select(projects.c.account_id, projects.c.name)
    .where(
        projects.c.repository_id == bigint_param("repository_id"),
        projects.c.deleted_at < bigint_param("before"),
        ~has_issued,
    )
    .with_for_update(skip_locked=True)
)
_remove = sa.delete(projects).where(projects.c.repository_id == bigint_param("repository_id"), ~has_issued)


@cache
def project_tables() -> list[sa.Table]:
    """Return the tables of a project's records, referencing tables before referenced ones."""
    return [
        table
        for table in reversed(metadata.sorted_tables)
        if any(key.column is projects.c.repository_id and key.ondelete == "CASCADE" for key in table.foreign_keys)
    ]


async def purge_projects(services: Services, now: int) -> int:
    """Purge projects deleted over 30 days ago, and return their number.

    Each project is emptied in small transactions, and an interrupted purge is resumed. A project whose webhooks have
    pending deliveries is kept until these are done. Safe to run in several processes at once.
    """
    before = now - KEPT_MS
    found = [row["repository_id"] for row in await services.database.fetch_all(_old, {"before": before})]
    return await for_each_isolated("deleted_projects", found, lambda each: _purge_one(services, each, before))


async def _purge_one(services: Services, repository_id: int, before: int) -> bool:
    params = {"repository_id": repository_id, "before": before}
    called: list[Row] = []

    async def is_expired(tx: Transaction) -> bool:
        expired = await tx.fetch_one(_lock_expired, params)
        if expired is None or not await removal.forget(tx, repository_id):
            return False
        called[:] = [expired]
        return True

    async def remove(tx: Transaction) -> None:
        await tx.execute(_remove, params)
        [project] = called
        await audit.record(tx, None, "project.purge", project["name"], account_id=project["account_id"])

    gone = await delete_in_batches(
        services, project_tables(), "repository_id", repository_id, admit=is_expired, last=remove
    )
    if gone:
        log.info("project_purged", repository_id=repository_id)
    return gone


_old_task = tasks.alias("deleted")
_is_due = (
    _old_task.c.deleted_at < bigint_param("before"),
    # A task with recorded time is kept because invoices bill the time under the task's name.
    ~sa.exists().where(timesheets.c.task_id == _old_task.c.id),
)
_following_tasks = (
    sa.select(_old_task.c.id, _old_task.c.deleted_at)
    .where(
        *_is_due,
        _old_task.c.deleted_at >= bigint_param("last_at"),
        sa.or_(
            _old_task.c.deleted_at > bigint_param("last_at"), _old_task.c.id > sa.bindparam("last_id", type_=sa.Text())
        ),
    )
    .order_by(_old_task.c.deleted_at, _old_task.c.id)
    .limit(bigint_param("limit"))
)
# Check again under the lock, because another process may already have taken these tasks.
_these_tasks = sa.select(_old_task.c.id).where(any_of(_old_task.c.id, "ids"), *_is_due)
_purge_tasks = sa.delete(tasks).where(tasks.c.id.in_(_these_tasks.with_for_update(of=_old_task, skip_locked=True)))


async def purge_tasks(services: Services, now: int) -> int:
    """Purge tasks without recorded time that were deleted over 30 days ago, and return their number.

    Safe to run in several processes at once.
    """
    database, due = services.database, {"before": now - KEPT_MS}

    async def following(last: Row | None, limit: int) -> Sequence[Row]:
        behind = {"last_at": last["deleted_at"], "last_id": last["id"]} if last else {"last_at": -1, "last_id": ""}
        return await database.fetch_all(_following_tasks, {**due, **behind, "limit": limit})

    async def remove(last: Row | None, rows: Sequence[Row]) -> int:
        these = {**due, "ids": [row["id"] for row in rows]}
        return await database.in_transaction(lambda tx: tx.execute(_purge_tasks, these))

    return await in_order("deleted_tasks", TASKS_BATCH, following, remove)
