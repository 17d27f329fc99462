"""Delete an organization: hide it in one commit, then remove its rows from every table and its files from the store.

The removal is done in short transactions. Each one locks the organization's row, so that processes take turns and the
next run continues where a crashed process stopped. Webhooks are kept until they have sent the event about the deletion,
for at most `LAST_DELIVERIES_MS`.

Tables are found by their columns, so a new table with a `repository_id` or an `account_id` is emptied without being
listed here. `tests/walls/test_deleting_an_organization.py` checks that every table is covered.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache, partial

import sqlalchemy as sa
import structlog

from workhook.core.clock import HOUR_MS
from workhook.core.errors import NotFound
from workhook.http.calls import Services
from workhook.http.endpoints import EmptyObject, Routes
from workhook.http.operations import WEBHOOK_API
from workhook.identity import audit, removal
from workhook.identity.apps import actions as apps
from workhook.identity.apps import queries as app_queries
from workhook.identity.apps.installer import uninstall
from workhook.identity.authenticator import named_organization
from workhook.identity.context import Write
from workhook.identity.queries import find_account
from workhook.identity.schemas import Account, organization_to_response
from workhook.identity.tables import accounts, collaborators, invitations, memberships, projects
from workhook.identity.tokens.issue import forget_after_commit
from workhook.storage import Reader, Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import bigint_param, metadata
from workhook.storage.signals import HOOK
from workhook.storage.sweeping import for_each_isolated
from workhook.work.administration.accounts import require_administrator
from workhook.work.board.projects.deletion import delete_in_batches
from workhook.work.kernel.record_events import publish_event
from workhook.work.kernel.tables import clients
from workhook.work.money.invoices.schemas import invoices, is_issued

DELETING, DELETED = "deleting", "deleted"
"""The account's `kind` while it is being emptied, and afterwards.

