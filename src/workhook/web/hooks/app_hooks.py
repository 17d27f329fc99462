"""The webhooks that OAuth apps made. The app alone sees and changes them, but owners see what leaves their
organization, and can end it."""

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
    """Those of the project, or those of the organization and its projects, and how many there are. None for somebody
    who is not an owner."""
    found = await find_organization(visit.database, site.owner.account.login, visit.actor.user.id)
    try:
        organization = policy.check_organization(found, policy.RULES["oauth_hooks.read"], visit.actor)
    except Problem:  # not an owner, or the project is a user's own
        return [], 0
    page = Page(SHOWN_MAX)
    return await queries.list_app_hooks(
        visit.database, visit.actor, organization.account, page, repository_id=site.owner.repository_id
    )


@places.post("/by-apps/{hook_id}/delete", right="read")
async def delete(visit: Visit, site: HookSite) -> Answer:
    """Delete a webhook that an OAuth app made."""
    organization = await visit.organization("oauth_hooks.delete")
    await visit.change(
        lambda write: actions.delete_app_hook(write.tx, write.actor, organization.account, hook_id_of(visit))
    )
    return visit.done(site.base, gettext("The webhook was deleted."))
