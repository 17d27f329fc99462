"""Reserved names, with which other addresses of the server begin. A test compares them with the routes.

An organization's page is `/{owner}`, a project's `/{owner}/{project}`, so an account or project with such a name would
be unreachable.
"""

from __future__ import annotations

from workhook.core.errors import say

LOGINS = frozenset({
    # the API and operations
    "admin", "api", "app", "applications", "apps", "docs", "graphql", "healthz", "installation", "meta", "metrics",
    "organizations", "orgs", "readyz", "repos", "repositories", "user", "users", "webhook-events", "zen",
    # pages
    "calendar", "inbox", "invitations", "invoices", "login", "logout", "mail", "new", "receive", "search", "settings",
    "start", "static", "tasks", "time", "welcome",
})  # fmt: skip
"""Reserved logins of users and organizations, in any case."""

PROJECTS = frozenset({
    "-", "activity", "audit", "billing", "clients", "invoices", "new", "people", "projects", "services", "settings",
    "time", "webhooks",
})  # fmt: skip
"""Reserved names of projects, in any case: an organization's own pages."""


def login_fault(login: str) -> str | None:
    """Return why the login is reserved, or None."""
    return _fault("login", login) if login.lower() in LOGINS else None


def project_fault(name: str) -> str | None:
    """Return why the project's name is reserved, or None."""
    return _fault("name", name) if name.lower() in PROJECTS else None


def _fault(field: str, name: str) -> str:
    return say("{} {} is reserved for a page of the server; choose another", field, name)
