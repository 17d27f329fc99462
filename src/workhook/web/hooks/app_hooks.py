"""An organization's webhooks that OAuth apps created. Only the app reads and changes them; owners can list and delete
them. A project's webhooks are all in its own list."""

from __future__ import annotations

from workhook.core.errors import Problem
from workhook.hooks import actions, queries
from workhook.hooks.records import AppHook
from workhook.http.calls import Answer
from workhook.identity import policy
from workhook.identity.queries import find_organization
from workhook.storage.pages import Page
from workhook.web.frame.places import Visit
from workhook.web.frame.texts import gettext
from workhook.web.hooks.site import HookPlaces, HookSite, hook_id_of

places = HookPlaces("app_hook")
SHOWN_MAX = 100


async def listed(visit: Visit, site: HookSite) -> tuple[list[AppHook], int]:
    """Return the first webhooks of the organization that OAuth apps created, and their number. Empty on a project's
    page and for visitors who are not owners."""
    if site.owner.repository is not None:
        return [], 0
    found = await find_organization(visit.database, site.owner.account.login, visit.actor.user.id)
    try:
        organization = policy.check_organization(found, policy.RULES["oauth_hooks.read"], visit.actor)
    except Problem:  # not an owner, or the project is a user's own
        return [], 0
    page = Page(SHOWN_MAX)
    return await queries.list_app_hooks(visit.database, visit.actor, organization.account, page)


@places.post("/by-apps/{hook_id}/delete", right="read")
async def delete(visit: Visit, site: HookSite) -> Answer:
    """Delete a webhook that an OAuth app made."""
    organization = await visit.organization("oauth_hooks.delete")
    await visit.change(
        lambda write: actions.delete_app_hook(write.tx, write.actor, organization.account, hook_id_of(visit))
    )
    return visit.done(site.base, gettext("The webhook was deleted."))