The row is kept as a number without a name, because IDs are never reused and finding all references to an account would
scan whole tables.
"""
LAST_DELIVERIES_MS = HOUR_MS
EVENTS_BATCH = 100
_NO_ACCOUNT = 0  # its own audit log is deleted, so the entry about the deletion belongs to the server

log = structlog.get_logger(__name__)

_lock = (
    sa.select(accounts.c.id)
    .where(accounts.c.id == bigint_param("account_id"), accounts.c.kind == "organization")
    .with_for_update()
)
_projects = sa.select(projects.c.repository_id).where(projects.c.account_id == bigint_param("account_id"))
_hide_projects = (
    sa.update(projects)
    .where(projects.c.account_id == bigint_param("account_id"))
    .values(deleted_at=sa.func.coalesce(projects.c.deleted_at, bigint_param("now")))
)
_leave = (
    sa.delete(memberships).where(memberships.c.organization_id == bigint_param("account_id")),
    sa.delete(collaborators).where(collaborators.c.repository_id.in_(_projects)),
    sa.delete(clients).where(clients.c.repository_id.in_(_projects)),
    sa.delete(invitations).where(invitations.c.account_id == bigint_param("account_id")),
)
_rename = (
    sa.update(accounts)
    .where(accounts.c.id == bigint_param("account_id"))
    .values(
        kind=DELETING,
        login=sa.bindparam("login"),
        login_key=sa.bindparam("login_key"),
        name=sa.null(),
        email=sa.null(),
        avatar=sa.null(),
        disabled_at=bigint_param("now"),
        updated_at=bigint_param("now"),
    )
)
_issued = (
    sa.select(sa.func.count().label("number"))
    .select_from(invoices)
    .where(invoices.c.account_id == bigint_param("account_id"), is_issued)
)


async def count_issued_invoices(reader: Reader, organization: Account) -> int:
    """Return the number of invoices the organization has issued, which the law requires it to keep.

    Callers use it to recommend an export before the deletion.
    """
    row = await reader.fetch_row(_issued, {"account_id": organization.id})
    return int(row["number"])


async def delete_organization(write: Write, organization: Account) -> None:
    """Delete an organization with everything in it.

    Its webhooks receive the event `organization` `deleted`. People keep their accounts and their other memberships. The
    login becomes available immediately. Raises `NotFound` if it was deleted in the meantime.
    """
    tx, params = write.tx, {"account_id": organization.id, "now": write.now}
    if await tx.fetch_one(_lock, {"account_id": organization.id}) is None:
        raise NotFound()
    issued = await count_issued_invoices(tx, organization)
    await publish_event(
        write, organization, "organization", "deleted", organization_to_response(organization, write.base)
    )
    for kind in ("oauth", "app"):
        for app in (await app_queries.list_apps(tx, organization.id, kind))[0]:
            await apps.delete_app(tx, write.caller, app)
    for installation in (await app_queries.list_installations_on(tx, organization.id))[0]:
        await uninstall(tx, write.caller, installation)
    for statement in _leave:
        await tx.execute(statement, {"account_id": organization.id})
    await removal.rights_lost(tx, organization.id, actor=write.caller, base=write.base)
    await tx.execute(_hide_projects, params)
    # No login contains `#`, so no login matches the row.
    await tx.execute(
        _rename, {**params, "login": f"deleted-{organization.id}", "login_key": f"deleted#{organization.id}"}
    )
    forget_after_commit(tx)
    detail = {"id": organization.id, "issued_invoices": issued}
    await audit.record(
        tx, write.caller, "organization.delete", organization.login, account_id=_NO_ACCOUNT, detail=detail
    )


routes = Routes(WEBHOOK_API, "support")


@routes.delete("/orgs/{org}", status=202, access="organization.admin")
async def organization_delete(write: Write) -> EmptyObject:
    """Delete an organization.

    Deletes the organization with everything in it. It disappears immediately; its data is removed in the background,
    usually within a minute. This cannot be undone. People keep their accounts. The organization's own webhooks receive
    the event `organization` with the action `deleted`, and have one hour to receive it. Issued invoices are deleted
    too, so export the organization first if you must keep them. Only owners of the organization can call this.
    """
    await delete_organization(write, named_organization(write.call).account)
    return EmptyObject()


@routes.delete(
    "/admin/organizations/{org}",
    status=202,
    access="site_admin",
    tag="administration",
    action="organization.delete",
)
async def admin_organizations_delete(write: Write, org: str) -> EmptyObject:
    """Delete an organization as an administrator.

    Works like `DELETE /orgs/{org}`. Only server administrators can call this; they do not need to be members of the
    organization.
    """
    await require_administrator(write.tx, write.actor)
    organization = await find_account(write.tx, org)
    if organization is None or organization.kind != "organization":
        raise NotFound()
    await delete_organization(write, organization)
    return EmptyObject()


# --- removing what a deleted organization has left --------------------------------------------------------------------

_HISTORY = ("events", "deliveries", "hooks", "projects")
"""Tables that `_remove_events` and the last steps empty."""

_deleting = (
    sa.select(accounts.c.id).where(accounts.c.kind == sa.literal_column(f"'{DELETING}'")).order_by(accounts.c.id)
)
_lock_deleting = (
    sa.select(accounts.c.id, accounts.c.disabled_at)
    .where(accounts.c.id == bigint_param("account_id"), accounts.c.kind == DELETING)
    .with_for_update(skip_locked=True)
)
_next_project = (
    sa.select(projects.c.repository_id)
    .where(projects.c.account_id == bigint_param("account_id"), projects.c.repository_id > bigint_param("after"))
    .order_by(projects.c.repository_id)
    .limit(1)
)
_remove_project = sa.delete(projects).where(projects.c.repository_id == bigint_param("repository_id"))
_finish = sa.update(accounts).where(accounts.c.id == bigint_param("account_id")).values(kind=DELETED)


class _History:
    """Statements on events, dispatches, deliveries and webhooks, whose tables another package declares."""

    def __init__(self) -> None:
        events, dispatches = metadata.tables["events"], metadata.tables["dispatches"]
        deliveries, hooks, keys = (metadata.tables[each] for each in ("deliveries", "hooks", "event_keys"))
        some = sa.select(events.c.id).limit(EVENTS_BATCH)
        self.of_project = some.where(events.c.repository_id == bigint_param("repository_id"))
        self.of_account = some.where(
            events.c.account_id == bigint_param("account_id"), events.c.repository_id.is_(None)
        )
        self.guids = sa.select(dispatches.c.guid).where(any_of(dispatches.c.event_id, "ids"))
        self.remove_deliveries = sa.delete(deliveries).where(any_of(deliveries.c.guid, "guids"))
        self.remove_dispatches = sa.delete(dispatches).where(any_of(dispatches.c.event_id, "ids"))
        self.remove_events = sa.delete(events).where(any_of(events.c.id, "ids"))
        self.remove_keys = sa.delete(keys).where(keys.c.scope == sa.bindparam("scope"))
        self.hooks = sa.select(hooks.c.id).where(hooks.c.account_id == bigint_param("account_id")).limit(EVENTS_BATCH)
        self.remove_hooks = sa.delete(hooks).where(any_of(hooks.c.id, "hook_ids"))
        self.waiting = (
            sa.select(dispatches.c.id)
            .join(hooks, hooks.c.id == dispatches.c.hook_id)
            .where(hooks.c.account_id == bigint_param("account_id"), dispatches.c.next_attempt_at.is_not(None))
            .limit(1)
        )


_history = cache(_History)


@cache
def tables_of_accounts() -> tuple[tuple[sa.Table, str], ...]:
    """Return the tables with an organization's ID, and the column that contains it.

    Dependents precede the tables they reference.
    """
    return tuple(
        (table, name)
        for table in reversed(metadata.sorted_tables)
        for name in ("account_id", "organization_id")
        if name in table.c and table.name not in _HISTORY
    )


@cache
def tables_of_projects() -> tuple[sa.Table, ...]:
    """Return the tables with a project's ID. Dependents precede the tables they reference."""
    return tuple(
        table
        for table in reversed(metadata.sorted_tables)
        if "repository_id" in table.c and table.name not in (*_HISTORY, "audit_log")
    )


