"""`/admin/users` and `/admin/organizations`: people and organizations of the server, for its administrators.

To everybody else none of this is there.
"""

from __future__ import annotations

from workhook.http.calls import Call
from workhook.http.endpoints import Created, Paged, Retry, Routes
from workhook.http.operations import WEBHOOK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.identity.profile_schemas import OrganizationProfileShape, organization_profile_shape
from workhook.storage.database import UniqueViolation
from workhook.storage.pages import Page
from workhook.work.administration import accounts as actions
from workhook.work.administration.accounts import (
    AdministeredUser,
    OrganizationCreate,
    UserCreate,
    administered_user,
    require_administrator,
)
from workhook.work.kernel.schemas import if_set

routes = Routes(WEBHOOK_API, "administration", read="site_admin", write="site_admin")
_TAKEN = Retry(UniqueViolation)  # two want the same login at once: the second is told


@routes.get("/admin/users", problems=(404,), action="user.list")
async def admin_users_list(call: Call, page: Page) -> Paged[list[AdministeredUser]]:
    """List the people who have an account.

    For administrators of the server.
    """
    await require_administrator(call.database, actor_of(call))
    found, total = await actions.list_users(call.database, page)
    return Paged([administered_user(each, call.base) for each in found], total)


@routes.post("/admin/users", retry=_TAKEN, resource="User", problems=(404,), action="user.create")
async def admin_users_create(write: Write, wanted: UserCreate) -> Created[AdministeredUser]:
    """Add a person.

    They have no password yet: the command line makes a link with which they choose one. For administrators of the
    server.
    """
    await require_administrator(write.tx, write.actor)
    made = await actions.add_user(write, wanted.login, wanted.email, if_set(wanted.name))
    shape = administered_user(made, write.call.base)
    return Created(shape, shape.url)


@routes.post("/admin/users/{username}/disable", action="user.disable")
async def admin_users_disable(write: Write, username: str) -> AdministeredUser:
    """Lock a person out.

    Within a second nothing of theirs is good any more: sessions, tokens and streams end, timers are finished. What they
    did stays. 422: they are the last owner of an organization, or the last administrator. For administrators of the
    server.
    """
    await require_administrator(write.tx, write.actor)
    return administered_user(await actions.disable(write, username), write.call.base)


@routes.post("/admin/users/{username}/enable", action="user.enable")
async def admin_users_enable(write: Write, username: str) -> AdministeredUser:
    """Let a person in again.

    Their tokens and password from before are good again. For administrators of the server.
    """
    await require_administrator(write.tx, write.actor)
    return administered_user(await actions.enable(write, username), write.call.base)


@routes.delete("/admin/users/{username}", action="user.delete")
async def admin_users_delete(write: Write, username: str) -> None:
    """Remove a person's account.

    What they did stays, as that of a former member; their name, address, tokens and places are gone, and nothing brings
    them back. 422: they are the last owner of an organization, the last administrator, or have projects of their own.
    For administrators of the server.
    """
    await require_administrator(write.tx, write.actor)
    await actions.remove_user(write, username)


@routes.post(
    "/admin/organizations", retry=_TAKEN, resource="Organization", problems=(404,), action="organization.create"
)
async def admin_organizations_create(write: Write, wanted: OrganizationCreate) -> Created[OrganizationProfileShape]:
    """Add an organization.

    For administrators of the server, who do not become members by it.
    """
    await require_administrator(write.tx, write.actor)
    made = await actions.add_organization(write, wanted.login, wanted.admin, if_set(wanted.profile_name))
    shape = organization_profile_shape(made, write.call.base)
    return Created(shape, shape.url)
