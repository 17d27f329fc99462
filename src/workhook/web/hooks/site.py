"""Where webhooks are: each place exists for a project and, the same, for an organization.

    places = HookPlaces("hook")

    @places.get("")
    async def hooks(visit: Visit, site: HookSite) -> Answer:
        \"\"\"Show the webhooks.\"\"\"

The addresses begin with `/{owner}/{project}/webhooks` and `/{owner}/-/webhooks`. Who may see them, and change them, is
what the rules of the webhook API say.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from workhook.core.errors import Forbidden, Problem, TooManyRequests
from workhook.hooks import actions, health, queries
from workhook.hooks.actions import hook_of, owner_of
from workhook.hooks.deliveries import TOO_MANY
from workhook.hooks.records import AppHook, Hook, HookOwner
from workhook.http.calls import Answer
from workhook.identity import policy
from workhook.identity.queries import find_organization
from workhook.storage.pages import Page
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext, text
from workhook.work.kernel.access import Access

SitePage = Callable[[Visit, "HookSite"], Awaitable[Answer]]


_REFUSED = {
    "project": text("Only admins of the project see its webhooks and change them. Ask one of them."),
    "organization": text("Only owners of the organization see its webhooks and change them. Ask one of them."),
}


class HookSite(msgspec.Struct, frozen=True):
    """What the webhooks of a page belong to. `access`: the visitor's in the project; None: an organization's."""

    owner: HookOwner
    access: Access | None

    @property
    def base(self) -> str:
        """The address of the list of webhooks."""
        name = self.owner.repository.full_name if self.owner.repository else f"{self.owner.account.login}/-"
        return f"/{name}/webhooks"

    def address(self, hook_id: int) -> str:
        return f"{self.base}/{hook_id}"


class HookPlaces(Places):
    """Places that exist twice, each with the `HookSite` that its path names."""

    def route(self, method: str, path: str, *, right: str = "", **facts: Any) -> Callable[[SitePage], SitePage]:  # type: ignore[override]
        """`right`: read, write or delete; without it, what fits the method."""
        asked = right or ("read" if method == "GET" else "write")

        def declare(function: SitePage) -> SitePage:
            route = super(HookPlaces, self).route
            route(method, f"/{{owner}}/{{project}}/webhooks{path}", **facts)(_of(function, "project", asked))
            asked_there = "write" if asked == "delete" else asked
            route(method, f"/{{owner}}/-/webhooks{path}", **facts)(_of(function, "organization", asked_there))
            return function

        return declare


def _of(function: SitePage, kind: str, right: str) -> Callable[[Visit], Awaitable[Answer]]:
    """`kind`: project or organization."""

    async def place(visit: Visit) -> Answer:
        try:
            if kind == "project":
                await visit.repository(f"repository_hooks.{right}")
            else:
                await visit.organization(f"organization_hooks.{right}")
        except Forbidden as problem:
            raise Forbidden(gettext(_REFUSED[kind]), code=problem.code) from problem
        access = await visit.access() if kind == "project" else None
        return await function(visit, HookSite(owner_of(visit.call), access))

    place.__name__ = f"{kind}_{getattr(function, '__name__', '')}"
    place.__doc__ = inspect.getdoc(function)
    return place


@contextmanager
def limit_in_words() -> Iterator[None]:
    """Say in the page's words that the limit of pings, tests and repeats in a minute is reached."""
    try:
        yield
    except Forbidden as problem:
        if problem.code != TOO_MANY:
            raise
        wait_s = problem.headers["Retry-After"]
        message = gettext("There were too many pings, tests and repeats. Try again in %(seconds)s seconds.")
        raise TooManyRequests(message % {"seconds": wait_s}, retry_after_s=int(wait_s)) from problem


async def hook_page(
    visit: Visit, template: str, site: HookSite, hook: Hook, *, status: int = 200, **values: Any
) -> Answer:
    """A page of one webhook, which says at its top why it is off."""
    its = values.get("health")  # which has read it
    reason = its.off_reason if its else await health.off_reason(visit.database, hook)
    return visit.page(template, status=status, site=site, hook=hook, off_reason=reason, **values)


async def hook_at(visit: Visit) -> Hook:
    """The webhook of the path, if the visitor sees it. Raises `NotFound`."""
    return await hook_of(visit.call, visit.database, hook_id_of(visit))


def hook_id_of(visit: Visit) -> int:
    """Raises `NotFound` for what cannot be an id."""
    return visit.call.path_integer("hook_id")


app_hook_places = HookPlaces("app_hook")
SHOWN_MAX = 100


async def list_app_hooks(visit: Visit, site: HookSite) -> tuple[list[AppHook], int]:
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


@app_hook_places.post("/by-apps/{hook_id}/delete", right="read", action="hook.delete")
async def delete(visit: Visit, site: HookSite) -> Answer:
    """Delete a webhook that an OAuth app made."""
    organization = await visit.organization("oauth_hooks.delete")
    await visit.change(
        lambda write: actions.delete_app_hook(write.tx, write.actor, organization.account, hook_id_of(visit))
    )
    return visit.done(site.base, gettext("The webhook was deleted."))
