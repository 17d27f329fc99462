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

from workhook.core.errors import Forbidden, TooManyRequests
from workhook.hooks import health
from workhook.hooks.api import hook_of, owner_of
from workhook.hooks.deliveries import TOO_MANY
from workhook.hooks.records import Hook, HookOwner
from workhook.http.calls import Answer
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext
from workhook.work.kernel.access import Access

Page = Callable[[Visit, "HookSite"], Awaitable[Answer]]


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

    def route(self, method: str, path: str, *, right: str = "", **facts: Any) -> Callable[[Page], Page]:  # type: ignore[override]
        """`right`: read, write or delete; without it, what fits the method."""
        asked = right or ("read" if method == "GET" else "write")

        def declare(function: Page) -> Page:
            super(HookPlaces, self).route(method, f"/{{owner}}/{{project}}/webhooks{path}", **facts)(
                _of_project(function, asked)
            )
            super(HookPlaces, self).route(method, f"/{{owner}}/-/webhooks{path}", **facts)(
                _of_organization(function, "write" if asked == "delete" else asked)
            )
            return function

        return declare


def _of_project(function: Page, right: str) -> Callable[[Visit], Awaitable[Answer]]:
    async def place(visit: Visit) -> Answer:
        try:
            await visit.repository(f"repository_hooks.{right}")
        except Forbidden as problem:
            message = gettext("Only admins of the project see its webhooks and change them. Ask one of them.")
            raise Forbidden(message, code=problem.code) from problem
        return await function(visit, HookSite(owner_of(visit.call), await visit.access()))

    return _named(place, function, "project")


def _of_organization(function: Page, right: str) -> Callable[[Visit], Awaitable[Answer]]:
    async def place(visit: Visit) -> Answer:
        try:
            await visit.organization(f"organization_hooks.{right}")
        except Forbidden as problem:
            message = gettext("Only owners of the organization see its webhooks and change them. Ask one of them.")
            raise Forbidden(message, code=problem.code) from problem
        return await function(visit, HookSite(owner_of(visit.call), None))

    return _named(place, function, "organization")


def _named(
    place: Callable[[Visit], Awaitable[Answer]], function: Page, kind: str
) -> Callable[[Visit], Awaitable[Answer]]:
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
