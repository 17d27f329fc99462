"""What an app asks for and what a user has let it do: scopes of an OAuth app, permissions of an app."""

from __future__ import annotations

import re
from collections.abc import Iterable

from workhook.identity.apps.schemas import App
from workhook.identity.policy import SCOPES, expand

_SEPARATORS = re.compile(r"[\s,]+")

_WORK = "projects, tasks, files, comments, timesheets, services, checkouts, task credits"
_PLACES = "add and remove people and clients of projects, and make projects private or open to the whole organization"

SCOPE_WORDS = {
    "repo": "Publish events of every repository that you can write to, and manage the webhooks of those you administer",
    "admin:repo_hook": "Create, change and delete webhooks of your repositories, and publish events of them",
    "write:repo_hook": "Create and change webhooks of your repositories, and publish events of them",
    "read:repo_hook": "See webhooks of your repositories and what they delivered",
    "admin:org_hook": "Manage the webhooks of organizations that you own, publish events of them, see their audit log",
    "admin:org": "See the audit log of organizations that you own",
    "work": f"See, create, change and delete {_WORK} and invoices; see activity, what was deleted, and who is in "
    f"projects and in your organizations; {_PLACES}; all as far as you can",
    "work:read": f"See {_WORK}, invoices, activity, what was deleted, and who is in projects and in your "
    "organizations, as far as you can",
}
PERMISSION_WORDS = {
    "repository_hooks:read": "See webhooks of repositories and what they delivered",
    "repository_hooks:write": "Create, change and delete webhooks of repositories, and publish events of them",
    "organization_hooks:read": "See the organization's webhooks and what they delivered",
    "organization_hooks:write": "Create, change and delete the organization's webhooks, publish events of it, "
    "see its audit log",
    "work:read": f"See {_WORK}, invoices, activity, what was deleted, and who is in projects and in the organizations",
    "work:write": f"See, create, change and delete {_WORK} and invoices; see activity, what was deleted, and who is in "
    f"projects and in the organizations; for a user who lets it act also {_PLACES}",
}


def requested(text: str | None) -> frozenset[str]:
    """The scopes that a text names, separated by spaces or commas: without unknown ones, and without those that
    another one of them includes."""
    known = set(_SEPARATORS.split(text or "")) & set(SCOPES)
    return _strongest(known)


def _strongest(scopes: Iterable[str]) -> frozenset[str]:
    named = frozenset(scopes)
    return frozenset(one for one in named if not any(one in expand(frozenset({other})) for other in named - {one}))


def wanted(app: App, scopes: frozenset[str]) -> frozenset[str]:
    """What a grant has to cover. Of an app that is what it was registered with; it has no scopes."""
    if app.is_oauth:
        return scopes
    return frozenset(f"{name}:{level}" for name, level in app.permissions.items())


def covers(app: App, granted: frozenset[str], asked: frozenset[str]) -> bool:
    """Whether what the user has allowed before is enough. Both as `wanted` answers them."""
    if app.is_oauth:
        return asked <= expand(granted)
    return all(one in granted or one.partition(":")[0] + ":write" in granted for one in asked)


def together(app: App, granted: frozenset[str], asked: frozenset[str]) -> frozenset[str]:
    """What is allowed after `asked` was allowed too."""
    both = granted | asked
    return _strongest(both) if app.is_oauth else both


def in_words(app: App, asked: frozenset[str]) -> list[str]:
    """For the page on which a person decides, in an order that stays."""
    words = SCOPE_WORDS if app.is_oauth else PERMISSION_WORDS
    return [text for name, text in words.items() if name in asked]


def stored(text: str) -> frozenset[str]:
    """From a column."""
    return frozenset(text.split())
