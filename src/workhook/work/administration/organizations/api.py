"""`DELETE /orgs/{org}`, for owners, and `DELETE /admin/organizations/{org}`, for administrators of the server."""

from __future__ import annotations

import msgspec

from workhook.core.errors import NotFound
from workhook.http.endpoints import Routes
from workhook.http.operations import WEBHOOK_API
from workhook.identity.authenticator import named_organization
from workhook.identity.context import Write
from workhook.identity.queries import find_account
from workhook.work.administration.accounts.api import require_administrator
from workhook.work.administration.organizations.deletion import delete_organization

routes = Routes(WEBHOOK_API, "support")


class Accepted(msgspec.Struct):
    """`{}`: accepted. Clients parse it as JSON."""


@routes.delete("/orgs/{org}", status=202, access="organization.admin")
async def organization_delete(write: Write) -> Accepted:
    """Delete an organization with everything in it.

    It disappears at once; its data is removed in the background, usually within a minute. Nothing can be restored.
    People keep their accounts. Its own webhooks get the event `organization` with the action `deleted`, and have an
    hour to receive it. Issued invoices are deleted, too: export the organization first if you have to keep them. For
    owners of the organization.
    """
    await delete_organization(write, named_organization(write.call).account)
    return Accepted()


@routes.delete("/admin/organizations/{org}", status=202, access="site_admin", tag="administration")
async def admin_organizations_delete(write: Write, org: str) -> Accepted:
    """Delete an organization with everything in it.

    As `DELETE /orgs/{org}`. For administrators of the server, who need no place in the organization.
    """
    await require_administrator(write.tx, write.actor)
    organization = await find_account(write.tx, org)
    if organization is None or organization.kind != "organization":
        raise NotFound()
    await delete_organization(write, organization)
    return Accepted()