async def purge(services: Services, now: int) -> int:
    """Empty deleted organizations, as a periodic task. Returns how many were finished. Raises `Unavailable`."""
    found = [row["id"] for row in await services.database.fetch_all(_deleting, {})]
    return await for_each_isolated("deleted_organizations", found, lambda each: purge_one(services, each, now))


async def purge_one(services: Services, account_id: int, now: int) -> bool:
    """Empty one organization.

    Returns False if its webhooks still have pending deliveries, or another process is emptying it.
    """
    emptying = _Emptying(services, account_id)
    done = await emptying.empty_projects() and await emptying.deliveries_are_over(now) and await emptying.remove()
    if done:
        log.info("organization_purged", account_id=account_id)
    return done


class _Emptying:
    def __init__(self, services: Services, account_id: int) -> None:
        self._services, self._account_id = services, account_id
        self._params: dict[str, object] = {"account_id": account_id}

    async def _locked(self, tx: Transaction) -> int | None:
        """Return the time of the deletion, or None if the organization is gone or locked elsewhere."""
        row = await tx.fetch_one(_lock_deleting, self._params)
        return None if row is None else row["disabled_at"]

    async def _admit(self, tx: Transaction) -> bool:
        return await self._locked(tx) is not None

    async def _empty_project(self, repository_id: int) -> bool:
        return await delete_in_batches(
            self._services, tables_of_projects(), "repository_id", repository_id, admit=self._admit
        )

    async def empty_projects(self) -> bool:
        """Empty the projects but keep their rows, because webhooks refer to them."""
        after = 0
        while True:
            row = await self._services.database.fetch_one(_next_project, {**self._params, "after": after})
            if row is None:
                return True
            after = row["repository_id"]
            if not await self._empty_project(after):
                return False

    async def deliveries_are_over(self, now: int) -> bool:
        async def look(tx: Transaction) -> bool:
            deleted_at = await self._locked(tx)
            if deleted_at is None:
                return False
            if deleted_at < now - LAST_DELIVERIES_MS:
                return True
            return await tx.fetch_one(_history().waiting, self._params) is None

        return await self._services.database.in_transaction(look)

    async def remove(self) -> bool:
        """Remove webhooks, events, projects, and everything that belongs directly to the organization."""
        if not await self._repeat(self._remove_hooks):
            return False
        while row := await self._services.database.fetch_one(_next_project, {**self._params, "after": 0}):
            repository_id = row["repository_id"]
            if not await self._repeat(partial(self._remove_events, repository_id)):
                return False
            # Rows that a request wrote while the organization was being deleted.
            if not await self._empty_project(repository_id):
                return False
            if not await self._repeat(partial(self._remove_project, repository_id)):
                return False
        if not await self._repeat(partial(self._remove_events, None)):
            return False
        for table, column in tables_of_accounts():
            if not await delete_in_batches(self._services, [table], column, self._account_id, admit=self._admit):
                return False
        return await self._repeat(self._finish)

    async def _repeat(self, step: Callable[[Transaction], Awaitable[bool]]) -> bool:
        """Run `step` in transactions until it returns True. Returns False if another process has the lock."""

        async def some(tx: Transaction) -> bool | None:
            return await step(tx) if await self._admit(tx) else None

        while (done := await self._services.database.in_transaction(some)) is False:
            pass
        return done is not None

    async def _remove_hooks(self, tx: Transaction) -> bool:
        ids = [row["id"] for row in await tx.fetch_all(_history().hooks, self._params)]
        if ids:
            await tx.execute(_history().remove_hooks, {"hook_ids": ids})
            tx.signal(HOOK, ids)
        return not ids

    async def _remove_events(self, repository_id: int | None, tx: Transaction) -> bool:
        """Remove a batch of events of one project, or of the organization itself."""
        history = _history()
        if repository_id is None:
            rows, scope = await tx.fetch_all(history.of_account, self._params), f"o{self._account_id}"
        else:
            rows = await tx.fetch_all(history.of_project, {"repository_id": repository_id})
            scope = f"r{repository_id}"
        ids = [row["id"] for row in rows]
        if not ids:
            await tx.execute(history.remove_keys, {"scope": scope})
            return True
        guids = [row["guid"] for row in await tx.fetch_all(history.guids, {"ids": ids})]
        if guids:
            await tx.execute(history.remove_deliveries, {"guids": guids})
            await tx.execute(history.remove_dispatches, {"ids": ids})
        await tx.execute(history.remove_events, {"ids": ids})
        return False

    async def _remove_project(self, repository_id: int, tx: Transaction) -> bool:
        await tx.execute(_remove_project, {"repository_id": repository_id})
        return True

    async def _finish(self, tx: Transaction) -> bool:
        await tx.execute(_finish, self._params)
        return True
