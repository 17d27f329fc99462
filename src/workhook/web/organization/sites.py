"""Where the apps of an organization are managed: most places exist for OAuth apps and, the same, for apps.

    places = AppPlaces("apps")

    @places.shown("")
    async def listed(visit: Visit, site: AppSite) -> Answer:
        \"\"\"List the apps.\"\"\"

The addresses begin with `/{owner}/settings/oauth-apps` and `/{owner}/settings/apps`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from workhook.http.calls import Answer
from workhook.identity.apps.schemas import App
from workhook.identity.schemas import Organization
from workhook.web.frame.places import Places, Visit
from workhook.web.organization.settings import owned, settings_address

Page = Callable[[Visit, "AppSite"], Awaitable[Answer]]
_PARTS = {"oauth": ("oauth-apps", "client_id"), "app": ("apps", "slug")}
NEW = {"oauth": "new-oauth-app", "app": "new-app"}
"""Where one is made. It stands beside the list, since an app could be called `new`."""


class AppSite(NamedTuple):
    """Apps of one kind (oauth or app) and their organization."""

    kind: str
    organization: Organization

    @property
    def is_oauth(self) -> bool:
        return self.kind == "oauth"

    @property
    def base(self) -> str:
        """The address of the list."""
        return settings_address(self.organization.account, _PARTS[self.kind][0])

    @property
    def new_address(self) -> str:
        return settings_address(self.organization.account, NEW[self.kind])

    def address(self, app: App) -> str:
        return f"{self.base}/{app.client_id if app.is_oauth else app.slug}"


class AppPlaces(Places):
    """Places that exist twice, each with the `AppSite` that its path names."""

    def shown(self, path: str = "", *, new: bool = False) -> Callable[[Page], Page]:
        """A page. Its path goes behind the list's address, `/*` standing for an app. `new`: behind `NEW` instead."""
        return self._both("GET", path, new)

    def sent(self, path: str = "", *, action: str, new: bool = False, makes: bool = False) -> Callable[[Page], Page]:
        """A form, with a path as a page has it. `makes`: as in `Places.route`. `action`: what the audit log calls it,
        without the thing that it is done to."""
        return self._both("POST", path, new, action, makes=makes)

    def _both(
        self, method: str, path: str, new: bool, action: str = "", *, makes: bool = False
    ) -> Callable[[Page], Page]:
        def declare(function: Page) -> Page:
            for kind, (part, parameter) in _PARTS.items():
                below = NEW[kind] if new else part + path.replace("*", f"{{{parameter}}}")
                called = f"{'oauth_app' if kind == 'oauth' else 'app'}.{action}" if action else ""
                self.route(method, f"/{{owner}}/settings/{below}", makes=makes, action=called)(_of(function, kind))
            return function

        return declare


def _of(function: Page, kind: str) -> Callable[[Visit], Awaitable[Answer]]:
    async def place(visit: Visit) -> Answer:
        part, parameter = _PARTS[kind]
        name: Any = visit.call.request.path_params.get(parameter)
        back = () if visit.call.operation.method == "GET" or name is None else (part, str(name))
        return await function(visit, AppSite(kind, await owned(visit, *back)))

    place.__name__ = f"{kind}_{getattr(function, '__name__', '')}"
    place.__doc__ = inspect.getdoc(function)
    return place
