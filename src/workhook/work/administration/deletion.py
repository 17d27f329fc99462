"""Delete an organization. It disappears in one commit, and `emptying` removes its data afterwards."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.core.errors import NotFound
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
from workhook.storage import Reader
from workhook.storage.metadata import bigint_param
from workhook.work.administration.accounts import require_administrator
from workhook.work.administration.purging import DELETING
from workhook.work.kernel.record_events import publish_event
from workhook.work.kernel.tables import clients
from workhook.work.money.invoices.schemas import invoices, is_issued

_NO_ACCOUNT = 0  # its own audit log is deleted, so the entry about the deletion belongs to the server

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
