"""The webhooks of projects and organizations, at `/{owner}/{project}/webhooks` and `/{owner}/-/webhooks`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec

from workhook.core.errors import Forbidden, Problem, TooManyRequests
from workhook.hooks import actions, health, queries
from workhook.hooks.actions import hook_of, owner_of
from workhook.hooks.deliveries import TOO_MANY
from workhook.hooks.schemas import AppHook, Hook, HookOwner
from workhook.http.calls import Response
from workhook.identity import policy
from workhook.identity.queries import find_organization
from workhook.storage.pages import Page
from workhook.web.frame.places import Places, Visit, for_site
from workhook.web.frame.texts import gettext, ngettext, text
from workhook.work.kernel.access import Access

SitePage = Callable[[Visit, "HookSite"], Awaitable[Response]]


_REFUSED = {
    "project": text("Only project admins can view and manage webhooks. Ask one for help."),
    "organization": text("Only organization owners can view and manage webhooks. Ask one for help."),
}


class HookSite(msgspec.Struct, frozen=True):
    """The owner of a page's webhooks. `access` is the visitor's access to the project, or None for an organization."""

    owner: HookOwner
    access: Access | None

    @property
    def base(self) -> str:
        """Return the address of the webhook list."""
        name = self.owner.repository.full_name if self.owner.repository else f"{self.owner.account.login}/-"
        return f"/{name}/webhooks"

    def address(self, hook_id: int) -> str:
        return f"{self.base}/{hook_id}"


class HookPlaces(Places):
    """Places that exist for both kinds of sites and receive their `HookSite`."""

    def route(self, method: str, path: str, *, right: str = "", **facts: Any) -> Callable[[SitePage], SitePage]:  # type: ignore[override]
        """Declare a page or form. `right` is read, write, or delete; by default, the one that the method requires."""
        asked = right or ("read" if method == "GET" else "write")

        def declare(function: SitePage) -> SitePage:
            for kind, parent in (("project", "{project}"), ("organization", "-")):
                route = super(HookPlaces, self).route(method, f"/{{owner}}/{parent}/webhooks{path}", **facts)
                route(for_site(function, kind, partial(_find_site, kind=kind, right=asked)))
            return function

        return declare


async def _find_site(visit: Visit, *, kind: str, right: str) -> HookSite:
    try:
        if kind == "project":
            await visit.repository(f"repository_hooks.{right}")
        else:
            await visit.organization(f"organization_hooks.{'write' if right == 'delete' else right}")
    except Forbidden as problem:
        raise Forbidden(gettext(_REFUSED[kind]), code=problem.code) from problem
    return HookSite(owner_of(visit.call), await visit.access() if kind == "project" else None)


@contextmanager
def limit_in_words() -> Iterator[None]:
    """Translate the error raised when the limit of pings, tests, and redeliveries per minute is exceeded."""
    try:
        yield
    except Forbidden as problem:
        if problem.code != TOO_MANY:
            raise
        wait_s = int(problem.headers["Retry-After"])
        message = ngettext(
            "Too many pings, tests, and redeliveries. Try again in %(num)s second.",
            "Too many pings, tests, and redeliveries. Try again in %(num)s seconds.",
            wait_s,
        )
        raise TooManyRequests(message, retry_after_s=wait_s) from problem


async def hook_page(visit: Visit, template: str, site: HookSite, hook: Hook, **values: Any) -> Response:
    """Show a page of a webhook, with the reason if it is disabled."""
    its = values.get("health")  # already read with the health
    reason = its.off_reason if its else await health.off_reason(visit.database, hook)
    return visit.page(template, site=site, hook=hook, off_reason=reason, **values)


async def hook_at(visit: Visit) -> Hook:
    """Return the webhook in the path if the visitor can see it. Raises `NotFound`."""
    return await hook_of(visit.call, visit.database, hook_id_of(visit))


def hook_id_of(visit: Visit) -> int:
    return visit.call.path_integer("hook_id")


app_hook_places = HookPlaces("app_hook")
SHOWN_MAX = 100


async def list_app_hooks(visit: Visit, site: HookSite) -> tuple[list[AppHook], int]:
    """Return the first webhooks that OAuth apps created in an organization, and the total. Only owners get any."""
    if site.owner.repository is not None:
        return [], 0
    found = await find_organization(visit.database, site.owner.account.login, visit.actor.user.id)
    try:
        organization = policy.check_organization(found, policy.RULES["oauth_hooks.read"], visit.actor)
    except Problem:  # not an owner, or the project is a user's own
        return [], 0
    page = Page(SHOWN_MAX)
    return await queries.list_app_hooks(visit.database, visit.actor, organization.account, page)


@app_hook_places.post("/by-apps/{hook_id}/delete", right="read", action="hook.delete")
async def delete(visit: Visit, site: HookSite) -> Response:
    """Delete a webhook created by an OAuth app."""
    account = (await visit.organization("oauth_hooks.delete")).account
    await visit.change(lambda write: actions.delete_app_hook(write.tx, write.actor, account, hook_id_of(visit)))
    return visit.done(site.base, gettext("Webhook deleted."))
